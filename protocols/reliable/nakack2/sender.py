"""NAKACK2, what is known of one sender."""

from __future__ import annotations

from typing import NamedTuple

from jgroups_py.stack.windows import GapClock, ReceiveWindow, RunStore
from jgroups_py.values.address import Address


class Sender:
    """What is known of one sender. ``kept``: its messages that are not stable, delivered or not."""

    __slots__ = ("checked", "gaps", "goal", "holder", "kept", "purged", "window")

    def __init__(self, delivered: int, interval: float) -> None:
        self.checked: tuple[object, ...] = ()
        """What ``check`` has looked at."""
        self.window = ReceiveWindow(delivered)
        self.kept = RunStore()
        self.purged = delivered
        self.gaps = GapClock(interval)
        self.goal = 0
        """Frozen or held: deliver up to here."""
        self.holder: Address | None = None
        """Frozen or held: who has what is missing up to the goal."""

    @property
    def forgotten(self) -> int:
        """Up to here nothing is kept. A run that is stable in part is kept as a whole."""
        return self.kept.first - 1 if self.kept else self.purged


class Left(NamedTuple):
    """What is remembered of a sender that has departed."""

    delivered: int
    passed: frozenset[int]
    """Numbers beyond, handed out all the same: out-of-band messages."""
    at: float
    """When the rest was forgotten."""


def cut(store: RunStore, last: int) -> RunStore:
    """The part of a store that is not above ``last``."""
    if store.last <= last:
        return store
    cut = RunStore()
    for first, run in store.between(1, last):
        cut.append(first, run)
    return cut
