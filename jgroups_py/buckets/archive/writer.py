"""ArchiveWriter: writes an archive, whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO, Final, Self

from jgroups_py.buckets.archive.errors import BadArchive
from jgroups_py.buckets.archive.frames import (
    FOOTER,
    FOOTER_MAGIC,
    FORMAT,
    FRAME_MAX,
    MAGIC,
    POINTS_MAX,
    End,
    Head,
    Point,
    Record,
    encode,
    framed,
    new_digest,
)
from jgroups_py.buckets.digest import checked_key

BUFFER: Final = 1 << 20
POINT_BYTES: Final = 1 << 20
"""At first a point is set after this many bytes. When there are too many points, every other one is removed and the
distance doubles."""


class ArchiveWriter:
    """``with ArchiveWriter(file, instance="seats", application="seats", created=now) as archive: archive.add(record)``

    Records come in the order of keys. The file is there when the block has ended without an error, readable for its owner only; until then its bytes are in
    FILE.part, which a failed block removes. BadArchive: the file cannot be written, or a record does not fit.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        *,
        instance: str,
        application: str,
        created: float,
        buckets: int = 0,
    ) -> None:
        self.file = os.fspath(file)
        self.head = Head(FORMAT, instance, application, created, buckets)
        self.entries = self.size = 0
        self._part = f"{self.file}.part"
        self._out: BinaryIO | None = None
        self._offset = 0
        self._last = ""
        self._digest = new_digest()
        self._points: list[Point] = []
        self._distance = POINT_BYTES

    def __enter__(self) -> Self:
        with self._told():
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
            self._out = os.fdopen(os.open(self._part, flags, 0o600), "wb", BUFFER)
        self._write(MAGIC)
        self._frame(encode(self.head))
        return self

    def add(self, record: Record) -> None:
        """Write the next entry. Its key must be greater than the one before."""
        checked_key(record.key)
        if self.entries and record.key <= self._last:
            raise BadArchive(
                self.file,
                f"key {record.key!r} comes after {self._last!r}; keys are written in order",
            )
        payload = encode(record)
        if len(payload) > FRAME_MAX:
            raise BadArchive(
                self.file,
                f"entry {record.key!r} has {len(payload)} bytes, more than FRAME_MAX ({FRAME_MAX})",
            )
        if not self._points or self._offset - self._points[-1].offset >= self._distance:
            self._point(record.key)
        self._frame(payload)
        self._last = record.key
        self.entries += 1
        self.size += record.size

    def _point(self, key: str) -> None:
        if len(self._points) >= POINTS_MAX:
            self._points = self._points[::2]
            self._distance *= 2
        self._points.append(Point(self._offset, self.entries, key))

    def _frame(self, payload: bytes) -> None:
        self._digest.update(payload)
        self._write(framed(payload))

    def _write(self, data: bytes) -> None:
        assert self._out is not None, "outside its block"
        with self._told():
            self._out.write(data)
        self._offset += len(data)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise BadArchive(self.file, f"cannot be written: {error.strerror}") from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        out = self._out
        if out is None:
            return
        try:
            if kind is None:
                at = self._offset
                end = End(self.entries, self.size, self._digest.digest(), self._points)
                self._write(framed(encode(end)) + FOOTER.pack(at, FOOTER_MAGIC))
                with self._told():
                    out.flush()
                    os.fsync(out.fileno())
                    os.replace(self._part, self.file)
        finally:
            self._out = None
            with contextlib.suppress(OSError):
                out.close()
            with contextlib.suppress(OSError):
                os.unlink(self._part)
