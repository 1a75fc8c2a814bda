"""A file for runs that the buffer cannot hold in memory (``overflow="spill"``).

Runs are appended. The file is emptied when no run in it is needed any more. It has no name once it is open, and does
not survive the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from jgroups_py.errors import ConfigError

_CODEC: Final = msgspec.msgpack.Decoder(list[bytes | None])


class SpillFile:
    """``max_bytes``: the largest size of the file."""

    def __init__(self, directory: str, max_bytes: int) -> None:
        try:
            self._file = tempfile.TemporaryFile(dir=directory or None, prefix="relay-")  # noqa: SIM115
        except OSError as error:
            raise ConfigError(f"spill_dir: {error}") from None
        self._max_bytes = max_bytes
        self._end = 0
        self._used = 0
        """The number of runs in the file that are needed."""

    @property
    def size(self) -> int:
        return self._end

    def write(self, payloads: Sequence[Any]) -> tuple[int, int] | None:
        """Append a run and return its place: (offset, length). None: the file is full, or the disk refused."""
        data = msgspec.msgpack.encode([None if p is None else bytes(p) for p in payloads])
        if self._end + len(data) > self._max_bytes:
            return None
        try:
            self._file.seek(self._end)
            self._file.write(data)
            self._file.flush()
        except OSError:
            return None
        place = (self._end, len(data))
        self._end += len(data)
        self._used += 1
        return place

    def read(self, place: tuple[int, int]) -> list[bytes | None]:
        offset, length = place
        self._file.seek(offset)
        return _CODEC.decode(self._file.read(length))

    def free(self, place: tuple[int, int]) -> None:
        self._used -= 1
        if self._used == 0:
            self._end = 0
            self._file.truncate(0)

    def close(self) -> None:
        self._file.close()
