"""What the application is told of what it sent and was lost, and the numbers that name it.

Numbers are 1, 2, ... for the group, and for each member that is written to.

They are counted in the order in which ``send`` accepts messages, and name what was lost (``Lost``). They
never leave this member. Numbers on the wire are others: those count fragments and the group's own
messages as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Exclude
from jgroups_py.values.view import View

Ranges = tuple[tuple[int, int], ...]
"""First and last number of each range, both included, ascending."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages to ``to`` (None: to the group) that were sent and are lost. ``ranges``: their numbers
    (first, last), where the first message that this channel sent to ``to`` is 1."""

    to: Address | None
    ranges: Ranges

    @property
    def count(self) -> int:
        """How many messages."""
        return sum(last - first + 1 for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class Excluded:
    """The group went on without this member, as an item of the stream: it was silent for too long, or
    is not heard. The channel lives: a merge brings it back, and a MergeView follows. Until then ``send``
    waits (``send_nowait`` raises trio.WouldBlock), and what it accepts meanwhile goes out afterwards.

    ``view`` is that of the others, ``by`` the member that told of it. ``lost``: what was sent before,
    and not delivered to all of them, by destination; it will not be sent again. Where ``certain`` is
    False, not all of them have said what they have: all of ``lost`` may have been delivered, or some.
    A second Excluded follows if unicasts are dropped as well."""

    view: View
    by: Address
    lost: tuple[Lost, ...]
    certain: bool

    @property
    def lost_count(self) -> int:
        """How many messages are lost (``certain``), or may be."""
        return sum(lost.count for lost in self.lost)

    @classmethod
    def of(cls, event: Exclude) -> Excluded:
        """What the stack says, for the application."""
        return cls(event.view, event.by, lost_of(event.lost), event.certain)


class Numbers:
    """Counts what is sent, for each destination."""

    def __init__(self) -> None:
        self._last: dict[Address | None, int] = {}

    def take(self, to: Address | None, count: int) -> int:
        """The number of the first of ``count`` messages that are sent now."""
        last = self._last.get(to, 0)
        self._last[to] = last + count
        return last + 1

    def view_changed(self, view: View) -> None:
        """Members that have gone are forgotten; one that comes back is counted from 1."""
        members = view.members
        self._last = {to: n for to, n in self._last.items() if to is None or to in members}


def lost_of(runs: Iterable[Batch]) -> tuple[Lost, ...]:
    """What of ``runs`` was the application's, by destination, the group first."""
    found: dict[Address | None, list[list[int]]] = {None: []}
    for run in runs:
        if not run.number:
            continue
        first, last = run.number, run.number + len(run.payloads) - 1
        ranges = found.setdefault(run.dest, [])
        if ranges and ranges[-1][0] <= first <= ranges[-1][1] + 1:
            ranges[-1][1] = max(ranges[-1][1], last)
        else:
            ranges.append([first, last])
    return tuple(
        Lost(to, tuple((first, last) for first, last in sorted(ranges)))
        for to, ranges in found.items()
        if ranges
    )
