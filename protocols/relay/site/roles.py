"""A view of the site, and the roles in it: relay, holder, member."""

from __future__ import annotations

from jgroups_py.protocols.relay.wire import ViewKey, key_of
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.view import View


class Roles:
    """``line``: members of ours, oldest first. The first is relay, the first ``holders`` of them hold copies."""

    def __init__(self, me: UUID, holders: int) -> None:
        self.me = me
        self.view: View | None = None
        self.key: ViewKey = (b"", 0)
        self.line: tuple[Address, ...] = ()
        self.holders: tuple[Address, ...] = ()
        self.is_relay = False
        self.is_holder = False
        self.left = False
        """This member has left the bridge and is no longer relay."""
        self._holders = holders

    def install(self, view: View) -> None:
        self.view = view
        me = self.me
        self.line = tuple(m for m in view.members if m == me or (isinstance(m, UUID) and m.is_ours))
        self.key = key_of(view)
        self.holders = self.line[: self._holders]
        self.is_holder = me in self.holders
        self.is_relay = self.line[0] == me and not self.left

    def leave(self) -> None:
        self.left = True
        self.is_relay = False

    def is_member(self, origin: bytes) -> bool:
        return self.view is not None and origin in self.view.members

    @property
    def others(self) -> list[Address]:
        return [m for m in self.line if m != self.me]

    @property
    def other_holders(self) -> list[Address]:
        return [m for m in self.holders if m != self.me]
