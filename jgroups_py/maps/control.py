"""Control: numbers that the processes of a host share, in a small mapped file beside the map.

Each slot (a writing process) has two offsets: how far its inbox is written, and how far it is merged. A generation
grows with each merge. A reader compares ``mark``: as long as these bytes are equal, there is no change. They cover only
the slots in use, mostly few.

Layout, in the host's order of bytes, at 0: magic, version u32, bytes of an inbox u64; at 56: number of slots ever used
u64, generation u64, then SLOTS offsets written and SLOTS offsets merged, u64 each, a number that grows while a process
merges, and the strongest durability that any process has asked for. A ``memoryview`` writes and reads such a number in
one piece, ``struct`` would not.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import Final

from jgroups_py.maps.disk import reserve
from jgroups_py.maps.errors import MapFileError

SLOTS: Final = 126
"""The most processes that have one map open on a host."""
VERSION: Final = 1
MAGIC: Final = b"jgroups_py map\0\0"

_HEAD: Final = Struct("=16sIxxxxQ")
_USED: Final = 7
_GENERATION: Final = 8
_WRITTEN: Final = _GENERATION + 1
_MERGED: Final = _WRITTEN + SLOTS
_WORK: Final = _MERGED + SLOTS
_DURABLE: Final = _WORK + 1
_SIZE: Final = 4096


def durable_of(file: Path) -> int:
    """``Control.durable`` of a file that is not open; 0: there is none."""
    try:
        data = file.read_bytes()
    except (OSError, ValueError):  # ValueError: an impossible path, which opening reports
        return 0
    at = _DURABLE * 8
    return int.from_bytes(data[at : at + 8], sys.byteorder) if data.startswith(MAGIC) else 0


class Control:
    """Opens or creates the file. ``inbox_bytes``: for a new file."""

    def __init__(self, file: Path, inbox_bytes: int) -> None:
        try:
            self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise MapFileError(f"{file} cannot be opened: {error}") from None
        fcntl.flock(self._handle, fcntl.LOCK_EX)  # two processes may make it at once
        if os.fstat(self._handle).st_size < _SIZE:
            try:
                reserve(self._handle, _SIZE)
            except OSError as error:
                os.close(self._handle)
                raise MapFileError(f"{file} cannot be made: {error}") from None
        self._map = mmap.mmap(self._handle, _SIZE)
        if self._map[:16] == bytes(16):
            _HEAD.pack_into(self._map, 0, MAGIC, VERSION, inbox_bytes)
        fcntl.flock(self._handle, fcntl.LOCK_UN)
        magic, version, size = _HEAD.unpack_from(self._map)
        if magic != MAGIC or version != VERSION:
            self.close()
            raise MapFileError(f"{file} is not of version {VERSION} of a map's files")
        self.inbox_bytes: int = size
        self._numbers = memoryview(self._map).cast("Q")
        self._marked = slice(_USED * 8, _WRITTEN * 8)

    def close(self) -> None:
        if hasattr(self, "_numbers"):
            self._numbers.release()
        self._map.close()
        os.close(self._handle)

    def flush(self) -> None:
        """Write to the disk."""
        self._map.flush()

    def use(self, slot: int, merged: Mapping[int, int]) -> None:
        """Mark a slot as in use: a process is going to write its inbox. ``merged``: the offsets of the data file, by slot.
        A control file that replaces a lost one has smaller offsets, and records below the old ones would count as
        merged."""
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        for one, offset in merged.items():
            if self.written(one) < offset:
                self.set_written(one, offset)
                self.set_merged(one, offset)
        written = self.all_written()  # an older file does not say which slots are in use
        in_use = [slot, *(other for other in range(SLOTS) if written[other])]
        self._numbers[_USED] = max(self._numbers[_USED], *(one + 1 for one in in_use))
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def mark_anew(self) -> bytes:
        """Return a mark of all slots in use. It is valid as long as ``mark`` is equal."""
        used = self._numbers[_USED]
        self._marked = slice(_USED * 8, (_WRITTEN + used) * 8)
        return self._map[self._marked]

    def mark(self) -> bytes:
        """Return a mark. It differs from that of ``mark_anew`` after any write, merge, new slot or close."""
        try:
            return self._map[self._marked]
        except ValueError:
            return b"closed"

    def marked(self, mark: bytes, slot: int, written: int) -> bytes:
        """Return ``mark`` updated by this one write."""
        at = (_WRITTEN - _USED + slot) * 8
        return b"".join((mark[:at], written.to_bytes(8, sys.byteorder), mark[at + 8 :]))

    def all_written(self) -> list[int]:
        """Return, by slot, the offset to which its inbox is written."""
        return self._numbers[_WRITTEN : _WRITTEN + SLOTS].tolist()

    def all_merged(self) -> list[int]:
        """Return, by slot, the offset to which its inbox is merged."""
        return self._numbers[_MERGED : _MERGED + SLOTS].tolist()

    def generation(self) -> int:
        return self._numbers[_GENERATION]

    def written(self, slot: int) -> int:
        return self._numbers[_WRITTEN + slot]

    def set_written(self, slot: int, offset: int) -> None:
        self._numbers[_WRITTEN + slot] = offset

    def merged(self, slot: int) -> int:
        return self._numbers[_MERGED + slot]

    def set_merged(self, slot: int, offset: int) -> None:
        self._numbers[_MERGED + slot] = offset

    def next_generation(self) -> None:
        self._numbers[_GENERATION] += 1

    def durable(self) -> int:
        """Return the strongest durability that any process has asked for, as a place in DURABILITIES."""
        return self._numbers[_DURABLE]

    def ask_durable(self, level: int) -> None:
        """Ask for a durability. Every merger keeps it from now on."""
        if self.durable() < level:
            self._numbers[_DURABLE] = level
            self.flush()

    def work(self) -> int:
        """Return a number that grows while a merger works, even within a transaction."""
        return self._numbers[_WORK]

    def worked(self) -> None:
        self._numbers[_WORK] += 1

    def waiting(self) -> list[int]:
        """Return the slots whose inboxes have records to merge."""
        numbers = memoryview(self._map[_WRITTEN * 8 : (_MERGED + SLOTS) * 8]).cast("Q")
        return [slot for slot in range(SLOTS) if numbers[slot] != numbers[SLOTS + slot]]
