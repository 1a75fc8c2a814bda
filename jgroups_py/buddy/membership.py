"""The view of a member: its members, the progress of its change, and the leavers.

``BuddyMachine`` changes it. The parts read it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.values import ViewKey, group_name
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView, View

NO_VIEW: Final = (-1, Address(b""))


class ViewNews(NamedTuple):
    """The changes that a new view brought."""

    before: tuple[Address, ...]
    """The members of the previous view."""
    strangers: list[Address]
    """Members that joined, or that come from the other side of a merge."""
    crashed: bool
    """Is a member gone that had not announced its leave?"""


class Membership:
    """``me``: this member. ``group``: the name of the group that it owns. ``now``: the time of the step that runs."""

    def __init__(self, me: Address, name: str, config: BuddyConfig) -> None:
        self.me = me
        self.group = group_name(name, me)
        self.num_buddies = config.num_buddies
        self.now = 0.0
        self.tag: ViewKey = NO_VIEW
        self.members: tuple[Address, ...] = ()
        self.settled = False
        """True when this member has acted on the ``Settle`` of its view."""
        self.frozen = False
        """True while a merge is undecided, and no node is written."""
        self.unmerged = False
        """True while a merge is not complete at all members."""
        self.minority = False
        """True with ``partition=majority`` while at most half of the last settled view is here."""
        self.leaving: dict[Address, bool] = {}
        """Members that are about to leave. True: that member can leave without loss."""
        self.sides: dict[Address, Address] = {}
        """After a merge, the creator of the view that each member comes from."""
        self._majority = config.partition == "majority"
        self._departed_max = config.departed_max
        self._last_settled: tuple[Address, ...] = ()
        self._since: dict[Address, ViewKey] = {}
        """By member, the view in which it came."""
        self._alive: dict[Address, int] = {}
        """By member, departed ones included: the number of its last view."""

    # --- questions of the parts

    @property
    def coordinator(self) -> Address:
        return self.members[0]

    @property
    def number(self) -> int:
        """The number of the view."""
        return self.tag[0]

    @property
    def leads(self) -> bool:
        """Is this member the coordinator of a settled view?"""
        return self.settled and self.me == self.members[0]

    @property
    def line(self) -> tuple[Address, ...]:
        """The members in their order, beginning with this member."""
        at = self.members.index(self.me)
        return self.members[at:] + self.members[:at]

    def is_dead_since(self, member: Address, view: int) -> bool:
        """Has ``member`` been gone since ``view`` or longer?"""
        return member not in self._since and view > self._alive.get(member, 0)

    def is_stranger(self, src: Address, tag: ViewKey) -> bool:
        """Return whether ``src``, with its view ``tag``, sent a message before it was with this member."""
        since = self._since.get(src)
        if since is None or tag[0] > since[0]:
            return since is None
        return tag[0] < since[0] or _other(tag, since)

    # --- changes by the machine

    def install(self, view: View) -> ViewNews:
        """Install the next view, and return its changes."""
        assert view.id > self.tag[0], f"view {view.id} after {self.tag[0]}"
        assert self.me in view.members, "a view without this member"
        before = self.members
        missed = bool(before) and view.id > self.tag[0] + 1
        self.tag = (view.id, view.view_id.creator)
        self.members = view.members
        self.settled = False
        strangers = self._remember(view, before)
        if self._majority:
            self._count_majority()
        crashed = any(
            not self.leaving.get(member, False) for member in before if member not in view.members
        )
        self.leaving = {x: ready for x, ready in self.leaving.items() if x in view.members}
        if isinstance(view, MergeView):
            self._merge(view)
        elif missed:
            self._may_have_missed_a_merge()
        return ViewNews(before, strangers, crashed)

    def freeze(self) -> None:
        """Stop writing until the next ``Settle``."""
        self.frozen = self.unmerged = True

    def settle(self) -> None:
        """Note that this member has acted on the ``Settle`` of its view."""
        self.settled = True
        self.frozen = False
        self._last_settled = self.members

    def merged(self) -> None:
        """Note that the merge is complete at all members."""
        self.unmerged = False

    def is_leaving(self, member: Address, ready: bool) -> bool:
        """Note that ``member`` leaves. True: this was not known yet."""
        known = member in self.leaving
        self.leaving[member] = ready
        return not known

    # --- inside

    def _merge(self, view: MergeView) -> None:
        self.freeze()
        self.sides = {
            member: sub.view_id.creator for sub in view.subgroups for member in sub.members
        }

    def _may_have_missed_a_merge(self) -> None:
        """Treat a missed view as a possible merge: others may know nodes that are also here. Two members that missed it
        may come from both sides."""
        self.freeze()
        self.sides = {}

    def _count_majority(self) -> None:
        """Count the members of the last settled view that are here. A member that left empty is not missed."""
        before = [member for member in self._last_settled if not self.leaving.get(member, False)]
        here = [member for member in before if member in self.members]
        self.minority = 2 * len(here) <= len(before) and bool(before)

    def _remember(self, view: View, before: tuple[Address, ...]) -> list[Address]:
        """Note for each member the time since which it is here. Return the strangers."""
        same: tuple[Address, ...] = before
        if isinstance(view, MergeView):
            same = next((sub.members for sub in view.subgroups if self.me in sub), ())
        strangers = [x for x in view.members if x not in before or x not in same]
        kept = {x: self._since[x] for x in view.members if x not in strangers and x in self._since}
        self._since = {x: kept.get(x, self.tag) for x in view.members}
        for member in view.members:
            self._alive.pop(member, None)
            self._alive[member] = view.id
        while len(self._alive) > self._departed_max + len(view.members):
            del self._alive[next(iter(self._alive))]
        return strangers


def _other(tag: ViewKey, since: ViewKey) -> bool:
    """Are these two views of one number, from two sides of a partition?"""
    return tag != since and since[1] != NO_VIEW[1]
