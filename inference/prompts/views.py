"""What people and scripts see of prompt sets."""

from datetime import datetime
from typing import Any

from inference.model import View


class RowErrorView(View):
    """A row that was refused, or taken with a notice (severity `warning`)."""

    line: int
    code: str
    message: str
    severity: str = "error"


class PromptSetView(View):
    """A prompt set; `errors` are its first 20."""

    id: int
    name: str
    state: str
    message: str
    file_name: str
    file_format: str
    size_bytes: int
    sha256: str
    accepted: int
    rejected: int
    warnings: int
    categories: dict[str, int]
    errors: list[RowErrorView]
    created_at: datetime


class PromptView(View):
    """One prompt, whole."""

    id: int
    prompt_set_id: int
    line: int
    source_id: str
    category: str
    preview: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
