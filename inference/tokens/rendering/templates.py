"""A chat template run on prepared messages.

The template is compiled by transformers, sandboxed as there, but rendered here: transformers drops nulls that some templates
ask for (`content is none`), turns the date function into a text, and takes a number's digits from it. A tokenizer with its own
rendering code is asked itself.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from inference.tokens.errors import TokensError
from inference.tokens.numbers import to_json
from inference.tokens.tokenizer import Tokenizer

Message = dict[str, Any]


class Prepared(NamedTuple):
    """What goes into a template: messages and tools in the shape it takes."""

    messages: list[Message]
    tools: list[dict[str, Any]] | None


def run_template(
    tokenizer: Tokenizer, prepared: Prepared, arguments: Mapping[str, Any], *, add_generation_prompt: bool
) -> str:
    """The conversation as text. Raises `TokensError("template_failed")` with the template's own sentence."""
    backend = tokenizer.backend
    try:
        with tokenizer.lock:
            if has_own_code(backend):
                text = backend.apply_chat_template(
                    prepared.messages,
                    tools=prepared.tools,
                    tokenize=False,
                    add_generation_prompt=add_generation_prompt,
                    **arguments,
                )
            else:
                from transformers.utils.chat_template_utils import _compile_jinja_template as compiled

                template = compiled(backend.get_chat_template(None, prepared.tools))
                template.environment.filters["tojson"] = _tojson
                text = template.render(
                    messages=prepared.messages,
                    tools=prepared.tools,
                    documents=None,
                    add_generation_prompt=add_generation_prompt,
                    **{**backend.special_tokens_map, **arguments},
                )
    except Exception as error:  # a template is a program of someone else's: it raises what it likes
        sentence = " ".join(str(error).split())[:500].rstrip(".") or type(error).__name__
        raise TokensError(
            "template_failed",
            f"The chat template refused the conversation: {sentence}. Change its messages, or leave it out.",
            "messages",
        ) from error
    if not isinstance(text, str):
        raise TokensError("template_failed", "The chat template gave no text.", "messages")
    return text


def ask_tokenizer(
    tokenizer: Tokenizer, prepared: Prepared, arguments: Mapping[str, Any], *, add_generation_prompt: bool
) -> Any:
    """What the tokenizer itself makes of the conversation in one go: ids, in whatever shape its version answers with."""
    with tokenizer.lock:
        return tokenizer.backend.apply_chat_template(
            prepared.messages,
            tools=prepared.tools,
            tokenize=True,
            add_generation_prompt=add_generation_prompt,
            **arguments,
        )


class Source(NamedTuple):
    """What a template's source tells: the names that it asks for anywhere, and the words that it writes itself."""

    names: frozenset[str]
    wording: str


def read_source(tokenizer: Tokenizer, tools: list[dict[str, Any]] | None) -> Source | None:
    """None where code of the checkpoint's own renders, which may ask for other names and write other words."""
    return None if has_own_code(tokenizer.backend) else _read(tokenizer.backend.get_chat_template(None, tools))


@lru_cache(maxsize=32)
def _read(source: str) -> Source:
    from jinja2 import nodes
    from transformers.utils.chat_template_utils import _compile_jinja_template as compiled

    tree = compiled(source).environment.parse(source)
    words = [node.data for node in tree.find_all(nodes.TemplateData)]
    words += [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, str)]
    names = frozenset(node.name for node in tree.find_all(nodes.Name) if node.ctx == "load")
    return Source(names, "\n".join(words))


def _tojson(
    x: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """The filter as transformers gives it to templates, with the digits of numbers kept; the names are the templates'."""
    return to_json(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def has_own_code(backend: Any) -> bool:
    """Whether the tokenizer renders conversations by Python code of its checkpoint."""
    from transformers import PreTrainedTokenizerBase

    return type(backend).apply_chat_template is not PreTrainedTokenizerBase.apply_chat_template
