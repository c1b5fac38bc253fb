"""What people and scripts see of exports."""

from datetime import datetime
from typing import Any

from inference.model import View


class ExportFormatView(View):
    """One target: what it is for, and its options with defaults."""

    name: str
    description: str
    options: dict[str, Any]


class ExportFileView(View):
    """One file of an export."""

    name: str
    bytes: int
    sha256: str
    rows: int | None


class ExportView(View):
    """An export as it stands. `counts` has `exported`, `left_out` {reason: n}, `trained_tokens` {min, median, max, sum}."""

    id: int
    run_id: int
    format: str
    filter: dict[str, Any]
    options: dict[str, Any]
    state: str
    message: str
    counts: dict[str, Any]
    files: list[ExportFileView]
    created_at: datetime
    finished_at: datetime | None
