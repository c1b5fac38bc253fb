"""One known failure: the line that tells of it, what it means, and what to change."""

import functools
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the table.

    Args:
        code: its name, for programs; several rows may share one.
        pattern: searched in each line of the log by itself. It must not match what a good server prints: warnings, the
            `server_args=` line, flags in a usage text.
        summary: what it means, one sentence; `{0}` … are the pattern's groups, `{error}` the exception that ends a traceback.
        cure: what to change and in which direction, naming the launch's fields.
        example: a line as it is printed, which this row and no earlier one must match.
        permanent: another start of the same launch would end the same way, so none is tried.
        hangs: the process may live on for ever after this line, so it is told while it still starts.
        only_before_ready: it can only happen to a server that was never ready.
        unless: a line that, standing before this one, makes it mean something else.
        overcome: a line that, standing below this one, says that the start-up got over it.
        before: lines shown above the one that matches.
        block: the last match counts, and it is shown from the last line above it that this matches: for output in blocks, of
            which the last is the one that ended it.
        traceback: shows the end of the traceback that the line begins.
    """

    code: str
    pattern: str
    summary: str
    cure: str
    example: str
    permanent: bool = False
    hangs: bool = False
    only_before_ready: bool = False
    unless: str | None = None
    overcome: str | None = None
    before: int = 5
    block: str | None = None
    traceback: bool = False

    def search(self, line: str) -> "re.Match[str] | None":
        """The pattern in the line."""
        return _compiled(self.pattern).search(line)


_compiled = functools.cache(re.compile)
