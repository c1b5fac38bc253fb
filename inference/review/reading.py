"""Reading an attempt's ids for people: the text of each segment, the parts of a tool call, one piece per token.

Everything here is a view of the stored ids, made when it is asked for.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from db.errors import Invalid, Unavailable
from db.idstore import AttemptIds, Ids
from db.tables import Run
from inference.context import Context
from inference.model import View
from inference.prompts.service import PromptData
from inference.quality.flags import OFF_BY_DEFAULT, Flag
from inference.quality.inspection import Inspection, inspect, inspect_text
from inference.review.views import CallView, FlagView, PieceView, SegmentView
from inference.runs.behind.textpass import read_text
from inference.runs.resultrows import Lens
from inference.runs.runstate import RunBroken, open_lens
from inference.tokens import formats
from inference.tokens.errors import TokensError
from inference.tokens.formats import BoundFormat
from inference.tokens.pieces import pieces
from inference.tokens.schema import tool_schemas
from inference.tokens.segmentation.segments import Segment
from inference.tokens.tokenizer import Tokenizer
from inference.tokens.toolcalls import first_call, read_calls_of


class Segmented(View):
    """Ids cut into segments, with what the checks found.

    `remarks`: what is unusual about this format on this vocabulary, such as a delimiter that is spelled with several ids.
    """

    segments: list[SegmentView]
    flags: list[FlagView]
    remarks: list[str]


def lens_of(ctx: Context, run: Run) -> Lens:
    """How a run's ids are read.

    Raises:
        Unavailable: `tokenizer_gone`, the run's tokenizer cannot be loaded or has changed.
    """
    try:
        return open_lens(ctx, run)
    except RunBroken as error:
        raise Unavailable("tokenizer_gone", str(error)) from error


def segment_views(
    bound: BoundFormat,
    tokenizer: Tokenizer,
    output: Ids,
    segments: Sequence[Segment],
    tools: list[dict[str, Any]] | None = None,
) -> list[SegmentView]:
    """Segments with their text; a tool call with its name and its arguments exactly as generated."""
    names = frozenset(tool_schemas(tools))
    return [_segment_view(bound, tokenizer, output, segment, names) for segment in segments]


def bare_segment_views(segments: Sequence[Segment]) -> list[SegmentView]:
    """Segments by their ranges alone, for when the tokenizer that would give their text is gone."""
    return [SegmentView(kind=s.kind, start=s.start, end=s.end, text="", channel=s.channel) for s in segments]


def stored_segments(rows: Sequence[Sequence[Any]]) -> list[Segment]:
    """Segments as an attempt's row keeps them."""
    return [Segment(row[0], row[1], row[2], row[3] if len(row) > 3 else None) for row in rows]  # noqa: PLR2004  (the channel is the fourth)


def inspect_again(lens: Lens, ids: AttemptIds, finish: str | None, matched: Any, body: PromptData) -> Inspection:
    """What the checks of its ids and of its text say of an attempt, made again: those that the run makes."""
    seen = inspect(
        lens.bound,
        lens.tokenizer,
        ids.prompt_ids,
        ids.output_ids,
        finish or "",
        matched,
        tools=body.tools,
        stop_ids=lens.stop_ids,
        off=lens.off,
    )
    text = read_text(lens, body, ids.output_ids, seen.segmentation, finish)
    return replace(seen, flags=(*seen.flags, *text.flags))


def piece_views(tokenizer: Tokenizer, ids: Ids) -> list[PieceView]:
    """One piece per id."""
    return [
        PieceView.model_construct(
            index=piece.index,
            id=piece.id,
            kind=piece.kind,
            bytes=piece.bytes,
            text=piece.text,
            start=piece.start,
            end=piece.end,
            group=piece.group,
        )
        for piece in pieces(tokenizer, ids)
    ]


def flag_view_of(flag: Flag) -> FlagView:
    """A flag just made, for people."""
    return FlagView(code=flag.code, severity=flag.severity, start=flag.start, end=flag.end, message=flag.message)


def segment_ids(
    ctx: Context,
    tokenizer: str,
    token_format: str,
    prompt_ids: Sequence[int] | None,
    output_ids: Sequence[int],
    finish_reason: str | None = None,
    tools: list[dict[str, Any]] | None = None,
    *,
    fetch: bool = True,
) -> Segmented:
    """Segment ids that lie in no run.

    Args:
        ctx: the context.
        tokenizer: path below a model root, or hub id.
        token_format: a format's name.
        prompt_ids: what stood before; None where it is not known.
        output_ids: what was generated.
        finish_reason: stop or length; None where it is not known.
        tools: the tools that were offered, to check calls against.
        fetch: whether a hub id may be downloaded.

    Raises:
        Invalid: `token_ids_invalid`, or the tokenizer room's code, with the field.
    """
    try:
        loaded = ctx.tokenizers.get(tokenizer, fetch=fetch)
    except TokensError as error:
        raise Invalid(error.code, error.message, field="tokenizer") from error
    try:
        bound = formats.bind(formats.get_format(token_format), loaded)
    except TokensError as error:
        raise Invalid(error.code, error.message, field="token_format") from error
    prompt = _as_ids(prompt_ids or (), "prompt_ids")
    output = _as_ids(output_ids, "output_ids")
    seen = inspect(bound, loaded, prompt, output, finish_reason or "", None, tools=tools, stop_ids=bound.stop_ids)
    text = inspect_text(bound, loaded, "", output, seen.segmentation, off=OFF_BY_DEFAULT)
    return Segmented(
        segments=segment_views(bound, loaded, output, seen.segmentation.segments, tools),
        flags=[flag_view_of(flag) for flag in (*seen.flags, *text)],
        remarks=list(bound.remarks),
    )


def _as_ids(numbers: Sequence[int], field: str) -> Ids:
    if any(not 0 <= number < 2**32 for number in numbers):
        raise Invalid("token_ids_invalid", f"{field} holds a number that is no token id.", field=field)
    return np.array(numbers, dtype=np.uint32)


def _segment_view(
    bound: BoundFormat, tokenizer: Tokenizer, output: Ids, segment: Segment, tools: frozenset[str]
) -> SegmentView:
    ids = output[segment.start : segment.end]
    text = tokenizer.decode(ids)
    if segment.kind != "tool_call":
        return SegmentView(kind=segment.kind, start=segment.start, end=segment.end, text=text, channel=segment.channel)
    calls = read_calls_of(bound, tokenizer, ids, tools)
    call = first_call(calls)
    return SegmentView(
        kind=segment.kind,
        start=segment.start,
        end=segment.end,
        text=text,
        channel=segment.channel,
        name=call.name,
        arguments=call.arguments,
        arguments_valid=call.valid,
        calls=[
            CallView(
                name=item.name,
                arguments=item.arguments,
                arguments_valid=item.valid,
                error=item.error.message if item.error else None,
                position=item.error.position if item.error else None,
            )
            for item in calls
        ],
    )
