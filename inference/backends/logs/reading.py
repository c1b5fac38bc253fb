"""A server's log as people may see it: keys masked, control sequences gone, progress bars at their last state.

The server outlives us and must never hang on a pipe, so it writes to a 0600 file itself and everything is cleaned on
reading. That file may hold the key (SGLang prints its arguments); nothing read through this module does.
"""

import re
from pathlib import Path

from db.tables import BackendStart
from inference.backends.logs.following import ANSI as _ANSI
from inference.backends.logs.following import LogFollower
from inference.backends.logs.keeping import log_root
from inference.settings import Settings

__all__ = ["LogFollower", "clean_line", "last_lines", "log_file", "log_root", "read_from", "read_tail", "redact"]

MAX_LINE = 4_000
"""Characters of one line that are shown; SGLang's `server_args=` line alone has 12,000."""

MAX_TAIL_BYTES = 4 * 1024 * 1024
MASK = "***"

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SECRETS = (
    re.compile(r"""((?:admin[-_])?api[-_]key["']?\s*[=:]\s*["']?)(?!None\b|null\b)[^\s"',}\])]+""", re.IGNORECASE),
    re.compile(r"""(--(?:admin-)?api-key(?:=|["']?,?\s+["']?))[^\s"',\]]+""", re.IGNORECASE),
    re.compile(r"(Bearer\s+)[^\s\"',}\])]+", re.IGNORECASE),
    re.compile(r"(\bhf_)[A-Za-z0-9]{16,}"),
)


def redact(text: str, secrets: tuple[str, ...] = ()) -> str:
    """The text with every key masked: what looks like one, and the known ones wherever they stand."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    for pattern in _SECRETS:
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return text


def clean_line(line: str) -> str:
    """One line without control sequences; of a progress bar that was redrawn in place, its last state."""
    line = _ANSI.sub("", line)
    parts = [part for part in line.split("\r") if part.strip()]
    line = _CONTROL.sub("", parts[-1] if parts else "")
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]} … ({len(line) - MAX_LINE} characters more)"


def read_tail(settings: Settings, start: BackendStart | None, lines: int = 200, secrets: tuple[str, ...] = ()) -> str:
    """The last `lines` lines of a start's log, cleaned and redacted; empty where there is none yet.

    Args:
        settings: its data directory bounds where a log may lie.
        start: whose log.
        lines: at most this many; what is read is bounded by 4 MiB as well.
        secrets: known key values to mask besides what looks like one.
    """
    path = log_file(settings, start)
    if path is None or lines <= 0:
        return ""
    raw = _tail_bytes(path, min(MAX_TAIL_BYTES, max(64 * 1024, lines * 400)))
    kept = [clean_line(line) for line in raw.decode("utf-8", "replace").rstrip("\n").split("\n")]
    return redact("\n".join(kept[-lines:]), secrets)


def read_from(
    settings: Settings, start: BackendStart | None, offset: int, limit: int = 65_536, secrets: tuple[str, ...] = ()
) -> tuple[str, int]:
    """Whole lines from byte `offset` on, cleaned and redacted, and the offset to go on from.

    A line that is not finished yet is left for the next call, unless it alone fills `limit` bytes. An offset past the end
    (the file was replaced) starts over at 0.
    """
    path = log_file(settings, start)
    if path is None:
        return "", 0
    size = path.stat().st_size
    offset = 0 if offset < 0 or offset > size else offset
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read(limit)
    end = raw.rfind(b"\n") + 1
    if end == 0 and len(raw) == limit:
        end = limit
    text = "\n".join(clean_line(line) for line in raw[:end].decode("utf-8", "replace").split("\n"))
    return redact(text, secrets), offset + end


def log_file(settings: Settings, start: BackendStart | None) -> Path | None:
    """The start's log, where it exists and lies in the data directory."""
    if start is None or start.log_path is None:
        return None
    path = Path(start.log_path).resolve()
    if not path.is_relative_to(log_root(settings)) or not path.is_file():
        return None
    return path


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log for diagnosis, cleaned, not redacted."""
    if not path.exists():
        return []
    raw = _tail_bytes(path, 512 * 1024).decode("utf-8", "replace")
    return [line for line in (clean_line(part) for part in raw.split("\n")) if line.strip()][-count:]


def _tail_bytes(path: Path, limit: int) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - limit))
        raw = file.read(limit)
    if size > limit:  # the first line is cut: drop it, if there is another
        head, separator, rest = raw.partition(b"\n")
        raw = rest if separator else head
    return raw
