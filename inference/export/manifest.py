"""The manifest: everything a row's reader must know that the row does not say, and what was left out and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from sqlmodel import Session, col, select

from db.tables import Backend, BackendStart
from inference.export.figures import Figures
from inference.export.files import Written
from inference.export.selection import REASONS

NAME: Final = "manifest.json"
COUNTS: Final = "token_counts.json"

_CHOICES: Final = {
    "row": "one generation: the exact prompt ids sent, then the exact output ids received",
    "trained": "the generated turn alone; all that was sent (earlier turns included) is context, mask 0",
    "ending": "the last id is the one generated (its stop id, where it stopped), never replaced or added",
    "after_stop": "ids after the stop id, where there are any, are cut off",
    "spans": "from ids alone; no text is searched",
    "order": "by sample id",
}


@dataclass(frozen=True, slots=True)
class Job:
    """An export and its run, as they stood when writing began."""

    export_id: int
    format: str
    filter: dict[str, Any]
    options: dict[str, Any]
    run_id: int
    run_name: str
    fingerprint: str
    prompt_set_id: int
    settings: dict[str, Any]
    created_at: datetime
    token_format: str | None = None
    """The format its ids are read by where a rederive named another than the settings do"""


SourceKey = tuple[int | None, int | None, str | None]
"""(backend id, backend start id, weight version)"""


def describe_sources(s: Session, sources: Counter[SourceKey]) -> list[dict[str, Any]]:
    """Each server life that rows came from, with its number of rows."""
    backends = {row.id: row for row in s.exec(select(Backend).where(col(Backend.id).in_({key[0] for key in sources})))}
    starts = {
        row.id: row for row in s.exec(select(BackendStart).where(col(BackendStart.id).in_({key[1] for key in sources})))
    }
    found = []
    for (backend_id, start_id, weight_version), rows in sorted(sources.items(), key=str):
        backend, start = backends.get(backend_id), starts.get(start_id)
        found.append(
            {
                "backend_id": backend_id,
                "backend": backend.name if backend else None,
                "sglang_version": (start and start.version) or (backend and backend.version),
                "model": backend.model if backend else None,
                "start": start.number if start else None,
                "command": start.command if start else None,
                "weight_version": weight_version,
                "rows": rows,
            }
        )
    return found


def manifest(
    job: Job,
    figures: Figures,
    left_out: dict[str, int],
    sources: list[dict[str, Any]],
    files: Sequence[Written],
    at: datetime,
) -> bytes:
    """The manifest as JSON text."""
    settings = job.settings
    content = {
        "draftmill_export": 1,
        "export_id": job.export_id,
        "created_at": job.created_at.isoformat(),
        "written_at": at.isoformat(),
        "format": job.format,
        "run": {
            "id": job.run_id,
            "name": job.run_name,
            "fingerprint": job.fingerprint,
            "prompt_set_id": job.prompt_set_id,
            "settings": settings,
        },
        "model": settings.get("model"),
        "tokenizer": {
            "name": settings.get("tokenizer"),
            "sha256": settings.get("tokenizer_sha256"),
            "template_sha256": settings.get("template_sha256"),
            "vocab_size": settings.get("vocab_size"),
            "stop_ids": settings.get("stop_ids"),
        },
        "token_format": job.token_format or settings.get("token_format"),
        "sampling": settings.get("sampling"),
        "chat_template_kwargs": settings.get("chat_template_kwargs"),
        "servers": sources,
        "filter": job.filter,
        "options": job.options,
        "choices": _CHOICES,
        "counts": {
            "exported": figures.rows,
            "left_out": left_out,
            "left_out_total": sum(left_out.values()),
            "reasons": {name: words for name, words in REASONS.items() if name in left_out},
            "clipped": figures.clipped,
            "after_stop_cut": figures.after_stop_cut,
        },
        "trained_tokens": figures.trained_tokens(),
        "endings": {str(number): rows for number, rows in sorted(figures.endings.items())},
        "files": [{"path": file.path, "bytes": file.bytes, "sha256": file.sha256, "rows": file.rows} for file in files],
    }
    return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
