"""GMS, this member's knowledge of the group: its installed view, and other views.

This part knows no protocol. The other parts read it. Only the protocol changes it, by its methods.
"""

from __future__ import annotations

from typing import Final

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.wire import MAX_VIEW_ID
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView, View

VIEW_REACH: Final = 2**24
"""The most by which a new view's number may exceed the highest number that a member knows: one view a second for half a
year."""
FIRST_REACH: Final = 2**40
"""The same for a joiner, which knows no number."""
MERGE_REACH: Final = 2**44
"""The same for a merge. A forger that has driven one member's numbers far ahead must not keep it from merging with
the others: that takes 2**20 forged views, and 2**18 forged merges use up all numbers (MAX_VIEW_ID)."""


class Group:
    """This member's view and other views. ``me``: this member."""

    def __init__(self, me: Address) -> None:
        self.me = me
        self.view: View | None = None
        self.leaving = False
        """This member wants to leave and waits until the others know."""
        self.left = False
        """This member has left."""
        self.excluding: View | None = None
        """The newest view without this member, made by members of its view."""
        self.highest_id = -1
        """Highest view id seen anywhere: a new view gets a higher one."""

    @property
    def is_working(self) -> bool:
        """Return whether there is a view and this member has not left."""
        return self.view is not None and not self.left

    @property
    def is_coordinator(self) -> bool:
        """Return whether this member is the first of its view and no other member went on without it."""
        view = self.view
        return (
            view is not None
            and not self.left
            and self.excluding is None
            and view.coordinator == self.me
        )

    @property
    def next_id(self) -> int:
        """Return the number of a new view."""
        assert self.view is not None
        return max(self.view.id, self.highest_id) + 1

    def believe(self, number: int, *, merging: bool = False) -> None:
        """Raise RemoteProtocolError for a view number that no group can have reached. Without this check a single
        forged view would use up all numbers, and no member could make or merge a view again."""
        known, reach = 0, FIRST_REACH
        if self.view is not None:
            known = max(self.view.id, self.highest_id)
            reach = MERGE_REACH if merging else VIEW_REACH
        if not 0 <= number <= min(known + reach, MAX_VIEW_ID):
            raise RemoteProtocolError(f"view id {number} after {known}")

    def is_merged_by(self, view: MergeView) -> bool:
        """Return whether ``view`` continues the view installed here. A coordinator whose view we left behind may count
        us among its members, and reports our old numbers. Java lists such a view beside ours."""
        return self.view is not None and any(
            s.view_id == self.view.view_id and self.me in s for s in view.subgroups
        )

    def saw(self, number: int) -> None:
        """Note the number of a view."""
        self.highest_id = max(self.highest_id, number)

    def install(self, view: View) -> None:
        """Install ``view``: it is the group from now on."""
        assert self.view is None or view.id > self.view.id, "view ids must grow"
        assert self.me in view
        self.view = view
        self.excluding = None
        self.saw(view.id)

    def went_on(self, view: View) -> None:
        """Note that members of our view have ``view``, without this member."""
        self.excluding = view

    def leave(self, leaving: bool) -> None:
        """Begin or give up leaving."""
        self.leaving = leaving

    def end(self) -> None:
        """Note that this member has left."""
        self.left = True

    def check(self) -> None:
        view = self.view
        if view is not None:
            assert self.me in view
            assert len(set(view.members)) == len(view.members)
