"""What a chat template wants of an assistant turn that calls: seen from what it makes of one, not guessed from its source.

Templates of one family differ here, and people mend theirs: one joins a call's arguments to its text (a mapping raises), the
next writes them as JSON (a text is written as JSON once more), the third goes through their items (a text raises). So each form
is tried on a small conversation, once a tokenizer, and what the family declares settles only what the template leaves open.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from inference.tokens.declaration import TokenFormat
from inference.tokens.errors import TokensError
from inference.tokens.rendering.templates import Message, Prepared, run_template
from inference.tokens.tokenizer import Tokenizer

_NAME, _KEY, _VALUE = "zqname", "zqkey", "zqvalue"
_IDS = (
    f"functions.{_NAME}:0",
    "zqcall001",
)  # Kimi's templates write the id for the name; Mistral's want nine characters
_NONE = re.compile(r"(?<!\w)None(?!\w)")
_WRONG = (f"'{_KEY}'", f'\\"{_KEY}')  # a Python dictionary; JSON inside of JSON


class Wants(NamedTuple):
    """Arguments as text (else as a mapping), and null (else "") for a content that is missing."""

    text_arguments: bool
    null_content: bool


def find_wants(tokenizer: Tokenizer, declared: TokenFormat) -> Wants:
    """What this tokenizer's template takes; the family's word where it takes both, or neither (it writes no calls at all)."""
    key = (declared.arguments_as, declared.null_content)
    known: dict[tuple[str, str], Wants] = tokenizer.template_wants
    if key not in known:
        known[key] = _tried(tokenizer, declared)
    return known[key]


def _tried(tokenizer: Tokenizer, declared: TokenFormat) -> Wants:
    as_text, as_null = declared.arguments_as == "string", declared.null_content == "null"
    wanted = [Wants(text, null) for text in (as_text, not as_text) for null in (as_null, not as_null)]
    return next((form for form in wanted if _fits(tokenizer, form)), wanted[0])


def _fits(tokenizer: Tokenizer, form: Wants) -> bool:
    return any(_is_written(tokenizer, text) for text in _renders(tokenizer, form))


def _renders(tokenizer: Tokenizer, form: Wants) -> Iterator[str]:
    arguments: Any = f'{{"{_KEY}": "{_VALUE}"}}' if form.text_arguments else {_KEY: _VALUE}
    schema = {"type": "object", "properties": {_KEY: {"type": "string", "description": "d"}}, "required": [_KEY]}
    tool = {"type": "function", "function": {"name": _NAME, "description": "d", "parameters": schema}}
    for number in _IDS:
        call = {"id": number, "type": "function", "function": {"name": _NAME, "arguments": arguments}}
        messages: list[Message] = [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None if form.null_content else "", "tool_calls": [call]},
            {"role": "tool", "content": "a", "name": _NAME, "tool_call_id": number},
        ]
        try:
            yield run_template(tokenizer, Prepared(messages, [tool]), {}, add_generation_prompt=True)
        except TokensError:
            continue


def _is_written(tokenizer: Tokenizer, text: str) -> bool:
    """Whether the call stands in the text, once, as nobody would object to."""
    if _VALUE not in text or any(spelling in text for spelling in _WRONG):
        return False
    return _NONE.search(text) is None or _NONE.search(tokenizer.template or "") is not None
