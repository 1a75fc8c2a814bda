"""ArchiveReader: reads an archive record by record, finds damages, and can go on behind them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import BinaryIO, Final, Self

from jgroups_py.buckets.archive.errors import BadArchive, Damage
from jgroups_py.buckets.archive.frames import (
    FOOTER,
    FOOTER_MAGIC,
    FORMAT,
    FRAME,
    FRAME_MAX,
    MAGIC,
    RECORD_BEGINS,
    BadFrame,
    End,
    Head,
    Point,
    Record,
    decode,
    new_digest,
)

BUFFER: Final = 1 << 20
FOOTLESS: Final = (
    f"behind its end the footer of {FOOTER.size} bytes is damaged, or not the last thing"
)
SEARCH_MAX: Final = 1 << 20
"""The most bytes behind a damage that are searched for the next good record. Beyond them reading continues at the next point."""


class ArchiveReader:
    """``with ArchiveReader(file) as archive: for record in archive: ...`` raises BadArchive for the first damage, after all records before it.

    ``archive.records(damaged=found.append)`` continues after each damage and reports it.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = os.fspath(file)
        self._in: BinaryIO | None = None
        self._size = 0
        self._at = -1

    def __enter__(self) -> Self:
        try:
            self._in = open(self.file, "rb", BUFFER)
            self._size = self._in.seek(0, os.SEEK_END)
        except OSError as error:
            self.close()
            raise BadArchive(self.file, f"cannot be read: {error.strerror}") from None
        try:
            self.head = self._head()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._in is not None:
            self._in.close()
            self._in = None

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    # --- both ends

    def _head(self) -> Head:
        if self._read(0, len(MAGIC)) != MAGIC:
            raise BadArchive(
                self.file, f"it is no archive (it does not begin with {MAGIC.decode()})"
            )
        try:
            payload, _ = self._frame(len(MAGIC))
            head = decode(payload)
        except BadFrame as error:
            raise BadArchive(self.file, Damage(f"the head: {error}", len(MAGIC), 0, "")) from None
        if not isinstance(head, Head):
            raise BadArchive(self.file, Damage("the first record is no head", len(MAGIC), 0, ""))
        if head.format > FORMAT:
            raise BadArchive(
                self.file,
                f"its format is {head.format}, and this version reads 1 to {FORMAT}; use a newer one",
            )
        self._first = len(MAGIC) + FRAME.size + len(payload)
        return head

    def end(self) -> End:
        """Read counts and points from the file's end. BadArchive: the file has no end, or a damaged one."""
        at, end = self._end()
        assert at
        return end

    def _end(self) -> tuple[int, End]:
        footer = self._read(max(0, self._size - FOOTER.size), FOOTER.size)
        if len(footer) == FOOTER.size:
            at, magic = FOOTER.unpack(footer)
            if magic == FOOTER_MAGIC:
                try:
                    payload, after = self._frame(at)
                    end = decode(payload)
                except BadFrame as error:
                    raise BadArchive(self.file, Damage(f"the end: {error}", at, 0, "")) from None
                if isinstance(end, End) and after + FOOTER.size == self._size:
                    return at, end
        raise BadArchive(
            self.file, "it has no end: it was cut, or the export that wrote it did not finish"
        )

    # --- records

    def records(
        self,
        damaged: Callable[[Damage], None] | None = None,
        between: tuple[Point, Point | None] | None = None,
    ) -> Iterator[Record]:
        """Yield all records in order.

        Args:
            damaged: called with each damage; reading continues after it. Without it the first one raises BadArchive.
            between: from one point of ``end()`` up to another one, or to the end (None). Then counts and digest of the whole are not checked.
        """
        reading = _Reading(self, damaged)
        if between is None:
            return reading.whole(self._first)
        first, after = between
        return reading.part(first, after)

    def stretch(self, first: str, after: str | None) -> Iterator[Record]:
        """Records with keys from ``first`` on, before ``after`` (None: to the end). Counts and digest of the whole are not checked; the first damage raises
        BadArchive."""
        begin = Point(self._first, 0, "")
        for point in self.end().points:
            if point.key > first:
                break
            begin = point
        for record in self.records(between=(begin, None)):
            if after is not None and record.key >= after:
                return
            if record.key >= first:
                yield record

    def check(self) -> End:
        """Read the whole archive and return its end. BadArchive: the first damage."""
        for _ in self.records():
            pass
        return self.end()

    # --- bytes

    def is_good(self, at: int) -> bool:
        """Does a good frame begin there?"""
        try:
            decode(self._frame(at)[0])
        except BadFrame:
            return False
        return True

    def _read(self, at: int, length: int) -> bytes:
        if self._in is None:
            raise BadArchive(self.file, "it is closed")
        try:
            if at != self._at:  # a seek empties the buffer
                self._in.seek(at)
            data = self._in.read(length)
        except OSError as error:
            raise BadArchive(self.file, f"cannot be read: {error.strerror}") from None
        self._at = at + len(data)
        return data

    def _frame(self, at: int) -> tuple[bytes, int]:
        """Return the payload of the frame there, and the offset of the next one. Raises BadFrame."""
        if at + FRAME.size > self._size:
            raise BadFrame("the file ends here")
        length, crc = FRAME.unpack(self._read(at, FRAME.size))
        after = at + FRAME.size + length
        if length > FRAME_MAX:
            raise BadFrame(f"a record of {length} bytes, more than FRAME_MAX ({FRAME_MAX})")
        if after > self._size:
            raise BadFrame(f"the file ends inside a record of {length} bytes")
        payload = self._read(at + FRAME.size, length)
        if zlib.crc32(payload) != crc:
            raise BadFrame(f"a record of {length} bytes with a wrong checksum", after)
        return payload, after


