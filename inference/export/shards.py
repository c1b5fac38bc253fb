"""Rows over files of a bounded number of rows: what every target shares, and the one method it has to bring."""

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from inference.export.files import DATA, HashedFile, Written
from inference.export.rows import TrainingRow, check


class ShardWriter(ABC):
    """Takes rows one by one; begins a new file after `rows_per_file`. As a context manager it closes whatever is open."""

    suffix: ClassVar[str]
    """The data files' ending; each target names its own"""

    def __init__(self, folder: Path, rows_per_file: int) -> None:
        self.files: list[Written] = []
        self._folder = folder
        self._rows_per_file = rows_per_file
        self._rows = 0
        self._file: HashedFile | None = None

    def write(self, row: TrainingRow) -> None:
        """Append a row.

        Raises:
            Invalid: the row breaks a rule of `rows.check`.
        """
        check(row)
        if self._rows == self._rows_per_file:
            self.finish()
        if self._file is None:
            self._file = HashedFile(self._folder / self._path())
            self._begin(self._file)
        self._append(self._file, row)
        self._rows += 1

    def finish(self) -> None:
        """Close the current file, if there is one."""
        if self._file is not None:
            self._end()
            self._file.close()
            self.files.append(self._file.written(self._path(), self._rows))
            self._file, self._rows = None, 0

    def _path(self) -> str:
        return f"{DATA}/part-{len(self.files):05d}{self.suffix}"

    def _begin(self, file: HashedFile) -> None:  # noqa: B027  (nothing to do for formats without a header)
        """Called with each new file."""

    @abstractmethod
    def _append(self, file: HashedFile, row: TrainingRow) -> None:
        """Write one row."""

    def _end(self) -> None:  # noqa: B027  (nothing to do for formats without a footer)
        """Called before a file is closed."""

    def _discard(self) -> None:  # noqa: B027  (nothing to let go of for most)
        """Called instead of `_end` when the file will be thrown away."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        elif self._file is not None:
            self._discard()
            self._file.abandon()
