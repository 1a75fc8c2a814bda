"""Inbox: the unmerged records of one process, in a mapped ring of fixed size.

A record is its length u32, a CRC-32 of its offset and bytes u32, its kind u8, and its bytes; it lies in one piece, and a record of kind SKIP fills the end of the ring. Offsets
only grow; the place in the ring is the offset modulo its size. A record counts when the control file has its end, which
is written after its bytes. A process that is killed in the middle leaves no half record.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from jgroups_py.maps.control import SLOTS, Control
from jgroups_py.maps.disk import reserve
from jgroups_py.maps.errors import InboxFull, MapFileError, MapFull

LOG: Final = logging.getLogger("jgroups_py.maps")
SKIP: Final = 0
CHANGE: Final = 1
"""A change of this host: length of the key u32, key, entry without dots."""
ENTRY: Final = 2
"""An entry of another host: the same with dots."""
ADVANCE: Final = 3
"""Origin u64 and number u64 of the vector."""
FORGET: Final = 4
"""A tombstone is forgotten: length of the key, key, the tombstone's entry."""
USE: Final = 6
"""A key was read: time u64, key."""
DROP: Final = 7
"""Changes are gone at a host that has seen them: pairs of origin and number. (5 is no longer used.)"""
LACKING: Final = 8
"""Removals were forgotten that a host may lack. No bytes."""

RESERVED_AT_ONCE: Final = 256 * 1024
"""Bytes of disk space that a process reserves for its ring at a time."""

_HEAD: Final = Struct("<IIB")
_LENGTH: Final = Struct("<I")
_CRC_MASK: Final = 0xFFFFFFFF
"""The bits of an offset that begin its record's CRC. So a record of an earlier turn of the ring is not taken for a lost
one."""
HEAD: Final = _HEAD.size


class InboxFile:
    """The mapped ring of a slot. Its writer locks it first."""

    def __init__(self, file: Path, size: int) -> None:
        self.size = size
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(self._handle).st_size < size:
                os.ftruncate(self._handle, size)
            self.map = mmap.mmap(self._handle, size)
        except OSError:
            os.close(self._handle)
            raise
        self._reserved = 0

    def reserve(self, end: int) -> None:
        """Reserve disk space for the first ``end`` bytes. MapFull: the disk has no space."""
        if end <= self._reserved:
            return
        end = min(self.size, -(-end // RESERVED_AT_ONCE) * RESERVED_AT_ONCE)
        try:
            reserve(self._handle, end)
        except OSError as error:
            raise MapFull(
                f"the inbox of this process has no place on the disk: {error.strerror}"
            ) from None
        self._reserved = end

    def lock(self) -> bool:
        """Take the ring for this process. False: another process has it."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        self.map.close()
        os.close(self._handle)

    def records(self, begin: int, end: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield the records from ``begin`` to ``end``: offset behind it, kind, bytes."""
        ring, size = self.map, self.size
        while begin < end:
            at = begin % size
            if size - at < HEAD:
                begin += size - at
                continue
            length, check, kind = _HEAD.unpack_from(ring, at)
            if kind == SKIP and length == size - at - HEAD:
                begin += size - at
                continue
            data = ring[at + HEAD : at + HEAD + length]
            if kind == SKIP or crc32(data, begin & _CRC_MASK) != check:
                return  # the record is damaged, or not wholly visible to this processor yet
            begin += HEAD + length
            yield begin, kind, data

    def intact(self, begin: int, end: int) -> int:
        """Return the end of the undamaged records from ``begin`` on."""
        behind = begin
        for behind, _, _ in self.records(begin, end):  # noqa: B007 - the last one counts
            pass
        return behind


class InboxFiles:
    """The rings of all slots of a map, opened on demand."""

    def __init__(self, folder: Path, size: int) -> None:
        self._folder, self._size = folder, size
        self._files: dict[int, InboxFile] = {}

    def of(self, slot: int) -> InboxFile:
        file = self._files.get(slot)
        if file is None:
            file = self._files[slot] = self._opened(slot)
        return file

    def cut_damaged(self, control: Control) -> None:
        """End each inbox without a writer before its first damaged record. A loss of power may keep the control file's
        offset, but not the record; no record behind it could ever be merged."""
        for slot in control.waiting():
            file = self._opened(slot)
            try:
                if not file.lock():
                    continue
                written = control.written(slot)
                end = file.intact(control.merged(slot), written)
                if end < written:
                    control.set_written(slot, end)
                    LOG.error(
                        "the map %s: %d bytes that were put and not merged are damaged, and lost (slot %d)",
                        self._folder,
                        written - end,
                        slot,
                    )
            finally:
                file.close()

    def take(self) -> int:
        """Take a free slot for this process, until its ring is closed. MapFileError: no slot is free."""
        for slot in range(SLOTS):
            file = self._opened(slot)
            if file.lock():
                self._files[slot] = file
                return slot
            file.close()
        raise MapFileError(f"{self._folder} is open in {SLOTS} processes already")

    def _opened(self, slot: int) -> InboxFile:
        return InboxFile(self._folder / f"inbox.{slot}", self._size)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}


class Inbox:
    """The inbox that this process writes."""

    def __init__(self, file: InboxFile, control: Control, slot: int) -> None:
        self._file = file
        self._control = control
        self._slot = slot
        self._at = control.written(slot)

    @property
    def size(self) -> int:
        return self._file.size

    def has_room(self, need: int) -> bool:
        """Does a record of ``need`` bytes, head included, fit now?"""
        size = self._file.size
        left = size - self._at % size
        skip = left if left < need else 0
        return self._at + skip + need - self._control.merged(self._slot) <= size

    def is_half_full(self) -> bool:
        return self._at - self._control.merged(self._slot) > self._file.size // 2

    def append(self, kind: int, data: bytes) -> int:
        """Append a record and return the offset behind it. InboxFull, MapFull: nothing was written."""
        size = self._file.size
        need = HEAD + len(data)
        at = self._at % size
        skip = size - at if size - at < need else 0
        if need > size // 2:
            raise MapFull(
                f"a change of {len(data)} bytes is more than half an inbox ({size} bytes, inbox_bytes)"
            )
        if self._at + skip + need - self._control.merged(self._slot) > size:
            raise InboxFull(need)
        self._file.reserve(at + need)  # includes the rest of the ring if that is skipped
        ring = self._file.map
        if skip:
            if skip >= HEAD:
                _HEAD.pack_into(ring, at, skip - HEAD, 0, SKIP)
            self._at += skip
            at = 0
        ring[at + HEAD : at + need] = data
        _HEAD.pack_into(ring, at, len(data), crc32(data, self._at & _CRC_MASK), kind)
        self._at += need
        self._control.set_written(self._slot, self._at)
        return self._at

    def flush(self) -> None:
        """Write to the disk."""
        self._file.map.flush()
        self._control.flush()


def keyed(key: bytes, data: bytes) -> bytes:
    """Return the bytes of a CHANGE or ENTRY."""
    return b"".join((_LENGTH.pack(len(key)), key, data))


def split_keyed(data: bytes) -> tuple[bytes, bytes]:
    end = 4 + _LENGTH.unpack_from(data)[0]
    return data[4:end], data[end:]
