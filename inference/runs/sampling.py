"""Every sampling value resolved: from the request, else from the model's generation_config, else a default that is shown.

`/generate` reads no generation_config.json, so what SGLang's chat endpoint would take from it has to be sent.
"""

from typing import Any

from db.errors import Invalid
from inference.runs.settings import DEFAULT_BUDGET, FROM_GENERATION_CONFIG, SAMPLING_DEFAULTS, Sampling
from inference.runs.views import Resolved
from inference.tokens.tokenizer import Tokenizer


class Resolution:
    """Settings on their way to being frozen: values, sources and warnings, collected in the order they are decided."""

    def __init__(self) -> None:
        self.items: list[Resolved] = []
        self.warnings: list[str] = []

    def note(self, name: str, value: Any, source: str) -> None:
        """Record where a value came from."""
        self.items.append(Resolved(name=name, value=value, source=source))

    @property
    def sources(self) -> dict[str, str]:
        """{setting: source}."""
        return {item.name: item.source for item in self.items}


def resolve_sampling(asked: Sampling, tokenizer: Tokenizer, context_length: int, notes: Resolution) -> Sampling:
    """All values set; `check_sampling` is the caller's, once the vocabulary is known."""
    values: dict[str, Any] = {}
    given = asked.model_dump(exclude_none=True)
    for name in Sampling.model_fields:
        own = tokenizer.generation_config.get(name) if name in FROM_GENERATION_CONFIG else None
        if name in given:
            values[name], source = given[name], "request"
        elif own is not None and _fits(name, own):
            values[name], source = own, "model: generation_config.json"
            if name == "top_k" and own == 0:
                values[name], source = -1, "model: generation_config.json (0, which means all)"
        elif name == "max_new_tokens":
            values[name] = max(1, min(DEFAULT_BUDGET, context_length // 2))
            source = f"default: half the context, at most {DEFAULT_BUDGET:,}"
        else:
            values[name], source = SAMPLING_DEFAULTS[name], "default"
            if own is not None:
                notes.warnings.append(
                    f"generation_config.json has {name} {own!r}, which SGLang refuses; the default is used."
                )
        notes.note(f"sampling.{name}", values[name], source)
    if values["max_new_tokens"] >= context_length:
        notes.warnings.append(
            f"max_new_tokens {values['max_new_tokens']:,} does not fit a context of {context_length:,} with any prompt: "
            "it is lowered for each sample to the room that its prompt leaves, and recorded there."
        )
    return Sampling.model_validate(values)


def check_sampling(sampling: Sampling, vocab_size: int) -> None:
    """What no single value shows.

    Raises:
        Invalid: `min_new_tokens_too_large`, or `stop_id_out_of_vocabulary`: such an id would take the server down.
    """
    least, most = sampling.min_new_tokens, sampling.max_new_tokens
    if least is not None and most is not None and least > most:
        raise Invalid(
            "min_new_tokens_too_large",
            f"min_new_tokens {least} is above max_new_tokens {most}.",
            field="sampling.min_new_tokens",
        )
    if any(not 0 <= number < vocab_size for number in sampling.stop_token_ids or ()):
        raise Invalid(
            "stop_id_out_of_vocabulary",
            f"A stop_token_ids entry is outside the vocabulary of {vocab_size} ids.",
            field="sampling.stop_token_ids",
        )


def _fits(name: str, value: Any) -> bool:
    if name == "top_k" and value == 0:
        return True
    try:
        Sampling.model_validate({name: value})
    except ValueError:
        return False
    return True