class _Reading:
    """One pass over the records."""

    def __init__(self, archive: ArchiveReader, damaged: Callable[[Damage], None] | None) -> None:
        self._archive, self._damaged = archive, damaged
        self._number = self._size = 0
        self._last = ""
        self._digest = new_digest()
        self._whole = True

    def whole(self, at: int) -> Iterator[Record]:
        archive = self._archive
        payload, _ = archive._frame(len(MAGIC))
        self._digest.update(payload)
        value: Record | End | None = None
        while (place := at) is not None:
            value, found = self._next(place)
            if isinstance(value, Record):
                yield value
            if found is None:
                break
            at = found
        if isinstance(value, End):
            self._judge(value, at)

    def part(self, first: Point, after: Point | None) -> Iterator[Record]:
        self._number, at = first.number, first.offset
        while after is None or at < after.offset:
            value, found = self._next(at)
            if isinstance(value, Record):
                yield value
            if found is None or isinstance(value, End):
                return
            at = found

    def _next(self, at: int) -> tuple[Record | End | None, int | None]:
        """Return the record or end there, and the offset to go on at; None after the end."""
        archive = self._archive
        try:
            payload, after = archive._frame(at)
            value = decode(payload)
            if isinstance(value, Head):
                raise BadFrame("a second head", after)
            if isinstance(value, Record) and value.key <= self._last:
                raise BadFrame(f"key {value.key!r} comes after {self._last!r}", after)
        except BadFrame as error:
            self._whole = False
            return None, self._behind(at, error)
        if isinstance(value, End):
            return value, None
        self._digest.update(payload)
        self._number += 1
        self._size += value.size
        self._last = value.key
        return value, after

    def _behind(self, at: int, error: BadFrame) -> int | None:
        """Return the place at which reading continues: the next frame if it is good, else the next good record, else the
        next point."""
        until = error.next
        if until is None or not self._archive.is_good(until):
            until = self._next_record(at) or self._next_point(at)
        self._tell(Damage(str(error), at, self._number, self._last, until))
        return until

    def _next_record(self, at: int) -> int | None:
        """Return the next good record that begins within SEARCH_MAX bytes."""
        stretch = self._archive._read(at, SEARCH_MAX)
        found = stretch.find(RECORD_BEGINS, FRAME.size + 1)
        while found >= 0:
            if self._archive.is_good(at + found - FRAME.size):
                return at + found - FRAME.size
            found = stretch.find(RECORD_BEGINS, found + 1)
        return None

    def _next_point(self, at: int) -> int | None:
        try:
            end_at, end = self._archive._end()
        except BadArchive:
            return None
        places = [point.offset for point in end.points if point.offset > at]
        return min((*places, end_at)) if end_at > at else None

    def _judge(self, end: End, at: int) -> None:
        try:
            self._archive._end()
        except BadArchive:
            self._tell(Damage(FOOTLESS, at, self._number, self._last))
            return
        if self._whole and (self._number, self._size, self._digest.digest()) != (
            end.entries,
            end.size,
            end.digest,
        ):
            self._tell(
                Damage(
                    f"{self._number} entries with {self._size} bytes were read, and its end names {end.entries} with {end.size}"
                    if (self._number, self._size) != (end.entries, end.size)
                    else "its contents are not those that were written (digest)",
                    at,
                    self._number,
                    self._last,
                )
            )

    def _tell(self, damage: Damage) -> None:
        if self._damaged is None:
            raise BadArchive(self._archive.file, damage)
        self._damaged(damage)
