"""What a server that was killed leaves on disk and in shared memory, and how it can be told from everybody else's.

SGLang makes a socket of a random name for each pair of its processes and a folder for its metrics, all where `TMPDIR` says,
and one file of a random name in /dev/shm; it removes them at an orderly end alone. So each start gets a temporary folder of
its own, named after its marker, and what its processes have mapped from /dev/shm is noted in there while they live. Both
are removed once no process of the start is left. Nothing else is: a name alone does not say whose a file is.
"""

import getpass
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from inference.backends.host.identity import instance_of, read_marker

LONGEST = 80
"""Characters of the folder's path: a Unix socket's is 107 at most, and the server adds names of its own."""

SHARED = Path("/dev/shm")  # noqa: S108  (read and cleaned, by exact name and inode)
_PREFIX, _OURS = "draftmill-", "dm-"
_NOTE = ".shared.json"
_MADE_BY_SERVERS = re.compile(r"(?:sglang_loads_|psm_|sem\.mp-|nccl-|torch_)[\w.-]+")
"""Names in /dev/shm by SGLang's load snapshots, Python's shared memory and semaphores, NCCL and torch."""


def root() -> Path:
    """The common temporary folder. The seam for tests."""
    return Path(tempfile.gettempdir())


def folder_of(marker: str) -> Path:
    """Where a start's temporary files lie."""
    return root() / (_OURS + marker.removeprefix(_PREFIX))


def temporary(marker: str, env: Mapping[str, str]) -> dict[str, str]:
    """Make a start's temporary folder, for its owner alone; what its environment needs besides `env`.

    Empty where there can be none of a path short enough for sockets: the server then litters the common one. What torch
    compiles stays in the common cache, or every start would compile it again.
    """
    folder = folder_of(marker)
    if read_marker(marker) is None or len(str(folder)) > LONGEST:
        return {}
    try:
        folder.mkdir(mode=0o700)
    except OSError:
        return {}
    return {"TMPDIR": str(folder), "TORCHINDUCTOR_CACHE_DIR": env.get("TORCHINDUCTOR_CACHE_DIR") or _torch_cache()}


def markers(data_dir: Path) -> Iterator[str]:
    """Markers of the starts of this data directory whose temporary folder is still there."""
    for folder in root().glob(f"{_OURS}{instance_of(data_dir)}-*"):
        marker = _PREFIX + folder.name.removeprefix(_OURS)
        if read_marker(marker) is not None and _is_own(folder):
            yield marker


def age_s(marker: str, now: float) -> float:
    """Seconds since the folder last changed; `now` is epoch seconds. 0 where it is gone."""
    try:
        return now - folder_of(marker).stat().st_mtime
    except OSError:
        return 0.0


def note_shared(marker: str, pids: Collection[int]) -> None:
    """Note what these living processes of the start have mapped from /dev/shm. Reads and writes files."""
    folder = folder_of(marker)
    if not _is_own(folder):
        return
    known = _noted(folder)
    found = dict(known)
    mapped = {inode for pid in pids for inode in _mapped(pid)}
    for name in _names_in(SHARED) if mapped else ():
        if (inode := _inode(SHARED / name)) in mapped and inode is not None:
            found[name] = inode
    if found != known:
        part = folder / f"{_NOTE}.part"
        part.write_text(json.dumps(found))
        part.replace(folder / _NOTE)


def sweep(marker: str) -> list[str]:
    """Remove what a start left; call it only when no process of it lives. Returns the names of what was removed.

    A shared file goes only if it is the very one that was noted, is ours, and no process that we can see has it mapped.
    """
    folder = folder_of(marker)
    if not _is_own(folder):
        return []
    removed: list[str] = []
    noted = {name: inode for name, inode in _noted(folder).items() if _inode(SHARED / name) == inode}
    if noted:
        in_use = {inode for entry in Path("/proc").glob("[0-9]*") for inode in _mapped(int(entry.name))}
        for name, inode in noted.items():
            if inode in in_use:
                continue
            try:
                (SHARED / name).unlink()
            except OSError:
                continue
            removed.append(str(SHARED / name))
    try:
        shutil.rmtree(folder)
    except OSError:
        return removed  # it is tried again at the next look
    return [*removed, str(folder)]


def _torch_cache() -> str:
    """Where torch would keep what it compiled, were it not for our `TMPDIR` (its own rule for the default)."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid_{os.getuid()}"
    return str(root() / f"torchinductor_{re.sub(r'[^A-Za-z0-9._-]', '_', user)}")


def _is_own(folder: Path) -> bool:
    """A real folder of our user that nobody else may write to: what others put there is not trusted, nor followed."""
    try:
        seen = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022


def _noted(folder: Path) -> dict[str, int]:
    try:
        said = json.loads((folder / _NOTE).read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(said, dict):
        return {}
    return {name: inode for name, inode in said.items() if _MADE_BY_SERVERS.fullmatch(name) and isinstance(inode, int)}


def _inode(file: Path) -> int | None:
    try:
        seen = file.lstat()
    except OSError:
        return None
    return seen.st_ino if stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid() else None


def _names_in(folder: Path) -> list[str]:
    """Names of the files in there that servers may have made."""
    try:
        return [entry.name for entry in folder.iterdir() if _MADE_BY_SERVERS.fullmatch(entry.name)]
    except OSError:
        return []


def _mapped(pid: int) -> Iterator[int]:
    """Inodes of the files in /dev/shm that a process has mapped: a semaphore's is mapped under a name it has no longer."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        columns, found, _ = line.partition(f"{SHARED}/")
        if found:
            yield int(columns.split()[4])
