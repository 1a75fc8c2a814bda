"""``relay_when=stable``: the number up to which all members of this site have a home origin's messages."""

from __future__ import annotations

from collections import deque

from jgroups_py.protocols.relay.state import Numbers


class Stability:
    """STABLE uses NAKACK2's numbers. A mark ties one of them to RELAY's newest number at that moment. ``limit``: the
    most marks of an origin; the oldest are dropped first."""

    def __init__(self, limit: int) -> None:
        self.numbers: Numbers = {}
        """By origin, the number up to which all members have it."""
        self.marks: dict[bytes, deque[tuple[int, int]]] = {}
        """By origin, pairs of NAKACK2's delivered number and RELAY's number."""
        self._limit = limit

    def mark(self, origin: bytes, seqno: int, number: int) -> None:
        """Note that ``number`` is stable when NAKACK2's ``seqno`` is."""
        marks = self.marks.setdefault(origin, deque(maxlen=self._limit))
        marks.append((seqno, number))

    def on_stable(self, origin: bytes, seqno: int) -> bool:
        """Note that all members have NAKACK2's ``seqno`` of ``origin``. True: more of RELAY's numbers are stable."""
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
