"""The fidelity probe's report as the backend page shows it: verdict, checks, and one prompt asked three ways."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from web.words import pretty_value


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried."""

    name: str
    ok: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way of asking: the call, its answer, and what got lost on the way."""

    title: str
    call: str
    answer: str
    losses: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the last probe found."""

    ok: bool
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    checks: tuple[Check, ...]
    prompt: str
    ways: tuple[Way, ...]


def report(raw: Mapping[str, Any] | None) -> Report | None:
    """The stored report, or None where no probe was made."""
    if not raw:
        return None
    three = raw.get("three_ways") or {}
    return Report(
        ok=bool(raw.get("ok")),
        refusals=_texts(raw.get("refusals")),
        notes=_texts(raw.get("notes")),
        checks=tuple(
            Check(str(item.get("name", "")), item.get("ok"), str(item.get("text", "")))
            for item in raw.get("checks") or ()
        ),
        prompt=_text(three.get("prompt")),
        ways=_ways(three) if three else (),
    )


def _ways(three: Mapping[str, Any]) -> tuple[Way, ...]:
    chat, text, ids = (three.get(name) or {} for name in ("chat", "text", "ids"))
    return (
        Way(
            "Chat endpoint",
            "/v1/chat/completions, with the server's parsers",
            _chat(chat),
            _texts(chat.get("losses")),
            "lost nothing here",
        ),
        Way("Text", "/generate, its text", _text(text.get("text")), _texts(text.get("losses")), "lost nothing here"),
        Way(
            "Token ids",
            "/generate, its output_ids: what is kept",
            _text(ids.get("text")),
            (),
            "exactly what was generated",
        ),
    )


def _chat(chat: Mapping[str, Any]) -> str:
    """The message by its fields, an empty one said to be empty: what a parser did shows only so."""
    if chat.get("error"):
        return _text(chat["error"])
    parts = []
    for name in ("reasoning_content", "content"):
        value = chat.get(name)
        parts.append(f"{name}: {value or ('(null)' if value is None else '(empty)')}")
    if chat.get("tool_calls"):
        parts.append(f"tool_calls: {pretty_value(chat['tool_calls'])}")
    return "\n\n".join(parts)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return "" if value is None else str(value)
