"""What came back from `/generate`, read strictly: a `Generation`, or a `GenerateError` that says in a sentence why there is none.

Shapes are checked here; whether an answer is the one that was asked for (echo, counts, vocabulary) is the caller's to verify.
"""

import re
from array import array
from dataclasses import dataclass
from html import unescape
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson

from db.types import storable

Ids = npt.NDArray[np.uint32]
ErrorKind = Literal["connection", "timeout", "busy", "rejected", "aborted", "server", "malformed", "unauthorized"]

NAN_HAPPENED = "NaN happened"
"""What SGLang reports as the matched stop where a sampled id was NaN or out of the vocabulary: the answer is corrupt"""

_MESSAGE_LIMIT = 500
_VERSION_LIMIT = 120
"""Letters of a weight version, as the column of an attempt has"""
_MARKUP = re.compile(
    r"<(script|style)\b(?:(?!<(?:script|style|/\1)\b).)*</\1>|<[^<>]*>", flags=re.DOTALL | re.IGNORECASE
)
"""No match goes past the next `<` of its kind, so that 64 kB of opening brackets cost no more than 64 kB of anything"""
_ID_LIMIT = 2**32
_UNDER_LOCK = 500
_FINISH_TYPES = ("stop", "length", "abort")


class GenerateError(Exception):
    """A request that gave no answer.

    `kind`: connection (no answer, or broken off), timeout, busy (429, 503 and their like: later), rejected (this request as
    it stands will never do), aborted, server (5xx, NaN), malformed (an answer that breaks the protocol), unauthorized.
    `status`: the HTTP status where there was one. `code`: a finer reason where one is known (`nan`, `duplicate_rid`).
    `rid`: the request id last in flight, which an abort needs; it differs from the given one after a retry.
    """

    def __init__(
        self, kind: ErrorKind, status: int | None, message: str, *, code: str | None = None, rid: str | None = None
    ) -> None:
        message = storable(
            message
        )  # it may quote a server of whatever kind, and is kept as evidence or as an attempt's error
        super().__init__(kind, status, message)
        self.kind, self.status, self.message, self.code, self.rid = kind, status, message, code, rid

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True, eq=False)
class Generation:
    """One finished answer. `output_ids`: uint32[n], final stop id included; `prompt_ids`: uint32[m] as echoed, None without echo.

    `finish_type` is stop or length; `finish_matched` the stop id or string; `finish_length` the budget as the server
    clipped it. `rid` is the one the answer carries. `meta` is the whole `meta_info`.
    """

    output_ids: Ids
    prompt_ids: Ids | None
    finish_type: str
    finish_matched: int | str | None
    finish_length: int | None
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    weight_version: str | None
    rid: str
    text: str | None
    meta: dict[str, Any]


def read_generation(body: bytes, rid: str) -> Generation:
    """Reads the body of a 200 from `/generate` for one prompt. Raises GenerateError (malformed, aborted, server)."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise _unreadable(body, rid) from None
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    if not isinstance(meta, dict):
        raise _unreadable(body, rid)
    kind, matched, length = _finish(meta.get("finish_reason"), body, rid)
    if meta.get("id") != rid:
        raise _malformed(f"the answer carries the request id {_shown(meta.get('id'))}, not {rid}", body, rid)
    echo = answer.get("prompt_token_ids")
    text, version = answer.get("text"), meta.get("weight_version")
    return Generation(
        output_ids=_ids(answer.get("output_ids"), "output_ids", body, rid),
        prompt_ids=None if echo is None else _ids(echo, "prompt_token_ids", body, rid),
        finish_type=kind,
        finish_matched=matched,
        finish_length=length,
        prompt_tokens=_count(meta, "prompt_tokens", body, rid),
        completion_tokens=_count(meta, "completion_tokens", body, rid),
        cached_tokens=_count(meta, "cached_tokens", body, rid) if meta.get("cached_tokens") is not None else None,
        weight_version=None if version is None else storable(str(version))[:_VERSION_LIMIT],
        rid=rid,
        text=text if isinstance(text, str) else None,
        meta=meta,
    )


def refusal(status: int, body: bytes, rid: str | None = None) -> GenerateError:
    """The error for an HTTP status other than 200, with the server's own sentence."""
    said = sentence_of(body)
    if not said and 300 <= status < 400:  # noqa: PLR2004  (HTTP's own class)
        said = f"HTTP {status} leads to another address, and is not followed: enter the address that answers itself"
    said = said or f"HTTP {status} without a word"
    if status in {401, 403}:
        return GenerateError("unauthorized", status, f"The server refused the API key ({status}: {said}).", rid=rid)
    code = "duplicate_rid" if "uplicate request ID" in said else None
    if status in {408, 409, 425, 429, 503}:
        return GenerateError("busy", status, said, code=code, rid=rid)
    kind: ErrorKind = "server" if status >= 500 or status < 400 else "rejected"  # noqa: PLR2004  (HTTP's own classes)
    return GenerateError(kind, status, said, code=code, rid=rid)


