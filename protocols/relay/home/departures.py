"""Departed members of this site, with the times of their departures.

Members that left or died need only be forgotten. Missing members may live beyond a partition: if they are at least as
many as the members here, their part may be the site.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.values.address import Address


class Departures:
    """``wait``: seconds after which a missing member counts as gone for good (``cut_off_wait``)."""

    def __init__(self, out: RelayOut, roles: Roles, wait: float) -> None:
        self.gone_at: dict[bytes, float] = {}
        """The time of each origin's departure, until it is forgotten."""
        self.shrunk_at = -1e9
        """The time when a view last lacked a member."""
        self.lost_at: dict[Address, float] = {}
        """Members that vanished from the view without a known reason, kept for ``wait``."""
        self.lost_timer = out.timer(self.forget_lost, "_on_lost_long_ago")
        self._out = out
        self._roles = roles
        self._wait = wait

    def note_lost(self, old_line: Sequence[Address], ended: Sequence[Address]) -> None:
        """Note the members lost by a new view. ``old_line``: the line of the previous view. ``ended``: members that
        certainly died or left."""
        out, view = self._out, self._roles.view
        assert view is not None
        present = view.members
        for member in old_line:
            if member not in present:
                self.shrunk_at = self.lost_at[member] = out.now
                self.gone_at.setdefault(bytes(member), out.now)
        for member in [m for m in self.lost_at if m in present or m in ended]:
            del self.lost_at[member]
        self.forget_lost()
        if self._roles.is_relay and self.may_be_cut_off:
            out.counters.cut_off += 1
            out.trace("cut_off", missing=[out.name_of(m) for m in self.lost_at])

    def forget_lost(self) -> None:
        """Forget members that have been missing for ``wait``, because they will not come back."""
        out = self._out
        cut_off, missing = self.may_be_cut_off, len(self.lost_at)
        self.lost_at = {m: at for m, at in self.lost_at.items() if at + self._wait > out.now}
        if self.lost_at:
            self.lost_timer.start_at(min(self.lost_at.values()) + self._wait)
        else:
            self.lost_timer.cancel()
        fewer = missing > len(self.lost_at)
        if self._roles.is_relay and cut_off and not self.may_be_cut_off and fewer:
            out.log.warning("acknowledging again what %d missing members may lack", missing)
        out.wake()

    @property
    def may_be_cut_off(self) -> bool:
        """Are at least as many members missing as are here? If they live, their part is the site: messages that they
        lack must stay at their home site until they are back."""
        return len(self.lost_at) >= len(self._roles.line)

    def note_departed(self, origins: Iterable[bytes]) -> None:
        """Note the known ``origins`` that are no members as departed."""
        view = self._roles.view
        assert view is not None
        present = view.members
        for origin in origins:
            if origin not in present:
                self.gone_at.setdefault(origin, self._out.now)
        for origin in [o for o in self.gone_at if o in present]:
            del self.gone_at[origin]

    def gone_for(self, origin: bytes, wait: float) -> bool:
        """Has ``origin`` been gone for ``wait`` seconds?"""
        return self._out.now >= self.gone_at[origin] + wait

    def forget(self, origin: bytes) -> None:
        self.gone_at.pop(origin, None)
