"""The evidence of one backend as it builds up, written to its row when something changed, not at every look."""

import asyncio
import time
from datetime import datetime
from typing import Any

from db.types import now
from inference.backends.server.readiness import Finding
from inference.backends.supervision.records import Records

_UNKNOWN = object()
SOURCES = ("process", "log", "health", "generation", "tokens", "figures", "probe")

AT_WORK_S = 5.0
"""How old the evidence of a server at work may be where people read it."""


class Reporter:
    """Keeps what each signal said last, and when.

    Args:
        records: where it is written.
        backend_id: whose.
        refresh_s: what changed only in words or times is written this often.
    """

    def __init__(self, records: Records, backend_id: int, refresh_s: float) -> None:
        self._records = records
        self._backend_id = backend_id
        self._refresh_s = refresh_s
        self._evidence: dict[str, tuple[datetime, bool | None, str]] = {}
        self._written: object = None
        self._written_at = 0.0
        self._deadline_at: object = _UNKNOWN

    def note(self, finding: Finding, at: datetime | None = None) -> None:
        """Take in what a signal says, as of `at` (now)."""
        self._evidence[finding.source] = (at or now(), finding.ok, finding.text)

    def clear(self) -> None:
        """Forget everything: another start begins."""
        self._evidence.clear()
        self._written = None

    def evidence(self) -> list[dict[str, Any]]:
        """For the row."""
        return [
            {"source": source, "at": at.isoformat(), "ok": ok, "text": text}
            for source in SOURCES
            if source in self._evidence
            for at, ok, text in (self._evidence[source],)
        ]

    async def report(
        self,
        state: str,
        message: str,
        phase: dict[str, Any] | None = None,
        *,
        deadline_at: datetime | None = None,
        at_work: bool = False,
        **columns: Any,
    ) -> None:
        """Write state, sentence, phase, deadline and evidence if they differ from what was written last, or that is old.

        Of a server at work the evidence is renewed every few seconds: that costs little beside the work, and people look then.
        `columns` and the named arguments of `Records.write` are always written.
        """
        said = tuple((source, ok, "" if ok else text) for source, (_, ok, text) in sorted(self._evidence.items()))
        seen = (state, message, repr(phase), deadline_at, said)
        refresh_s = min(AT_WORK_S, self._refresh_s) if at_work else self._refresh_s
        if not columns and seen == self._written and time.monotonic() - self._written_at < refresh_s:
            return
        if deadline_at != self._deadline_at or columns:
            columns["deadline_at"] = self._deadline_at = deadline_at
        await asyncio.to_thread(
            self._records.write,
            self._backend_id,
            state=state,
            message=message,
            phase=phase,
            evidence=self.evidence(),
            **columns,
        )
        self._written, self._written_at = seen, time.monotonic()
