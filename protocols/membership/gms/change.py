"""GMS, the causes of another view: joins, leaves and suspicions. A table that knows no GMS.

All members remember which are suspected and which want to leave; the first member of the view that is neither *acts*.
All known requests make one new view: without departed members, and with joiners at the end. protocol.py says when that
view is made.

Source: WIRE.md 11.1, 11.2; JGroups ViewHandler, CoordGmsImpl.
"""

from __future__ import annotations

from jgroups_py.protocols.membership.gms.group import Group
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.view import View


class PendingChanges:
    """See the module's docstring. ``max_joiners``: the most that are remembered."""

    def __init__(self, group: Group, max_joiners: int) -> None:
        self._group = group
        self._max_joiners = max_joiners
        self._joiners: dict[Address, None] = {}
        self._leavers: dict[Address, None] = {}
        self._suspects: dict[Address, bool] = {}
        """True: the member's death is proved."""

    # --- the acting member

    def departs(self, member: Address) -> bool:
        """Return whether ``member`` is suspected, or wants to leave."""
        return member in self._suspects or member in self._leavers

    @property
    def acting(self) -> bool:
        """Does this member make the next view?"""
        group = self._group
        if group.view is None or group.left or group.leaving:
            return False
        if group.excluding is not None and not self._is_over(group.excluding):
            return False
        return self.first_that_stays == group.me

    @property
    def first_that_stays(self) -> Address | None:
        """Return the member that makes the next view, as far as we know."""
        view = self._group.view
        return None if view is None else next((m for m in view if not self.departs(m)), None)

    def _is_over(self, view: View) -> bool:
        """Return whether the leader of ``view`` is suspected. Members of ours say in a round whether they have that
        view. Members that we do not know will never be suspected here."""
        known = () if self._group.view is None else self._group.view.members
        leads = view.coordinator in known
        return all(
            m in self._suspects
            for m in view
            if m in known
            and not (leads and m != view.coordinator and isinstance(m, UUID) and m.is_ours)
        )

    def acting_without_us(self) -> Address | None:
        """Return the member that makes the next view if we leave. None: no member is left."""
        view, me = self._group.view, self._group.me
        if view is None:
            return None
        return next((m for m in view if m != me and not self.departs(m)), None)

    @property
    def departing(self) -> tuple[Address, ...]:
        """Return the members that will not be in the next view."""
        view = self._group.view
        return () if view is None else tuple(m for m in view if self.departs(m))

    def is_suspected(self, member: Address) -> bool:
        return member in self._suspects

    def is_leaving(self, member: Address) -> bool:
        """Return whether the member wants to leave and is alive, as far as we know."""
        return member in self._leavers and member not in self._suspects

    @property
    def joiners(self) -> tuple[Address, ...]:
        """Return the waiting joiners."""
        return tuple(self._joiners)

    def ended(self, view: View) -> tuple[Address, ...]:
        """Return the members missing in ``view`` that certainly left or died."""
        proved = [m for m, gone in self._suspects.items() if gone and m not in self._leavers]
        return tuple(m for m in (*self._leavers, *proved) if m not in view)

    # --- changing

    def add_joiner(self, member: Address) -> bool | None:
        """Add a joiner. Return whether it is new. None: too many wait."""
        known = member in self._joiners
        if not known and len(self._joiners) >= self._max_joiners:
            return None
        self._joiners[member] = None
        return not known

    def drop_joiner(self, member: Address) -> None:
        self._joiners.pop(member, None)

    def clear_joiners(self) -> None:
        """Clear the joiners: the new view has them."""
        self._joiners.clear()

    def add_leaver(self, member: Address) -> bool:
        """Add a leaver. Return whether it is new."""
        known = member in self._leavers
        self._leavers[member] = None
        return not known

    def suspect(self, members: tuple[Address, ...], gone: bool) -> None:
        """Note suspicions. ``gone``: the members' death is proved."""
        for member in members:
            self._suspects[member] = gone or self._suspects.get(member, False)

    def unsuspect(self, members: tuple[Address, ...]) -> bool:
        """Unsuspect members. Return whether one of them was suspected."""
        known = [m for m in members if m in self._suspects]
        for member in known:
            del self._suspects[member]
        return bool(known)

    def view_installed(self, view: View) -> None:
        self._joiners = {m: None for m in self._joiners if m not in view}
        self._leavers = {m: None for m in self._leavers if m in view}
        self._suspects = {m: gone for m, gone in self._suspects.items() if m in view}
        if not self.acting:
            self._joiners.clear()  # joiners ask again, and then ask the right member

    def check(self) -> None:
        view = self._group.view
        if view is None:
            assert not self._joiners and not self._leavers and not self._suspects
            return
        assert all(m not in view for m in self._joiners)
        assert all(m in view for m in self._suspects)
        assert self._group.me not in self._suspects
