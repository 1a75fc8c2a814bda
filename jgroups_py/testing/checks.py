"""The named checks: the properties that a cluster must have.

The named checks judge the messages and views of applications. To identify messages, each one begins with a tag (sender,
kind, number: ``TAG_BYTES``), which is removed before the application gets it. Protocols in between see the tag as
payload.
"""

from __future__ import annotations

import traceback
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from jgroups_py.errors import ConfigError
from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.check.messages import MULTICAST, UNICAST
from jgroups_py.testing.sim import Member
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

CHECKS: Final[dict[str, str]] = {
    "fifo": "messages of one sender arrive in the order in which they were sent",
    "duplicate": "no message arrives twice",
    "gap": "none is left out, unless sender and receiver were apart meanwhile",
    "named": "if members lack messages of a sender, the sender learned of the loss: by a view without them, or by Excluded",
    "agreement": "members that share the view before and after a departure were delivered the "
    "same messages of departed members",
    "unicast": "the first three, for messages to one member",
    "content": "a message arrives as it was sent",
    "state": "a state has all own messages that were delivered to its receiver, and later messages "
    "continue it",
    "stream": "a view comes first; a message stands in a view with its sender, names its sender, "
    "and reaches only its receivers",
    "view_order": "numbers of views rise at each member",
    "view_holder": "every view contains its holder, and nobody twice",
    "view_identity": "the same view id means the same members everywhere",
    "bounds": "all tables and buffers stay within the limits of the stack's settings",
    "death": "nobody alive is taken for proved dead, however it is paused or cut off",
    "healing": "when faults end there is one view, everybody has every message, nothing waits "
    "in a buffer",
    "credits": "after all that, twice the credits of flow control can be sent",
    "leftovers": "no table of any protocol names a member that has gone",
}
"""The named checks and their promises. All are judged by default."""

TAG_BYTES: Final = 25
"""The prefix that the cluster puts in front of each payload."""


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """Return ``names``, each of which must be in CHECKS. Raises ``ConfigError``."""
    found = tuple(names)
    for name in found:
        if name not in CHECKS:
            raise ConfigError(f"no check is called {name!r} (there are {', '.join(CHECKS)})")
    return found


def what_failed(error: AssertionError) -> str:
    """Return the first line of an assertion's message; without a message, its source line."""
    said = str(error).strip().partition("\n")[0]
    place = traceback.extract_tb(error.__traceback__)[-1]
    return said or f"{place.name}: {place.line}"


class KitChecker(Checker):
    """The wanted checks on tagged messages.

    ``tagged`` off: payloads stay unchanged, and messages are not judged.
    """

    def __init__(self, wanted: tuple[str, ...], tagged: bool) -> None:
        super().__init__()
        self.wanted = wanted
        self.tagged = tagged
        self.on_send: Callable[[Member, bytes, Member | None], None] | None = None
        self._made: dict[Member, int] = {}
        self._sums: dict[tuple[Address, int, int, Address | None], int] = {}

    def say(self, check: str, member: Member, problem: str) -> None:
        if check in self.wanted:
            super().say(check, member, problem)

    def payload(
        self, member: Member, size: int = 0, *, to: Member | None = None, oob: bool = False
    ) -> bytes:
        """Return the next generated message: a text with sender and number, of at least ``size`` bytes."""
        self._made[member] = number = self._made.get(member, 0) + 1
        text = f"{number} of {member.name}#{member.incarnation}".encode()
        return self.tagged_payload(member, text.ljust(size, b"."), to, oob)

    def tagged_payload(
        self, member: Member, payload: bytes, to: Member | None, oob: bool = False
    ) -> bytes:
        """Return ``payload`` with its tag. Everything that is sent passes here."""
        if self.on_send is not None:
            self.on_send(member, payload, to)
        if not self.tagged:
            return payload
        # Out-of-band messages share one numbering for all destinations.
        tag = super().payload(member, to=None if oob else to, oob=oob)
        kind, number = tag[16], int.from_bytes(tag[17:], "big")
        dest = to.address if kind == UNICAST and to is not None else None
        self._sums[member.address, kind, number, dest] = zlib.crc32(payload)
        return tag + payload

    def bare(self, payload: bytes | memoryview | None) -> bytes:
        """Return the part of a payload for the application."""
        data = bytes(payload or b"")
        return data[TAG_BYTES:] if self.tagged else data

    def take_view(self, member: Member, view: View) -> None:
        """Note that the application of ``member`` takes a view."""
        self._on_view(member, view)

    def take_batch(self, member: Member, batch: Batch) -> None:
        """Note that the application of ``member`` takes messages."""
        if not self.tagged:
            return
        tags = [bytes(p or b"")[:TAG_BYTES] for p in batch.payloads]
        self._on_batch(member, replace(batch, payloads=tags))
        for tag, payload in zip(tags, batch.payloads, strict=True):
            if len(tag) == TAG_BYTES:
                self._compare(member, tag, self.bare(payload))

    def _compare(self, member: Member, tag: bytes, payload: bytes) -> None:
        origin, kind, number = UUID(tag[:16]), tag[16], int.from_bytes(tag[17:], "big")
        dest = member.address if kind == UNICAST else None
        sent = self._sums.get((origin, kind, number, dest))
        if sent is None:
            what = "a multicast" if kind == MULTICAST else "a message"
            self.say("content", member, f"{what} {number} that {self.name(origin)} never sent it")
        elif sent != zlib.crc32(payload):
            self.say("content", member, f"{number} of {self.name(origin)} is damaged")
