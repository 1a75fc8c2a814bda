"""The expectations of every member about views.

view_order     numbers of views rise at each member
view_holder    every view contains its holder, nobody twice
view_identity  the same view id means the same members everywhere
"""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import Address
from jgroups_py.values.view import View, ViewId


class Views:
    """See the module's docstring."""

    def __init__(self, say: Callable[[str, Member, str], None]) -> None:
        self._say = say
        self._held: dict[Address, View] = {}
        self._known: dict[ViewId, tuple[Address, ...]] = {}

    def watch(self, member: Member) -> None:
        """Watch a member. Nothing is kept before its first view."""

    def on_view(self, member: Member, view: View) -> None:
        old = self._held.get(member.address)
        self._held[member.address] = view
        if member.address not in view.members:
            self._say("view_holder", member, f"is not in its own view {view.id}")
        if len(set(view.members)) != len(view.members):
            self._say("view_holder", member, f"view {view.id} has a member twice")
        if old is not None and view.id <= old.id:
            self._say("view_order", member, f"view {view.id} after view {old.id}")
        if self._known.setdefault(view.view_id, view.members) != view.members:
            self._say("view_identity", member, f"view {view.id} has other members elsewhere")
