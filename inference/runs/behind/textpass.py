"""The checks that need an answer's text: made behind the run, for every done sample that has not been looked at yet.

There is no queue: what is left is every sample whose row does not say that its current attempt was looked at, and the row
says so in the transaction that writes the flags. So the pass may be killed at any moment, and a sample that is made again
comes to it again.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import structlog
from sqlalchemy import func, select, update
from sqlmodel import col

from db.idstore import Ids
from db.tables import Run, Sample
from inference.context import Context
from inference.prompts.service import PromptData
from inference.quality.collection import answer_hash
from inference.quality.flags import Flag
from inference.quality.inspection import inspect_text
from inference.runs.behind.looking import UNCHECKED, Found, Looked, find_done, write_looked
from inference.runs.resultrows import Lens, flag_values, matched_value
from inference.runs.switches import OF_TEXT
from inference.tokens.segmentation.segments import Segmentation

log = structlog.get_logger(__name__)

UNREAD: Final = "text_unread"
REPLACED: Final = OF_TEXT | {UNREAD}
"""The codes whose flags the pass writes, and so takes away when it looks again"""


@dataclass(frozen=True, slots=True)
class TextSeen:
    """What the text of an answer showed."""

    flags: tuple[Flag, ...]
    answer_hash: int | None


def runs_to_check(ctx: Context) -> list[int]:
    """The runs with done samples that were not looked at; a few steps in the partial index, whatever their number."""
    found: list[int] = []
    with ctx.db.read() as s:
        while True:
            query = select(func.min(col(Sample.run_id))).where(UNCHECKED)
            if found:
                query = query.where(col(Sample.run_id) > found[-1])
            run_id = s.execute(query).scalar_one()
            if run_id is None:
                return found
            found.append(run_id)


def check_batch(ctx: Context, run_id: int, lens: Lens, limit: int) -> int:
    """Look at the next samples; returns how many there were (0: none is left)."""
    found = find_done(ctx, run_id, limit)
    if found:
        _announce(ctx, run_id)
        looked = [look_at_text(lens, item) for item in found]
        with ctx.db.write() as s:
            write_looked(s, run_id, looked, REPLACED)
    return len(found)


def _announce(ctx: Context, run_id: int) -> None:
    """Before the first sample changes: the checks over all samples are due again."""
    with ctx.db.read() as s:
        due = s.execute(select(col(Run.collection_due)).where(col(Run.id) == run_id)).scalar()
    if due == 0:
        with ctx.db.write() as s:
            s.execute(update(Run).where(col(Run.id) == run_id, col(Run.collection_due) == 0).values(collection_due=1))


def look_at_text(lens: Lens, found: Found) -> Looked:
    """Read one answer; one that cannot be read gets a flag that says why, and is not tried again."""
    looked = found.looked()
    if found.ids is None:
        looked.flags = [unread(found.trouble)]
        return looked
    try:
        matched = matched_value(found.row.finish_matched)
        segmentation = lens.segment(found.ids.prompt_ids, found.ids.output_ids, found.row.finish_reason, matched)
        seen = read_text(lens, found.body, found.ids.output_ids, segmentation, found.row.finish_reason)
    except Exception as error:
        log.exception("text_unread", sample_id=found.row.id, attempt=found.row.attempt)
        looked.flags = [unread(f"{error!r}.")]
    else:
        looked.flags = [flag_values(flag) for flag in seen.flags]
        looked.answer_hash = seen.answer_hash
    return looked


def read_text(
    lens: Lens, body: PromptData | None, output_ids: Ids, segmentation: Segmentation, finish_reason: str | None
) -> TextSeen:
    """The checks of text that the run wants, and the answer's hash where answers are compared."""
    flags: tuple[Flag, ...] = ()
    if not lens.off >= OF_TEXT:
        flags = inspect_text(
            lens.bound,
            lens.tokenizer,
            asked(body),
            output_ids,
            segmentation,
            finish_reason=finish_reason,
            off=lens.off,
        )
    hashed = None
    if "duplicate_answer" not in lens.off:
        hashed = answer_hash(output_ids, segmentation, lens.tokenizer)
    return TextSeen(flags, hashed)


def asked(body: PromptData | None) -> str:
    """What the person wrote last: the text of the last user message; "" where there is none."""
    for message in reversed([] if body is None else body.messages):
        if message.get("role") == "user":
            return "\n".join(_texts(message.get("content")))
    return ""


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]


def unread(why: str) -> dict[str, Any]:
    """The flag of an answer whose text could not be looked at."""
    message = f"The checks that need the text could not look at this answer: {why}"
    return {"code": UNREAD, "severity": "warning", "start": None, "end": None, "message": message[:2000]}


def say_trouble(ctx: Context, run_ids: Collection[int], trouble: str) -> None:
    """Say why runs cannot be checked, or (with "") that nothing is in the way any more."""
    with ctx.db.write() as s:
        s.execute(
            update(Run).where(col(Run.id).in_(run_ids), col(Run.check_trouble) != trouble).values(check_trouble=trouble)
        )
