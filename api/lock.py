"""Who holds a file lock, found without trying to take it: a try could win against the one who means it."""

from pathlib import Path

LOCKS = Path("/proc/locks")
_FIELDS = 6


def lock_holder(path: Path, table: Path = LOCKS) -> int | None:
    """The pid that holds a `flock` on `path`; None if nobody does, or there is no such file.

    A line reads `1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF`. File systems differ in the device they report there, so the
    inode alone is compared.
    """
    try:
        inode = path.stat().st_ino
    except FileNotFoundError:
        return None
    for line in table.read_text().splitlines():
        parts = line.split()
        if len(parts) > _FIELDS and parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == str(inode):
            return int(parts[4])
    return None
