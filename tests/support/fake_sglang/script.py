"""What the fake answers: a callable or a JSON spec decides for each prompt, faults included."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True)
class Call:
    """One prompt as it reached the model: `number` counts prompts from 1; `text` is the prompt decoded."""

    number: int
    path: str
    rid: str
    prompt_ids: list[int]
    text: str
    sampling: dict[str, Any]
    body: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """One answer and everything that may be wrong with it. Defaults give the recorded good answer.

    `output_ids` pass through the stop and length rules unless `exact` (then they go out as they are). `status` answers an
    error instead, in body shape `shape` (a–e as in SGLang, or "plain"). `hang` never answers (an abort still ends it).
    `drop` closes the connection before any byte, `cut` after so many bytes of a body whose whole length was promised.
    `body` replaces the response body. `completion_tokens`, `prompt_tokens`, `prompt_token_ids`, `weight_version`,
    `finish_reason` and `rid` override what would be true; `meta` is merged last; `remove` takes keys out of answer and meta.
    `queued`: an abort finds the request in the waiting queue. `die` takes the whole server down with this request.
    """

    output_ids: list[int] | None = None
    exact: bool = False
    delay: float = 0.0
    hang: bool = False
    status: int | None = None
    shape: str = "d"
    message: str = "The request queue is full."
    drop: bool = False
    cut: int | None = None
    body: str | None = None
    finish_reason: dict[str, Any] | None = None
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    prompt_token_ids: list[int] | None = None
    weight_version: str | None = None
    rid: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    queued: bool = False
    die: bool = False

    @classmethod
    def nan(cls, output_ids: list[int]) -> "Answer":
        """A step that produced NaN: the last id was overwritten by a stop id."""
        return cls(output_ids=output_ids, exact=True, finish_reason={"type": "stop", "matched": "NaN happened"})

    @classmethod
    def aborted(cls, output_ids: list[int] | None = None) -> "Answer":
        """HTTP 200 with finish reason abort, as after `/abort_request`."""
        reason = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        return cls(output_ids=output_ids or [], exact=True, finish_reason=reason)

    @classmethod
    def busy(cls, status: int = 503) -> "Answer":
        """The queue is full."""
        return cls(status=status)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Answer":
        """An answer from a JSON object; an unknown key is a ValueError."""
        known = {f.name for f in fields(cls)}
        if unknown := set(data) - known:
            raise ValueError(f"unknown answer keys {sorted(unknown)}; known are {sorted(known)}")
        return replace(cls(), **{**data, "remove": tuple(data.get("remove", ()))})


Reply = Answer | list[int] | None
Script = Callable[[Call], Reply | Awaitable[Reply]]


class JsonScript:
    """Rules from JSON: the first whose `when` fits and whose `times` are not used up answers; else `default`; else the usual.

    `{"rules": [{"when": {...}, "times": 3, "answer": {...}}], "default": {...}}`; `when` takes `prompt_ids` (whole),
    `contains` (one id), `text` (part of the decoded prompt), `numbers` (prompt counts from 1), `path`.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._rules = [
            (r.get("when", {}), [int(r.get("times", -1))], Answer.from_json(r["answer"])) for r in spec.get("rules", [])
        ]
        self._default = Answer.from_json(spec["default"]) if "default" in spec else None

    def __call__(self, call: Call) -> Answer | None:
        """The answer for this prompt, or None for the usual one."""
        for when, left, answer in self._rules:
            if left[0] != 0 and _fits(when, call):
                left[0] -= 1
                return answer
        return self._default


def _fits(when: Mapping[str, Any], call: Call) -> bool:
    tests: dict[str, Callable[[Any], bool]] = {
        "prompt_ids": lambda v: v == call.prompt_ids,
        "contains": lambda v: v in call.prompt_ids,
        "text": lambda v: v in call.text,
        "numbers": lambda v: call.number in v,
        "path": lambda v: v == call.path,
    }
    return all(tests[key](value) for key, value in when.items())
