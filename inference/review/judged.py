"""Finding the sample that somebody wants to say something about."""

from sqlmodel import Session

from db.errors import Conflict, NotFound
from db.tables import Sample


def get_sample(s: Session, sample_id: int, *, lock: bool = False) -> Sample:
    """The sample; `lock` makes writers of one sample take turns (PostgreSQL; on SQLite a write session does already).

    Raises:
        NotFound: there is none of that id.
    """
    sample = s.get(Sample, sample_id, with_for_update=True) if lock else s.get(Sample, sample_id)
    if sample is None:
        raise NotFound("sample", sample_id)
    return sample


def get_judged(s: Session, sample_id: int) -> Sample:
    """The sample, locked, with an attempt that can be judged.

    Raises:
        NotFound: there is none of that id.
        Conflict: `nothing_to_review`, it has no current attempt.
    """
    sample = get_sample(s, sample_id, lock=True)
    if sample.attempt == 0:
        state = sample.state.replace("_", " ")
        raise Conflict("nothing_to_review", f"Sample {sample_id} is {state}: there is no answer to judge yet.")
    return sample
