"""Messages as users see them, and the flags a message can carry.

Inside the stack the unit is the Batch (batch.py). A Message is made when an application asks for one.
Source: WIRE.md section 6; JGroups Message, Message.Flag, Message.TransientFlag.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

from jgroups_py.values.address import Address


class Flag(IntFlag):
    """Flags that are sent on the wire."""

    OOB = 1
    DONT_BUNDLE = 2
    NO_FC = 4
    NO_RELIABILITY = 16
    NO_TOTAL_ORDER = 32
    NO_RELAY = 64
    RSVP = 128
    RSVP_NB = 256
    SKIP_BARRIER = 1024
    SERIALIZED = 2048


class Transient(IntFlag):
    """Flags that stay with the sender."""

    DONT_LOOPBACK = 2
    DONT_BLOCK = 4


class MessageType:
    """Message types of the wire (i16 before each message)."""

    BYTES = 0
    NIO = 1
    EMPTY = 2
    OBJECT = 3
    LONG = 4
    COMPOSITE = 5
    FRAGMENT = 6
    BATCH = 7


@dataclass(frozen=True, slots=True)
class Message:
    """One message for the application. ``payload`` is always bytes."""

    sender: Address
    payload: bytes
    dest: Address | None = None
    flags: int = 0

    @property
    def multicast(self) -> bool:
        return self.dest is None
