"""One answer beside what others make of its text: SGLang's own parsers, and a tokenizer that encodes it again.

Both explain and change nothing; each is made when one sample is looked at, never for a list.
"""

from typing import Final

from db.idstore import Ids
from inference.quality.drift import drift_flag, find_drift
from inference.review.views import DriftView, EngineReadingView
from inference.runs.resultrows import Lens
from inference.tokens.segmentation.segments import Segmentation
from inference.tokens.sglang.reading import engine_readings

_SWITCHES: Final = ("enable_thinking", "thinking")
"""The template arguments that SGLang's parsers go by"""


def engine_reading_views(
    lens: Lens, output_ids: Ids, segmentation: Segmentation, *, tools: bool
) -> list[EngineReadingView]:
    """What SGLang's chat route would have returned, for each parser that this family is served with, and for none.

    `tools`: whether the request would have offered tools.
    """
    kwargs = lens.settings.chat_template_kwargs
    thinking = next((bool(kwargs[name]) for name in _SWITCHES if name in kwargs), None)
    readings = engine_readings(
        lens.bound, lens.tokenizer, output_ids, segmentation, tools=tools or None, thinking=thinking
    )
    return [
        EngineReadingView(
            parser=reading.parser or None,
            forced=reading.forced,
            reasoning=reading.reasoning,
            content=reading.content,
            sentences=list(reading.sentences),
            same=reading.same,
            condition=reading.condition,
        )
        for reading in readings
    ]


def drift_view(lens: Lens, output_ids: Ids, segmentation: Segmentation) -> DriftView | None:
    """Where the answer's text, encoded again, first gives other ids; None where it gives the same. Its stop is no text of it."""
    end = len(output_ids) if segmentation.stop is None else segmentation.stop
    drift = find_drift(lens.tokenizer, output_ids[:end])
    if drift is None:
        return None
    return DriftView(
        position=drift.position,
        ids=list(drift.there),
        becomes=list(drift.becomes),
        message=drift_flag(lens.tokenizer, drift).message,
    )
