"""``relay_when=stable``: up to where all members of this site have a home origin's messages."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from jgroups_py.protocols.relay.state import Numbers
from jgroups_py.values.address import Address
from jgroups_py.values.events import GetDigest

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY


class Stability:
    """STABLE speaks of NAKACK's numbers; a mark says which of ours was the newest at one of them."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.numbers: Numbers = {}
        """By origin: all have it up to here."""
        self.marks: dict[bytes, deque[tuple[int, int]]] = {}
        """By origin: what NAKACK had delivered of it when a number was delivered here."""

    def mark(self, member: Address, origin: bytes, number: int) -> None:
        """``number`` is stable when what NAKACK has delivered of that member by now is."""
        digest = self.relay.ask_down(GetDigest((member,)))
        if digest is not None:
            limit = self.relay.config.max_messages
            marks = self.marks.setdefault(origin, deque(maxlen=limit))
            marks.append((digest.delivered(member), number))

    def on_stable(self, origin: bytes, seqno: int) -> None:
        marks = self.marks.get(origin)
        moved = False
        while marks and marks[0][0] <= seqno:
            number = marks.popleft()[1]
            if number > self.numbers.get(origin, 0):
                self.numbers[origin] = number
                moved = True
        if moved and self.relay.is_relay:
            self.relay.bridge.pump_origin(origin)
