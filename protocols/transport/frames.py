"""Frames on a connection: each has a length and that number of bytes. A length of -5 says that the sender closes on
purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.wire.connection import GRACEFUL_CLOSE

FRAME_HEAD: Final = 4
"""The bytes of a length."""
WRITE_SIZE: Final = 256_000
"""Frames are joined into writes of about this size."""
LARGE_FRAME: Final = 16_384
"""Frames of this size are written one by one."""
SMALL_PART: Final = 4096
"""Smaller parts of a frame are collected in one place: an object for each would take more memory than its bytes."""


class FrameReader:
    """Cuts a stream into frames. It copies every byte of a large frame once, and small parts twice, however the stream
    was cut."""

    __slots__ = ("_held", "_max", "_missing", "_parts")

    def __init__(self, max_length: int) -> None:
        self._parts: list[bytes | bytearray | memoryview] = []
        """The incomplete frame: the part of its length that is here, or the bytes after its length."""
        self._held = 0
        self._max = max_length
        self._missing = 0
        """The bytes until it is complete; 0: its length is not known yet."""

    def __len__(self) -> int:
        """Count the bytes that wait for the rest of their frame."""
        return self._held

    def only(self, data: bytes) -> bytes | None:
        """Return the frame if ``data`` is one whole frame and nothing came before it, as with a message that travels alone. None:
        ``feed`` must look at it."""
        length = len(data) - FRAME_HEAD
        if (
            self._held
            or self._missing
            or not 0 < length <= self._max
            or int.from_bytes(data[:FRAME_HEAD], "big") != length
        ):
            return None
        return data[FRAME_HEAD:]

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the frames that are complete now. None is the graceful close. RemoteProtocolError: a length is
        impossible, and the stream is useless."""
        pos, size = 0, len(data)
        if self._missing:
            pos = self._missing
            if size < pos:
                self._keep(data, 0)
                self._missing -= size
                return
            frame = b"".join((*self._parts, memoryview(data)[:pos]))
            self._parts, self._held, self._missing = [], 0, 0
            yield frame
        elif self._held:
            data = b"".join((*self._parts, data))
            size = len(data)
            self._parts, self._held = [], 0
        while size - pos >= 4:
            length = int.from_bytes(data[pos : pos + 4], "big", signed=True)
            pos += 4
            if length < 0:
                if data[pos - 4 : pos] != GRACEFUL_CLOSE:
                    raise RemoteProtocolError(f"a frame of {length} bytes")
                yield None
            elif length > self._max:
                raise RemoteProtocolError(f"a frame of {length} bytes, {self._max} allowed")
            elif size - pos < length:
                self._missing = length - (size - pos)
                self._held = 4
                break
            else:
                yield data[pos : pos + length]
                pos += length
        if pos < size:
            self._keep(data, pos)

    def _keep(self, data: bytes, start: int) -> None:
        """Keep the bytes after ``start``. A view keeps all of ``data``, so it must be most of that. Tiny parts become
        one."""
        rest = len(data) - start
        self._held += rest
        if rest < SMALL_PART:
            last = self._parts[-1] if self._parts else None
            if type(last) is bytearray:
                last += data[start:]
            else:
                self._parts.append(bytearray(data[start:]))
        elif 2 * rest >= len(data):
            self._parts.append(memoryview(data)[start:])
        else:
            self._parts.append(data[start:])


def writes_of(frames: Sequence[bytes]) -> Sequence[bytes]:
    """Join small frames into pieces of about WRITE_SIZE. A large one is a piece of its own, because copying it takes
    longer than one more write."""
    if len(frames) < 2 or min(map(len, frames)) >= LARGE_FRAME:
        return frames
    return joined(frames)


def joined(frames: Sequence[bytes]) -> list[bytes]:
    """Join frames into pieces of about WRITE_SIZE. No frame is cut."""
    if len(frames) < 2:
        return list(frames)
    pieces: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for frame in frames:
        if size and size + len(frame) > WRITE_SIZE:
            pieces.append(b"".join(parts))
            parts, size = [], 0
        parts.append(frame)
        size += len(frame)
    pieces.append(b"".join(parts))
    return pieces