def sentence_of(body: bytes) -> str:
    """What an error body says, whichever of SGLang's shapes it has, or a proxy's page; one line of at most 500 characters."""
    text = body[:65536].decode(errors="replace").strip()
    frame = text.removeprefix("data:").partition("\n\n")[0].strip() if text.startswith("data:") else text
    try:
        said = _said(orjson.loads(frame))
    except orjson.JSONDecodeError:
        said = unescape(_MARKUP.sub(" ", text))
    line = storable(" ".join(said.split()))
    return line if len(line) <= _MESSAGE_LIMIT else line[: _MESSAGE_LIMIT - 1] + "…"


def _said(data: object) -> str:
    if isinstance(data, dict):
        for key in ("error", "message", "detail"):
            if data.get(key):
                return _said(data[key])
    return data if isinstance(data, str) else orjson.dumps(data).decode()


def _finish(reason: object, body: bytes, rid: str) -> tuple[str, int | str | None, int | None]:
    if not isinstance(reason, dict) or reason.get("type") not in _FINISH_TYPES:
        raise _malformed(f"finish_reason is {_shown(reason)}", body, rid)
    if reason["type"] == "abort":
        status = reason.get("status_code")
        message = f"The server aborted the request: {_shown(reason.get('message'))}."
        raise GenerateError("aborted", status if isinstance(status, int) else None, message, rid=rid)
    matched, length = reason.get("matched"), reason.get("length")
    if matched == NAN_HAPPENED:
        message = "The model produced NaN or an id outside its vocabulary; the server put a stop id in its place."
        raise GenerateError("server", None, message, code="nan", rid=rid)
    if (matched is not None and type(matched) not in {int, str}) or (length is not None and type(length) is not int):
        raise _malformed(f"finish_reason is {_shown(reason)}", body, rid)
    return reason["type"], matched, length


def _ids(value: object, name: str, body: bytes, rid: str) -> Ids:
    if not isinstance(value, list):
        raise _malformed(f"{name} is {'missing' if value is None else _shown(value)}, not a list of ids", body, rid)
    try:
        ids = np.frombuffer(array("I", value), dtype=np.uint32)  # a quarter of the cost of np.array on a list
    except TypeError:
        raise _malformed(f"{name} holds something that is no integer", body, rid) from None
    except OverflowError:
        wrong = next(item for item in value if not 0 <= item < _ID_LIMIT)
        raise _malformed(f"{name} holds {wrong}, which is no token id", body, rid) from None
    if _may_hold_bool(ids) and bool in set(map(type, value)):
        raise _malformed(f"{name} holds something that is no integer", body, rid)
    return ids


def _may_hold_bool(ids: Ids) -> bool:
    """Whether any id is 0 or 1, which is what a bool passes for; in pieces for which numpy keeps the interpreter lock."""
    return any(ids[start : start + _UNDER_LOCK].min() <= 1 for start in range(0, len(ids), _UNDER_LOCK))


def _count(meta: dict[str, Any], name: str, body: bytes, rid: str) -> int:
    value = meta.get(name)
    if type(value) is not int or value < 0:
        raise _malformed(f"{name} is {_shown(value)}", body, rid)
    return value


def _unreadable(body: bytes, rid: str) -> GenerateError:
    if body.lstrip().startswith((b"data:", b'{"error"')):  # an error behind a 200, as a stream or a router sends it
        return GenerateError("server", 200, f"The server answered 200 with an error: {sentence_of(body)}", rid=rid)
    return _malformed("the body is no answer of /generate", body, rid)


def _malformed(what: str, body: bytes, rid: str) -> GenerateError:
    sent = " ".join(body[:200].decode(errors="replace").split())
    dots = "…" if len(body) > 200 else ""  # noqa: PLR2004  (the length just cut to)
    return GenerateError(
        "malformed", 200, f"The server's answer breaks the protocol: {what}. It sent: {sent}{dots}", rid=rid
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"  # noqa: PLR2004  (a value inside a sentence)
