"""Frames on a connection: a length and so many bytes each. A length of -5 says that the sender closes on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.wire.packet import GRACEFUL_CLOSE

_LENGTH: Final = Struct(">i")
WRITE_SIZE: Final = 256_000
"""Frames are joined into writes of about this size."""


class FrameReader:
    """Cuts a stream into frames. It copies every byte twice at most, however the stream was cut."""

    __slots__ = ("_buffer", "_max", "_need")

    def __init__(self, max_length: int) -> None:
        self._buffer = bytearray()
        self._max = max_length
        self._need = 4

    def __len__(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The frames that are complete now. None is the graceful close. RemoteProtocolError: a length is
        impossible, and the stream is useless."""
        buffer: bytes | bytearray = data
        if self._buffer:
            self._buffer += data
            buffer = self._buffer
        size, pos = len(buffer), 0
        if size >= self._need:
            while size - pos >= 4:
                length = int.from_bytes(buffer[pos : pos + 4], "big", signed=True)
                if length < 0:
                    if buffer[pos : pos + 4] != GRACEFUL_CLOSE:
                        raise RemoteProtocolError(f"a frame of {length} bytes")
                    length = 0
                    yield None
                elif length > self._max:
                    raise RemoteProtocolError(f"a frame of {length} bytes, {self._max} allowed")
                elif size - pos - 4 < length:
                    self._need = 4 + length
                    break
                else:
                    yield bytes(memoryview(buffer)[pos + 4 : pos + 4 + length])
                pos += 4 + length
            else:
                self._need = 4
        if buffer is data:
            if pos < size:
                self._buffer += data[pos:] if pos else data
        else:
            del self._buffer[:pos]


def framed(packets: Sequence[bytes]) -> list[bytes]:
    """Joins packets, with their lengths, into pieces of about WRITE_SIZE bytes. It copies every byte once."""
    return _pieces([(_LENGTH.pack(len(packet)), packet) for packet in packets])


def joined(frames: Sequence[bytes]) -> list[bytes]:
    """Joins frames into pieces of about WRITE_SIZE."""
    if len(frames) < 2:
        return list(frames)
    return _pieces([(frame,) for frame in frames])


def _pieces(frames: Sequence[tuple[bytes, ...]]) -> list[bytes]:
    """Frames come in parts. No frame is cut."""
    pieces: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for frame in frames:
        length = sum(map(len, frame))
        if size and size + length > WRITE_SIZE:
            pieces.append(b"".join(parts))
            parts, size = [], 0
        parts += frame
        size += length
    if parts:
        pieces.append(b"".join(parts))
    return pieces
