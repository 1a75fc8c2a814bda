"""Roles: all members elect the same live node from the reports of a view. Without I/O.

A live node that is in the view stays live. A member that knows no live node reports its standing. When all members of the
view
have done so, all have the same reports, and one of them begins a new term:

    among members that have all operations sent to them: the newest term, then a node that was live, then the one that
    has confirmed most, then the first in the view
    if no member has them: the first in the view, without objects

A new member knows no live node and reports, too. The live node's own message answers it first, since a live node sends
no report.

Backups of one term have received the same operations, but one of them may hang at an operation and reverse it. If not
all backups are needed to answer a client, the one that confirmed most must go on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Stand:
    """A member's report. ``term``: the newest one that it took part in. ``complete``: it has all operations sent to it
    in that term, except reversed ones. ``confirmed``: operations of the term that it has done."""

    term: int
    complete: bool
    was_live: bool
    confirmed: int = 0


@dataclass(frozen=True, slots=True)
class Decision(Generic[M]):
    live: M
    term: int
    lost: bool
    """There was an earlier term, and no member has all its confirmed operations."""
    backups: tuple[M, ...] = ()
    """The others that have the live node's state, as far as they know."""


class Election(Generic[M]):
    """The election of one view."""

    def __init__(self, members: Sequence[M], quorum: int) -> None:
        self._members = tuple(members)
        self._quorum = quorum
        self._stands: dict[M, Stand] = {}

    @property
    def possible(self) -> bool:
        return len(self._members) >= self._quorum

    def stands(self, member: M, stand: Stand) -> Decision[M] | None:
        """Take a member's report. Return the decision after the last report, if this view may have a live node."""
        if member not in self._members:
            return None
        self._stands[member] = stand
        if len(self._stands) < len(self._members) or not self.possible:
            return None
        newest = max(stand.term for stand in self._stands.values())
        complete = [member for member in self._members if self._stands[member].complete]
        if not complete:
            return Decision(self._members[0], newest + 1, newest > 0)

        def merit(member: M) -> tuple[int, bool, int]:
            stand = self._stands[member]
            return stand.term, stand.was_live, stand.confirmed

        best = max(complete, key=merit)  # the first of equal ones
        backups = tuple(
            member
            for member in complete
            if member != best and self._stands[member].term == self._stands[best].term
        )
        return Decision(best, newest + 1, False, backups)


def prevails(members: Sequence[M], one: M, its_term: int, other: M, other_term: int) -> bool:
    """Does ``one`` of two live nodes stay? The newer term wins, then the earlier place in the view."""
    if its_term != other_term or one not in members or other not in members:
        return its_term > other_term
    return members.index(one) < members.index(other)
