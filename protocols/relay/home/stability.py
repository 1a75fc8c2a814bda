"""``relay_when=stable``: the number up to which all members of this site have a home origin's messages."""

from __future__ import annotations

from collections import deque

from jgroups_py.protocols.relay.state import Numbers


class Stability:
    """STABLE counts with the numbers of NAKACK2. A mark says which number of RELAY was the newest at one of these.
    ``limit``: marks kept for an origin; the oldest go first."""

    def __init__(self, limit: int) -> None:
        self.numbers: Numbers = {}
        """By origin: all have it up to here."""
        self.marks: dict[bytes, deque[tuple[int, int]]] = {}
        """By origin: what NAKACK2 had delivered of it when a number was delivered here."""
        self._limit = limit

    def mark(self, origin: bytes, seqno: int, number: int) -> None:
        """``number`` is stable when NAKACK2's ``seqno`` is."""
        marks = self.marks.setdefault(origin, deque(maxlen=self._limit))
        marks.append((seqno, number))

    def on_stable(self, origin: bytes, seqno: int) -> bool:
        """All members have NAKACK2's ``seqno`` of ``origin``. True: more of RELAY's numbers are stable."""
        marks = self.marks.get(origin)
        moved = False
        while marks and marks[0][0] <= seqno:
            number = marks.popleft()[1]
            if number > self.numbers.get(origin, 0):
                self.numbers[origin] = number
                moved = True
        return moved

    def forget(self, origin: bytes) -> None:
        self.numbers.pop(origin, None)
        self.marks.pop(origin, None)
