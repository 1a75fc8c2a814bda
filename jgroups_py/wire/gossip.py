"""Records between a member and a gossip router. On a connection each stands behind its length, four bytes.

Source: WIRE.md section 9.2; JGroups GossipData, GossipType.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from jgroups_py.values.address import Address
from jgroups_py.values.payloads import PingData
from jgroups_py.wire.primitives import Reader, Writer, encode_whole
from jgroups_py.wire.values import read_ping_data, write_ping_data

GOODBYE: Final = (-5).to_bytes(4, "big", signed=True)
"""This number in the place of a length says that the sender is going to close the connection on purpose."""
PING_DATA_LEAST: Final = 6
"""Bytes of the smallest PingData."""


class GossipType(IntEnum):
    REGISTER = 0
    UNREGISTER = 1
    GET_MBRS = 2
    GET_MBRS_RSP = 3
    MESSAGE = 4
    HEARTBEAT = 5
    SUSPECT = 6
    GET_MBRS_RSP_LAST = 7


@dataclass(frozen=True, slots=True)
class GossipRecord:
    """``kind`` is a GossipType, or an unknown number."""

    kind: int
    group: str | None = None
    address: Address | None = None
    sender: Address | None = None
    name: str | None = None
    members: tuple[PingData, ...] = ()
    physical: Address | None = None
    buffer: bytes = b""


def read_gossip(r: Reader) -> GossipRecord:
    kind = r.i8()
    group, address, sender = r.ostr(), r.addr(), r.addr()
    name: str | None = None
    members: tuple[PingData, ...] = ()
    physical: Address | None = None
    if kind != GossipType.MESSAGE:
        name = r.ostr()
        count = r.count(r.i16(), PING_DATA_LEAST, "members")
        members = tuple([read_ping_data(r) for _ in range(count)])
        physical = r.addr()
    return GossipRecord(kind, group, address, sender, name, members, physical, r.sized())


def write_gossip(w: Writer, record: GossipRecord) -> None:
    w.i8(record.kind)
    w.ostr(record.group)
    w.addr(record.address)
    w.addr(record.sender)
    if record.kind != GossipType.MESSAGE:
        w.ostr(record.name)
        w.i16(len(record.members))
        for member in record.members:
            write_ping_data(w, member)
        w.addr(record.physical)
    w.sized(record.buffer)


def gossip_frame(record: GossipRecord) -> bytes:
    """Return a record behind its length."""
    data = encode_whole(write_gossip, record)
    return len(data).to_bytes(4, "big") + data
