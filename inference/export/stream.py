"""The one stream of accepted samples that every target is written from: by sample id, memory flat whatever the run's size."""

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from db.codec import IdsCorrupted
from db.filters import Filter
from db.idstore import AttemptIds, Key
from inference.context import Context
from inference.export.figures import Figures
from inference.export.manifest import SourceKey
from inference.export.options import ExportOptions
from inference.export.rows import MAX_ID, TrainingRow, masked
from inference.export.selection import Candidate, Origin, batches, load, matching_ids, origins, reason_against

_BATCH_SAMPLES = 1_000
_BATCH_IDS = 2_000_000
"""Ids held at once, about: 8 MB and what they unpack from"""


@dataclass(slots=True)
class Stream:
    """Iterate `rows()` once; `left_out`, `figures` and `sources` are complete afterwards."""

    ctx: Context
    run_id: int
    options: ExportOptions
    figures: Figures = field(default_factory=Figures)
    left_out: Counter[str] = field(default_factory=Counter)
    sources: Counter[SourceKey] = field(default_factory=Counter)
    looked_at: int = 0

    def rows(self, ids: "array[int]") -> Iterator[TrainingRow]:
        """The accepted rows among samples `ids`; every other one is counted in `left_out` under its first reason."""
        for batch in batches(ids, _BATCH_SAMPLES):
            with self.ctx.db.read() as s:
                loaded = load(s, batch)
                taken = [sample for sample in loaded if not self._refused(sample)]
                known = origins(s, taken)
            self.left_out.update({"unfinished": len(batch) - len(loaded)} if len(batch) > len(loaded) else {})
            for group in _groups(taken):
                yield from self._rows_of(group, known)
            self.looked_at += len(batch)

    def _refused(self, sample: Candidate) -> bool:
        reason = reason_against(sample, self.options)
        if reason is not None:
            self.left_out[reason] += 1
        return reason is not None

    def _rows_of(self, group: list[Candidate], known: dict[int, Origin]) -> Iterator[TrainingRow]:
        stored, damaged = self._ids([(sample.id, sample.attempt) for sample in group])
        for sample in group:
            key = (sample.id, sample.attempt)
            reason = "ids_damaged" if key in damaged else _against_ids(sample, stored.get(key))
            if reason is not None:
                self.left_out[reason] += 1
                continue
            yield self._row(sample, stored[key], known.get(sample.id))

    def _ids(self, keys: list[Key]) -> tuple[dict[Key, AttemptIds], set[Key]]:
        try:
            return dict(self.ctx.ids.get_many(self.run_id, keys)), set()
        except IdsCorrupted:
            pass
        stored: dict[Key, AttemptIds] = {}
        damaged: set[Key] = set()
        for key in keys:  # one by one, so that a damaged blob costs its own sample and no other
            try:
                ids = self.ctx.ids.get(self.run_id, key)
            except IdsCorrupted:
                damaged.add(key)
            else:
                stored |= {key: ids} if ids is not None else {}
        return stored, damaged

    def _row(self, sample: Candidate, ids: AttemptIds, origin: Origin | None) -> TrainingRow:
        input_ids, loss_mask = masked(ids, sample.answer_tokens, self.options.max_length)
        whole = len(ids.prompt_ids) + sample.answer_tokens
        meta = {
            "run_id": self.run_id,
            "sample_id": sample.id,
            "attempt": sample.attempt,
            "source_id": sample.source_id,
            "turn": sample.turn,
            "repeat": sample.repeat,
            "prompt_tokens": len(ids.prompt_ids),
            "trained_tokens": len(input_ids) - len(ids.prompt_ids),
            "finish_reason": sample.finish_reason,
            "clipped": len(input_ids) < whole,
        }
        if origin is not None:
            meta |= {"backend_id": origin.backend_id, "weight_version": origin.weight_version}
            meta |= {"sampling": origin.sampling} if origin.sampling else {}
            self.sources[origin.backend_id, origin.backend_start_id, origin.weight_version] += 1
        row = TrainingRow(
            id=f"r{self.run_id}-s{sample.id}-a{sample.attempt}",
            category=sample.category,
            input_ids=input_ids,
            loss_mask=loss_mask,
            meta=orjson.dumps(meta).decode(),
        )
        self.figures.clipped += len(input_ids) < whole
        self.figures.after_stop_cut += sample.answer_tokens < len(ids.output_ids)
        self.figures.add(row)
        return row


def survey(ctx: Context, run_id: int, flt: Filter, options: ExportOptions) -> "tuple[array[int], Counter[str], bool]":
    """(ids inside the filter, left-out counts, whether anything would be exported), as far as rows can tell.

    Stops at the first sample that would be taken: the counts are complete only where there is none.
    """
    left_out: Counter[str] = Counter()
    with ctx.db.read() as s:
        ids = matching_ids(s, run_id, flt)
        for batch in batches(ids, _BATCH_SAMPLES):
            for sample in load(s, batch):
                reason = reason_against(sample, options)
                if reason is None:
                    return ids, left_out, True
                left_out[reason] += 1
    return ids, left_out, False


def _groups(samples: list[Candidate]) -> Iterator[list[Candidate]]:
    group: list[Candidate] = []
    size = 0
    for sample in samples:
        group.append(sample)
        size += sample.prompt_tokens + sample.completion_tokens
        if size >= _BATCH_IDS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _against_ids(sample: Candidate, ids: AttemptIds | None) -> str | None:
    if ids is None:
        return "ids_missing"
    if (len(ids.prompt_ids), len(ids.output_ids)) != (sample.prompt_tokens, sample.completion_tokens):
        return "ids_inconsistent"
    if not len(ids.prompt_ids):
        return "prompt_empty"
    largest = max(int(ids.prompt_ids.max()), int(ids.output_ids.max()))
    return "id_too_large" if largest > MAX_ID else None
