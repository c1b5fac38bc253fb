"""What the sample page shows, as frozen values: facts, flags with their places, segment cards, the token pane, addresses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from db.filters import Filter
from inference.review.views import AttemptView, FlagView, SampleTokens, SampleView, SegmentView
from web import calls, strip, words
from web.filters import address

VIEWS = ("split", "raw", "seg", "text")
PROMPT_AT_ONCE = 4_000
"""A longer prompt's tokens are drawn on request."""
WINDOW_ABOVE = 100_000
"""Outputs up to here are drawn whole; longer ones in windows."""
WINDOW = 20_000
_SLIM_TEXT = 48


@dataclass(frozen=True, slots=True)
class Address:
    """Where a sample's page is inside a filter and a view."""

    flt: Filter
    view: str = "split"

    def carry(self) -> list[tuple[str, str]]:
        """What goes along to the next sample."""
        return self.flt.to_query() + ([("view", self.view)] if self.view != "split" else [])

    def of(self, sample_id: int, **more: object) -> str:
        """A sample's page; `more` are added to the query."""
        return address(f"/samples/{sample_id}", self.carry() + [(name, str(value)) for name, value in more.items()])


@dataclass(frozen=True, slots=True)
class FlagLink:
    """A flag, and where it points."""

    code: str
    severity: str
    message: str
    start: int | None
    end: int | None
    href: str | None


@dataclass(frozen=True, slots=True)
class Card:
    """One segment as it is drawn; `slim` is a line instead of a card (a delimiter)."""

    segment: SegmentView
    slim: bool
    share: str
    calls: tuple[calls.Call, ...]
    flags: tuple[FlagView, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a message that is not its text: a tool call, an image, earlier reasoning."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the prompt, as uploaded."""

    role: str
    text: str | None
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token pane; `prompt` is None where it is drawn on request."""

    output: Markup
    prompt: Markup | None
    prompt_count: int
    cut_text: str = ""
    cut_href: str = ""


@dataclass(frozen=True, slots=True)
class _Range:
    kind: str
    start: int
    end: int


def flag_links(flags: Sequence[FlagView], where: Address, sample_id: int, attempt: int | None) -> list[FlagLink]:
    """Flags, the gravest first, each a link to the tokens it cites."""
    order = {"error": 0, "warning": 1, "info": 2}
    more = {} if attempt is None else {"attempt": attempt}
    links = []
    for flag in sorted(flags, key=lambda item: order.get(item.severity, 3)):
        href = None
        if flag.start is not None and flag.end is not None:
            href = f"{where.of(sample_id, **more, t=f'{flag.start}-{flag.end}')}#t{flag.start}"
        links.append(FlagLink(flag.code, flag.severity, flag.message, flag.start, flag.end, href))
    return links


def cards(sample: SampleView) -> list[Card]:
    """The segments in order, each with its share of the tokens and the flags that begin in it."""
    total = sum(segment.end - segment.start for segment in sample.segments)
    made = []
    for segment in sample.segments:
        slim = segment.kind == "control" and len(segment.text) <= _SLIM_TEXT and "\n" not in segment.text.strip()
        inside = tuple(
            flag
            for flag in sample.flags
            if flag.start is not None and segment.start <= flag.start < max(segment.end, segment.start + 1)
        )
        told = " ".join(flag.message for flag in inside)
        made.append(
            Card(segment, slim, words.share(segment.end - segment.start, total), calls.of(segment, told), inside)
        )
    return made


def messages(raw: Sequence[dict[str, Any]]) -> list[Message]:
    """The prompt's messages: text as text, everything else laid out and labelled."""
    return [_message(item) for item in raw]


def _message(item: dict[str, Any]) -> Message:
    parts = [
        Part(words.word(name), value if isinstance(value, str) else words.pretty_value(value))
        for name, value in item.items()
        if name not in {"role", "content"} and value not in (None, "", [])
    ]
    content = item.get("content")
    text = content if isinstance(content, str) else None
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        if len(texts) == len(content) and all(isinstance(value, str) for value in texts):
            text = "\n".join(str(value) for value in texts)  # as a render joins them
        else:
            parts.append(Part("content", words.pretty_value(content)))
    return Message(str(item.get("role", "?")), text, tuple(parts))


def token_pane(
    sample: SampleView,
    tokens: SampleTokens,
    where: Address,
    *,
    marked: tuple[int, int] | None,
    whole_prompt: bool,
    start: int | None,
) -> Tokens:
    """The strips of prompt and output.

    Args:
        sample: for its segments and flags.
        tokens: with pieces.
        where: the page's address.
        marked: a half-open range to highlight.
        whole_prompt: draw the prompt however long it is.
        start: first token of the window, in an output longer than `WINDOW_ABOVE`.
    """
    pieces, prompt = tokens.pieces or [], tokens.prompt_pieces or []
    segments: Sequence[strip.Span] = sample.segments
    cut_text = cut_href = ""
    if len(pieces) > WINDOW_ABOVE:
        first = max(0, min(start if start is not None else marked[0] - 100 if marked else 0, len(pieces) - 1))
        last = min(first + WINDOW, len(pieces))
        segments = [
            _Range(s.kind, max(s.start, first), min(s.end, last))
            for s in sample.segments
            if s.start < last and s.end > first
        ]
        following = last if last < len(pieces) else 0
        cut_text = f"Tokens {first:,}–{last:,} of {len(pieces):,}; {'the next ones' if following else 'the first ones'}"
        cut_href = f"{where.of(sample.id, tfrom=following)}#t{following}"
    cited = [
        (flag.start, flag.end, "k" if flag.code == "delimiter_spelled" else "f")
        for flag in sample.flags
        if flag.start is not None and flag.end is not None and flag.severity != "info"
    ]
    drawn = None
    if prompt and (whole_prompt or len(prompt) <= PROMPT_AT_ONCE):
        drawn = strip.strip(prompt, [_Range("prompt", 0, len(prompt))], prefix="p")
    return Tokens(
        output=strip.strip(pieces, segments, marked=marked, flagged=cited),
        prompt=drawn,
        prompt_count=len(tokens.prompt_ids),
        cut_text=cut_text,
        cut_href=cut_href,
    )


def stop_text(attempt: AttemptView | None, tokens: SampleTokens | None) -> str:
    """What ended the answer: the stop token's text where it can be told, else its id or string."""
    matched = attempt.finish_matched if attempt is not None else None
    if matched is None or attempt is None:
        return ""
    if isinstance(matched, int) and tokens is not None and tokens.pieces and tokens.pieces[-1].id == matched:
        return tokens.pieces[-1].text
    return f"id {matched}" if isinstance(matched, int) else str(matched)


_SAMPLING = (("temperature", "temperature"), ("top_p", "top_p"), ("top_k", "top_k"), ("max_new_tokens", "budget"))


def sampling_facts(attempt: AttemptView | None, settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The few sampling values that a reader wants beside the answer: the run's, with what was changed for this attempt."""
    if attempt is None:
        return []
    sent = {**(settings.get("sampling") or {}), **attempt.sampling}
    return [(label, sent[name]) for name, label in _SAMPLING if sent.get(name) is not None]


def token_range(text: str | None) -> tuple[int, int] | None:
    """`1200-1260` as a half-open range, `1200` as one token; None where it is neither."""
    if not text:
        return None
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or len(text) > 24:  # noqa: PLR2004
        return None
    start = int(first)
    end = int(last) if dash else start + 1
    return (start, end) if start < end else None
