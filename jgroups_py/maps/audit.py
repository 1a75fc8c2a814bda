"""Audit: files with all that a host has sent to its peers and received from them (K23).

    log = AuditLog("logs/1")
    open_map(..., replication=Replication(watch=log.watch))
    for record in read_audit("logs/1"): print(record.line())

    folder     audit-000001.log and on; each process and each ``file_max`` bytes begin a new one
    file       "jgaudit", version u8, then records
    record     length u32, CRC-32 u32, little-endian, and msgpack. An incomplete last record is skipped: its writer
               was killed

Limits:  ``files_max`` files; the oldest is deleted. A failure of the disk is counted and logged, and replication continues.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, Literal
from zlib import crc32

import msgspec

from jgroups_py.maps.entry import DamagedEntry, decode_entry
from jgroups_py.maps.errors import MapError, MapFileError
from jgroups_py.maps.host import MapEvent
from jgroups_py.maps.orders import Arrived, Sent
from jgroups_py.maps.stamp import TICKS_PER_S
from jgroups_py.stack.log_limit import LogLimit

LOG: Final = logging.getLogger("jgroups_py.maps")
START: Final = b"jgaudit\x01"
FILE_MAX: Final = 64 * 1024**2
FILES_MAX: Final = 16
RECORD_MAX: Final = 64 * 1024**2
"""The most bytes of a record."""
_HEAD: Final = Struct("<II")


class AuditRecord(msgspec.Struct, frozen=True, array_like=True):
    """One event. ``at``: nanoseconds since 1970. ``node``: the peer's identifier. ``entry``: as it was on the wire;
    None when the record is only a text (``text``)."""

    at: int
    kind: Literal["sent", "arrived", "told"]
    node: int
    origin: int = 0
    key: bytes = b""
    entry: bytes | None = None
    text: str = ""

    @property
    def age_s(self) -> float | None:
        """Return the age of a change at ``at``, by both hosts' clocks: for an arrived one, the lag behind the peer.
        None: it is no change."""
        if self.entry is None:
            return None
        return self.at / 1e9 - decode_entry(self.entry).stamp.time / TICKS_PER_S

    def line(self) -> str:
        """Return the record as a line for people."""
        seconds, rest = divmod(self.at, 1_000_000_000)
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds)) + f".{rest // 1000:06d}"
        if self.entry is None:
            return f"{when} told      host {self.node}: {self.text}"
        entry = decode_entry(self.entry)
        way = "sent to  " if self.kind == "sent" else "came from"
        what = "removed" if entry.value is None else f"{len(entry.value)} bytes"
        return f"{when} {way} host {self.node}: {self.key!r} {what}, a change of host {entry.stamp.node}, {self.age_s:.3f} s old"


class AuditLog:
    """See the module's docstring. ``watch`` is for ``Replication.watch``."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        file_max: int = FILE_MAX,
        files_max: int = FILES_MAX,
        wall: Callable[[], int] = time.time_ns,
    ) -> None:
        """Raises MapError: the folder cannot be made."""
        if file_max < 1 or files_max < 1:
            raise MapError(
                f"file_max and files_max must be at least 1, got {file_max} and {files_max}"
            )
        self.folder = Path(folder)
        self.counters: Counter[str] = Counter()
        """records; failed (not written); files_deleted."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise MapError(f"{folder} cannot be a folder of audit files: {error}") from None
        self._file_max, self._files_max, self._wall = file_max, files_max, wall
        self._limit = LogLimit(time.monotonic)
        self._handle: int | None = None
        self._size = 0

    def watch(self, event: MapEvent) -> None:
        """Write an event. Never raises."""
        now = self._wall()
        if isinstance(event, Sent):
            records = [
                AuditRecord(now, "sent", event.node, event.origin, key, data)
                for key, data in event.entries
            ]
        elif isinstance(event, Arrived):
            records = [
                AuditRecord(now, "arrived", event.node, event.origin, key, entry.encode())
                for key, entry in event.entries
            ]
        else:
            records = [AuditRecord(now, "told", event.node, text=f"{event.kind}: {event.text}")]
        if records:
            self._write(records)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write(self, records: list[AuditRecord]) -> None:
        encoded = [msgspec.msgpack.encode(record) for record in records]
        data = b"".join(_HEAD.pack(len(one), crc32(one)) + one for one in encoded)
        try:
            if self._handle is None or self._size >= self._file_max:
                self._begin()
            assert self._handle is not None
            left = memoryview(data)
            while left:
                left = left[os.write(self._handle, left) :]
            self._size += len(data)
            self.counters["records"] += len(records)
        except OSError as error:
            self.counters["failed"] += len(records)
            self._cut()
            if (left_out := self._limit.admit(type(error).__name__)) is not None:
                LOG.error("the audit files in %s miss events: %s%s", self.folder, error, left_out)

    def _cut(self) -> None:
        """Remove a partial record, so that the file can continue when there is room. Another file for each failure would delete all former ones."""
        if self._handle is None:
            return
        try:
            os.ftruncate(self._handle, self._size)
            os.lseek(self._handle, self._size, os.SEEK_SET)
        except OSError:
            self.close()  # a partial record ends its file

    def _begin(self) -> None:
        self.close()
        files = files_of(self.folder)
        number = int(files[-1].stem.partition("-")[2]) if files else 0
        name = self.folder / f"audit-{number + 1:06d}.log"
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, START)
        except OSError:
            os.close(handle)
            name.unlink()
            raise
        self._handle, self._size = handle, len(START)
        for file in files[: max(0, len(files) - self._files_max + 1)]:
            file.unlink(missing_ok=True)
            self.counters["files_deleted"] += 1


def files_of(folder: Path) -> list[Path]:
    """Return the audit files, the oldest first."""
    found = [file for file in folder.glob("audit-*.log") if file.stem[6:].isdecimal()]
    return sorted(found, key=lambda file: int(file.stem[6:]))


def read_audit(folder: str | os.PathLike[str]) -> Iterator[AuditRecord]:
    """Yield all records of a folder, the oldest first.

    Raises:
        MapFileError: there are no files, or a file is no audit file. The incomplete record of a killed writer is
            skipped.
    """
    files = files_of(Path(folder))
    if not files:
        raise MapFileError(f"{folder} has no audit files (audit-000001.log)")
    for file in files:
        yield from _records_of(file)


def _records_of(file: Path) -> Iterator[AuditRecord]:
    with file.open("rb") as handle:
        start = handle.read(len(START))
        if not START.startswith(start):
            raise MapFileError(f"{file} is no audit file of this version: it begins with {start!r}")
        while len(head := handle.read(_HEAD.size)) == _HEAD.size:
            length, crc = _HEAD.unpack(head)
            if length > RECORD_MAX:
                return
            data = handle.read(length)
            if len(data) < length or crc32(data) != crc:
                return
            try:
                record = msgspec.msgpack.decode(data, type=AuditRecord)
                if record.entry is not None:
                    decode_entry(record.entry)
            except (msgspec.MsgspecError, ValueError, DamagedEntry) as error:
                raise MapFileError(f"{file} has a record that cannot be read: {error}") from None
            yield record
