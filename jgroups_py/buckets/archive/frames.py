"""Frames of an archive: its bytes.

    magic        JGBUCKET
    frame        | length u32 | CRC-32 of the payload u32 | payload |      big-endian
    ...          first a Head, then a Record for each entry in the order of keys, then an End
    footer       | offset of the End's frame u64 | JGBUCEND |

A payload is msgpack. CRC-32 finds a damaged record, the order of keys finds a doubled or misplaced one, and the digest
in End finds all other faults.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Annotated, Any, Final

import msgspec

from jgroups_py.buckets.bucket import PIECES_MAX
from jgroups_py.buckets.digest import BUCKETS_MAX
from jgroups_py.buckets.messages import PACKET_MAX, Body, EntryChange, Key, Number, Version

MAGIC: Final = b"JGBUCKET"
FOOTER: Final = struct.Struct(">Q8s")
FOOTER_MAGIC: Final = b"JGBUCEND"
FRAME: Final = struct.Struct(">II")
FORMAT: Final = 1
"""Version of this format. A reader takes its own and earlier ones."""
FRAME_MAX: Final = PACKET_MAX
"""The most bytes of a payload: one entry with all its pieces."""
RECORD_BEGINS: Final = b"\x94\xa5entry"
"""The first bytes of a Record's payload: a list of four, the tag."""
POINTS_MAX: Final = 10_000
"""The most points of an End, at which a reader can begin."""

Text = Annotated[str, msgspec.Meta(max_length=200)]


class Head(msgspec.Struct, frozen=True, tag="head", array_like=True, forbid_unknown_fields=True):
    """The origin of an archive. ``created``: seconds since 1970. ``buckets``: of the instance; 0: unknown. No reader
    needs it."""

    format: Annotated[int, msgspec.Meta(ge=1)]
    instance: Text
    application: Text
    created: float
    buckets: Annotated[int, msgspec.Meta(ge=0, le=BUCKETS_MAX)] = 0


class Record(msgspec.Struct, frozen=True, tag="entry", array_like=True, forbid_unknown_fields=True):
    """An entry. ``version``: of its format. ``pieces``: the saved parts; the whole has the name ""."""

    key: Key
    version: Version
    pieces: Annotated[dict[str, Body], msgspec.Meta(min_length=1, max_length=PIECES_MAX + 1)]

    @property
    def size(self) -> int:
        """Bytes of key and pieces."""
        return len(self.key.encode()) + sum(map(len, self.pieces.values()))

    def as_change(self) -> EntryChange:
        return EntryChange(self.key, self.pieces, True, self.version)

    @classmethod
    def of(cls, change: EntryChange) -> Record:
        return cls(change.key, change.version, change.pieces)


class Point(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A record's place: its frame's offset, the number of records before it, its key."""

    offset: Number
    number: Number
    key: Key


class End(msgspec.Struct, frozen=True, tag="end", array_like=True, forbid_unknown_fields=True):
    """``entries`` and ``size`` of all of them; ``digest``: BLAKE2b of all payloads before; ``points`` in their order."""

    entries: Number
    size: Number
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    points: Annotated[list[Point], msgspec.Meta(max_length=POINTS_MAX)]


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Head | Record | End)


class BadFrame(Exception):
    """A frame is damaged. The text describes the damage. ``next``: the offset of the next frame, if the damaged frame's
    length is plausible."""

    def __init__(self, problem: str, next: int | None = None) -> None:
        self.next = next
        super().__init__(problem)


def new_digest() -> Any:
    return hashlib.blake2b(digest_size=32)


def framed(payload: bytes) -> bytes:
    return FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def encode(value: Head | Record | End) -> bytes:
    return _encoder.encode(value)


def decode(payload: bytes) -> Head | Record | End:
    """Decode a payload. Raises BadFrame."""
    try:
        value: Head | Record | End = _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(f"its checksum is right, and it is none of this format ({error})") from None
    return value
