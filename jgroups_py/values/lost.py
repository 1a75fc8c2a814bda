"""Excluded and Lost: tell the application which of its messages were lost, by numbers.

Numbers are 1, 2, ... for the group, and for each member that is sent to. They are counted in the order in which ``send``
accepts messages. They never leave this member. Numbers on the wire are others: those count fragments and the group's own
messages, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Exclude
from jgroups_py.values.view import View

Ranges = tuple[tuple[int, int], ...]
"""The first and last number of each range, both included, ascending."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Messages to ``to`` (None is the group) that were sent and are lost. ``ranges`` has their numbers (first, last). The first
    message that this channel sent to ``to`` is 1."""

    to: Address | None
    ranges: Ranges

    @property
    def count(self) -> int:
        """The number of messages."""
        return sum(last - first + 1 for first, last in self.ranges)


@dataclass(frozen=True, slots=True)
class Excluded:
    """An item of the stream: the group went on without this member, which was silent for too long or is not heard.

    The channel still works: a merge brings the member back, and a MergeView follows. Until then ``send`` waits
    (``send_nowait`` raises trio.WouldBlock). Messages that it accepts meanwhile go out afterwards.

    ``view`` is the view of the others, ``by`` the member that told of it. ``lost`` has the messages that were sent before and
    not delivered to all of them, by destination. They are not sent again. If ``certain`` is False, some members have
    not reported their numbers, so messages of ``lost`` may have been delivered. A second Excluded follows if unicasts
    are dropped, too."""

    view: View
    by: Address
    lost: tuple[Lost, ...]
    certain: bool

    @property
    def lost_count(self) -> int:
        """The number of messages that are lost (``certain``), or may be."""
        return sum(lost.count for lost in self.lost)

    @classmethod
    def of(cls, event: Exclude) -> Excluded:
        """Make the item for the application from the stack's event."""
        return cls(event.view, event.by, lost_of(event.lost), event.certain)


class Numbers:
    """Counts sent messages, for each destination."""

    def __init__(self) -> None:
        self._last: dict[Address | None, int] = {}

    def take(self, to: Address | None, count: int) -> int:
        """Return the number of the first of ``count`` messages that are sent now."""
        last = self._last.get(to, 0)
        self._last[to] = last + count
        return last + 1

    def view_changed(self, view: View) -> None:
        """Forget members that have gone. A member that comes back is counted from 1."""
        members = view.members
        self._last = {to: n for to, n in self._last.items() if to is None or to in members}


def lost_of(runs: Iterable[Batch]) -> tuple[Lost, ...]:
    """Return the application's messages among ``runs``, by destination, the group first."""
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
