"""The members that keep copies of this member's nodes, and the copies of each."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Final

from jgroups_py.buddy.values import Path
from jgroups_py.values.address import Address


class HolderState(Enum):
    FILLING = "filling"
    COMPLETE = "complete"
    DISMISSED = "dismissed"


FILLING: Final = HolderState.FILLING
COMPLETE: Final = HolderState.COMPLETE
DISMISSED: Final = HolderState.DISMISSED


class Holder:
    """A member that keeps a backup. ``turn``: the number of its assignment. ``todo``: the paths still to be pushed;
    None: ``Filled`` was sent. ``seen``: the view in which the holder reported that it has all entries."""

    __slots__ = ("acked", "seen", "state", "todo", "turn")

    def __init__(self, seq: int, todo: deque[Path], turn: int) -> None:
        self.state = FILLING
        self.acked = seq
        self.turn = turn
        self.seen = 0
        self.todo: deque[Path] | None = todo


class Holders(dict[Address, Holder]):
    """``Buddies`` assigns and dismisses. ``Log`` asks for the receivers of an entry and for the holders that have
    it."""

    def receivers(self) -> list[Address]:
        """Return the holders that get the next entry of the log."""
        return [m for m, h in self.items() if h.state is not DISMISSED]

    def acked_by_all(self, last: int) -> int:
        """Return the last entry, up to ``last``, that all holders have. A dismissed holder counts until it has answered,
        because other members may still regard it as a buddy."""
        for holder in self.values():
            if holder.acked < last:
                last = holder.acked
        return last
