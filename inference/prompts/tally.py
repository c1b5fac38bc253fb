"""What is said about an upload as a whole: exact counts of everything, a bounded list of single messages, one sentence."""

from dataclasses import dataclass, field

from inference.prompts.rows import Notice, PromptRow, RefusedRow

MAX_LISTED = 10_000
"""Errors, and as many warnings, that are kept one by one; beyond it they are only counted."""

MAX_CATEGORIES = 1_000
"""Categories that are counted by name; a column with more is no category, and would swamp every page that lists them."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One message about one row."""

    line: int
    severity: str
    code: str
    message: str


@dataclass(slots=True)
class Tally:
    """Counts while rows come; `pending` holds messages not yet stored."""

    accepted: int = 0
    rejected: int = 0
    warnings: int = 0
    categories: dict[str, int] = field(default_factory=dict)
    uncounted: int = 0
    pending: list[Listed] = field(default_factory=list)
    counted: dict[str, tuple[int, str]] = field(default_factory=dict)
    first_refusal: RefusedRow | None = None
    _ids: set[int] = field(default_factory=set)

    def accept(self, row: PromptRow) -> None:
        """Count a prompt and list what was noticed in it."""
        self.accepted += 1
        if row.category in self.categories or len(self.categories) < MAX_CATEGORIES:
            self.categories[row.category] = self.categories.get(row.category, 0) + 1
        else:
            self.uncounted += 1
        for notice in row.notices:
            self._notice(row.line, notice)
        mark = hash(row.source_id)
        if mark in self._ids:
            self._notice(
                row.line,
                Notice("duplicate_id", f"the id {row.source_id!r} stands on an earlier row too; both are kept"),
            )
        self._ids.add(mark)

    def refuse(self, row: RefusedRow) -> None:
        """Count a refused row and list it."""
        self.rejected += 1
        self.first_refusal = self.first_refusal or row
        if self.rejected <= MAX_LISTED:
            self.pending.append(Listed(row.line, "error", row.code, row.message))

    def _notice(self, line: int, notice: Notice) -> None:
        if notice.counted:
            count, first = self.counted.get(notice.code, (0, notice.message))
            self.counted[notice.code] = (count + 1, first)
            if not count:
                self.pending.append(Listed(line, "notice", notice.code, notice.message))
            return
        self.warnings += 1
        if self.warnings <= MAX_LISTED:
            self.pending.append(Listed(line, "warning", notice.code, notice.message))

    def sentence(self, file_name: str) -> str:
        """What a person should know of the upload beyond its numbers; empty where all went well."""
        name = file_name or "The upload"
        if not self.accepted:
            if self.first_refusal is None:
                return f"{name} has no rows: it is empty, or holds only blank lines, a header or an empty array."
            first = self.first_refusal
            refused = f"{self.rejected:,} rows refused, the first" if self.rejected > 1 else "its one row was refused,"
            return f"Nothing in {name} can be used: {refused} at line {first.line}: {first.message}."
        parts = [f"{count:,} rows: {message}." for count, message in self.counted.values()]
        if max(self.rejected, self.warnings) > MAX_LISTED:
            parts.append(f"The first {MAX_LISTED:,} errors and warnings are listed; the counts are exact.")
        if self.uncounted:
            parts.append(
                f"{self.uncounted:,} rows have categories beyond the first {MAX_CATEGORIES:,}, which are not counted by name."
            )
        return " ".join(parts)
