"""The messages of the round of survivors (agreement.py) as bytes.

FragHeader (a class every Java member can parse) under protocol id 1026: index = kind, id = counter;
the functions here have the payloads. UNICAST3 makes the messages reliable and keeps those of a coordinator in order.
ASK and HAS belong to no round: excluded.py sends them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.values.address import Address
from jgroups_py.values.view import Digest
from jgroups_py.wire.primitives import Reader, Writer, decode_whole
from jgroups_py.wire.values import read_digest, read_join_rsp, write_digest

AGREE_ID: Final = 1026
"""Protocol id of the rounds."""

Goals = dict[Address, tuple[int, Address]]
"""Sender -> (highest number to deliver, a member that has it)."""

MAX_VIEW_ID: Final = 2**62
"""The highest view number. No group has that many views; higher numbers are garbage, and would use up the numbers."""


class RoundKind(IntEnum):
    FREEZE = 1
    REPORT = 2
    FETCH = 3
    DONE = 4
    THAW = 5
    DECIDED = 6
    VIEW = 7
    ASK = 8
    HAS = 9


def is_refusal(payload: Any) -> bool:
    """Return whether the payload of a JOIN_RSP is a refusal. GMS installs the view of an answer with a view, even if it
    also has a reason."""
    try:
        answer = decode_whole(read_join_rsp, payload)
    except RemoteProtocolError:
        return False
    return answer is not None and answer.fail_reason is not None and answer.view is None


def encode_freeze(proposed: int, staying: tuple[Address, ...]) -> bytes:
    """| lz64 proposed view id | addrs members of the new view that are in the old one |"""
    w = Writer()
    w.lz64(proposed)
    w.addrs(staying)
    return w.done()


def read_freeze(r: Reader) -> tuple[int, tuple[Address, ...]]:
    """Payload of FREEZE: see ``encode_freeze``."""
    return _read_id(r), r.members()


def encode_report(view_id: int, digest: Digest) -> bytes:
    """| lz64 id of the survivor's view | digest |"""
    w = Writer()
    w.lz64(view_id)
    write_digest(w, digest)
    return w.done()


def read_report(r: Reader) -> tuple[int, Digest]:
    """Payload of REPORT: see ``encode_report``."""
    return _read_id(r), read_digest(r)


def encode_has(seqno: int) -> bytes:
    """| lz64 number up to which the asker's multicasts have been delivered |"""
    w = Writer()
    w.lz64(seqno)
    return w.done()


def read_has(r: Reader) -> int:
    """Payload of HAS: see ``encode_has``."""
    seqno = r.lz64()
    if seqno < 0:
        r.fail(f"seqno {seqno}")
    return seqno


def read_fetch(r: Reader) -> tuple[int, tuple[Address, ...], Goals]:
    """Payload of FETCH and DECIDED: see ``encode_goals``."""
    return _read_id(r), r.members(), read_goals(r)


def _read_id(r: Reader) -> int:
    number = r.lz64()
    if not 0 <= number <= MAX_VIEW_ID:
        r.fail(f"view id {number}")
    return number


def encode_goals(proposed: int, staying: tuple[Address, ...], goals: Goals) -> bytes:
    """| lz64 proposed view id | addrs of those that stay | goals |"""
    w = Writer()
    w.lz64(proposed)
    w.addrs(staying)
    write_goals(w, goals)
    return w.done()


def write_goals(w: Writer, goals: Goals) -> None:
    """| i16 count | per sender: addr sender, lz64 seqno, addr holder |"""
    w.i16(len(goals))
    for sender, (seqno, holder) in goals.items():
        w.addr(sender)
        w.lz64(seqno)
        w.addr(holder)


def read_goals(r: Reader) -> Goals:
    goals: Goals = {}
    for _ in range(r.count(r.i16(), 3, "goals")):
        sender = r.known_addr("a departed member")
        seqno = r.lz64()
        if seqno < 0:
            r.fail(f"seqno {seqno}")
        goals[sender] = (seqno, r.known_addr("a holder"))
    return goals
