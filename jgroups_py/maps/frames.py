"""Frames: the messages on one TCP connection of a map, as bytes. No sockets.

    stream     "jgmaps", version u8, then frames
    frame      length u32 big-endian, and that number of bytes
    first      a Greeting, or an Inquiry (inquiry.py), or Away: the stream ends, for a reason
    others     messages of replicas (messages.py); empty ones say that the sender is alive

The connecting side greets first, the other one answers. Both name their ``run``, a random number. Two hosts that have
connected to each other notice this by their runs, and keep one of both connections.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Annotated, Final

import msgspec

from jgroups_py.maps.messages import MESSAGE_MAX
from jgroups_py.maps.stamp import WIDE_IDENTIFIER_MAX

VERSION: Final = 1
MAGIC: Final = b"jgmaps"
START: Final = MAGIC + bytes([VERSION])
GREETING_MAX: Final = 1024
"""The most bytes of the first frame."""
RUN: Final = 16
"""Bytes of a ``run``."""
ALIVE: Final = b"\0\0\0\0"
"""The empty frame."""

TCP_CAUSES: Final[Mapping[str, str]] = {
    "not_a_map": "the bytes are no stream of a map",
    "other_version": "the stream is of another version",
    "too_long": "a frame is longer than allowed",
    "bad_greeting": "the first frame is no greeting",
    "unknown_map": "the requested map is not here",
    "late": "the greeting did not come in time",
    "inquiries": "others compare maps at this port already",
    "bad_inquiry": "the request is no question",
    "crowded": "too many others had not greeted yet",
    "no_descriptors": "this process has few descriptors left",
    "silent": "nothing came for silence_timeout",
    "not_taken": "the peer takes nothing, and unsent_max bytes wait for it",
    "tls": "the handshake of TLS failed",
}
"""Causes for which this side ends a connection."""

_LENGTH: Final = Struct(">I")


class Greeting(msgspec.Struct, frozen=True, tag="g", array_like=True):
    """The sender and its map."""

    map: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
    node: Annotated[int, msgspec.Meta(ge=1, le=WIDE_IDENTIFIER_MAX)]
    run: Annotated[bytes, msgspec.Meta(min_length=RUN, max_length=RUN)]


class Away(msgspec.Struct, frozen=True, tag="a", array_like=True):
    """The stream ends. ``cause`` is one of TCP_CAUSES."""

    cause: Annotated[str, msgspec.Meta(max_length=40)]
    reason: Annotated[str, msgspec.Meta(max_length=600)]


class Inquiry(msgspec.Struct, frozen=True, tag="q", array_like=True):
    """The sender is no host: it compares this map with another map."""

    map: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


First = Greeting | Inquiry | Away
_decoder: Final[msgspec.msgpack.Decoder[First]] = msgspec.msgpack.Decoder(First)


class BadStream(ValueError):
    """The other side violates the protocol. ``cause`` is one of TCP_CAUSES."""

    def __init__(self, cause: str, problem: str) -> None:
        self.cause = cause
        super().__init__(problem)


def frame(data: bytes) -> bytes:
    """Return one message as a frame."""
    return _LENGTH.pack(len(data)) + data


def opening(first: First) -> bytes:
    """Return the first bytes of a side."""
    return START + frame(msgspec.msgpack.encode(first))


def first_of(data: bytes) -> First:
    """Decode the first frame. Raises BadStream."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadStream(
            "bad_greeting", f"the first frame is no greeting: {str(error)[:200]}"
        ) from None


class MapFrameReader:
    """Cuts the bytes of one side into frames. It holds at most one incomplete frame."""

    def __init__(self, frame_max: int = MESSAGE_MAX) -> None:
        self._frame_max = frame_max
        self._buffer = bytearray()
        self._started = False
        self._greeted = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take received bytes, and return the complete frames.

        Raises:
            BadStream: no more frames can be read.
        """
        buffer = self._buffer
        buffer += data
        if not self._started and not self._start():
            return []
        frames: list[bytes] = []
        at = 0
        while len(buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, at)
            most = self._frame_max if self._greeted else GREETING_MAX
            if length > most:
                raise BadStream("too_long", f"a frame of {length} bytes, at most {most} are taken")
            end = at + _LENGTH.size + length
            if end > len(buffer):
                break
            frames.append(bytes(memoryview(buffer)[at + _LENGTH.size : end]))
            at, self._greeted = end, True
        del buffer[:at]
        return frames

    def _start(self) -> bool:
        buffer = self._buffer
        known = min(len(buffer), len(MAGIC))
        if buffer[:known] != MAGIC[:known]:
            raise BadStream("not_a_map", f"what came begins with {bytes(buffer[:16])!r}")
        if len(buffer) < len(START):
            return False
        version = buffer[len(MAGIC)]
        if version != VERSION:
            raise BadStream(
                "other_version", f"version {version} of the stream, here it is {VERSION}"
            )
        del buffer[: len(START)]
        self._started = True
        return True
