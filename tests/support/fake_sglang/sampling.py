"""The checks SGLang makes of a `/generate` body before the model sees it, with its own sentences."""

from typing import Any

from tests.support.fake_sglang.errors import Refused, validation_message

KNOWN = (
    "max_new_tokens",
    "stop",
    "stop_token_ids",
    "stop_regex",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "min_new_tokens",
    "n",
    "json_schema",
    "regex",
    "ebnf",
    "structural_tag",
    "ignore_eos",
    "skip_special_tokens",
    "spaces_between_special_tokens",
    "no_stop_trim",
    "stream_interval",
    "logit_bias",
    "sampling_seed",
    "custom_params",
    "beam_width",
    "watermark",
    "choice",
)
_INTEGERS = ("max_new_tokens", "min_new_tokens", "top_k", "n", "sampling_seed")
_NUMBERS = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")


def check_body(body: object) -> dict[str, Any]:
    """The body as an object, or shape a."""
    if not isinstance(body, dict):
        text = "Input should be a dictionary or an instance of GenerateReqInput"
        raise Refused(400, "a", validation_message("dataclass_type", ("body",), text, body))
    ids = body.get("input_ids")
    if ids is not None:
        if not isinstance(ids, list):
            text = f"Value error, must be list or null; got {type(ids).__name__}"
            raise Refused(400, "a", validation_message("value_error", ("body", "input_ids"), text, ids))
        if any(isinstance(item, bool) for item in ids):
            raise Refused(400, "b", f"invalid type: {_rust_type(True)}, expected i64")
        wrong = next((item for item in ids if not isinstance(item, int | list)), None)
        if wrong is not None:
            text = f"Value error, elements must be int or list; got {type(wrong).__name__}"
            raise Refused(400, "a", validation_message("value_error", ("body", "input_ids"), text, ids))
    elif body.get("text") is None:
        raise Refused(400, "c", "Either text, input_ids or input_embeds should be provided.")
    if ids == []:
        raise Refused(400, "c", "input_ids cannot be empty.")
    return body


def check_sampling(params: object) -> dict[str, Any]:
    """The sampling parameters, or shape b (names and types) or c (ranges)."""
    params = {} if params is None else params
    if not isinstance(params, dict):
        raise Refused(400, "b", f"invalid type: {type(params).__name__}, expected struct SamplingParams")
    for name, value in params.items():
        if name not in KNOWN:
            raise Refused(400, "b", f"unknown field `{name}`, expected one of {', '.join(f'`{k}`' for k in KNOWN)}")
        if value is None:
            continue
        if name in _INTEGERS and (isinstance(value, bool) or not isinstance(value, int)):
            raise Refused(400, "b", f"invalid type: {_rust_type(value)}, expected i64")
        if name in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise Refused(400, "b", f"invalid type: {_rust_type(value)}, expected f64")
    _check_ranges(params)
    return params


def _rust_type(value: object) -> str:
    if isinstance(value, str):
        return f'string "{value}"'
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    return f"floating point `{value}`" if isinstance(value, float) else type(value).__name__


def _check_ranges(params: dict[str, Any]) -> None:
    limit = params.get("max_new_tokens")
    if limit is not None and limit < 0:
        raise Refused(400, "c", f"max_new_tokens must be at least 0, got {limit}.")
    temperature = params.get("temperature")
    if temperature is not None and temperature < 0:
        raise Refused(400, "c", f"temperature must be a non-negative finite number, got {temperature}.")
    top_p = params.get("top_p")
    if top_p is not None and not 0 < top_p <= 1:
        raise Refused(400, "c", f"top_p must be in (0, 1], got {top_p}.")
    min_p = params.get("min_p")
    if min_p is not None and not 0 <= min_p <= 1:
        raise Refused(400, "c", f"min_p must be in [0, 1], got {min_p}.")
    top_k = params.get("top_k")
    if top_k is not None and top_k < -1:
        raise Refused(400, "c", f"top_k must be -1 (disable) or at least 1, got {top_k}.")


def check_length(prompt: int, limit: int | None, context: int, max_input: int) -> None:
    """The three length rules, in the server's order (`--allow-auto-truncate` skips them)."""
    if prompt >= context:
        raise Refused(
            400, "c", f"The input ({prompt} tokens) is longer than the model's context length ({context} tokens)."
        )
    if limit is not None and prompt + limit > context:
        raise Refused(
            400,
            "c",
            f"Requested token count exceeds the model's maximum context length of {context} tokens. You requested a total of "
            f"{prompt + limit} tokens: {prompt} tokens from the input messages and {limit} tokens for the completion. Please reduce "
            "the number of tokens in the input messages or the completion to fit within the limit.",
        )
    if prompt >= max_input:
        raise Refused(
            400,
            "c",
            f"Input length ({prompt} tokens) exceeds the maximum allowed length ({max_input} tokens). "
            "Use a shorter input or enable --allow-auto-truncate.",
        )
