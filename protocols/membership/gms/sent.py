"""GMS, the last view that this member sent: its form and its acknowledgements. A part that knows no GMS."""

from __future__ import annotations

from collections.abc import Iterable

from jgroups_py.stack.protocol import Timer
from jgroups_py.values.address import Address
from jgroups_py.values.view import DeltaView, MergeView, View, ViewId


class SentView:
    """``patience``: seconds for which acknowledgements are awaited. ``deltas``: send the changes of a view instead of
    all members."""

    def __init__(self, me: Address, timer: Timer, patience: float, deltas: bool) -> None:
        self._me = me
        self._timer = timer
        self._patience = patience
        self._deltas = deltas
        self._unacknowledged: dict[Address, None] = {}
        self._delta_base: ViewId | None = None
        """The id of our view, if we multicast that view. A delta view can refer to it."""

    @property
    def awaits_acks(self) -> bool:
        """Return whether some members have not acknowledged our last view."""
        return bool(self._unacknowledged)

    def next(self, view: View, old: View, expect: Iterable[Address]) -> View | DeltaView:
        """Note that ``view`` goes to the members of ``old``; those in ``expect`` will acknowledge it. Return the form
        to send."""
        content: View | DeltaView = view
        if self._deltas and not isinstance(view, MergeView) and self._delta_base == old.view_id:
            content = DeltaView(
                view.view_id, old.view_id, view.left_since(old), view.joined_since(old)
            )
        self._delta_base = view.view_id
        self._unacknowledged = {m: None for m in expect if m != self._me}
        if self._unacknowledged:
            self._timer.start(self._patience)
        else:
            self._timer.cancel()
        return content

    def acknowledged(self, src: Address) -> bool:
        """Note that ``src`` has the view. True: no acknowledgement is missing now."""
        if src not in self._unacknowledged:
            return False
        del self._unacknowledged[src]
        if self._unacknowledged:
            return False
        self._timer.cancel()
        return True

    def give_up(self) -> tuple[Address, ...]:
        """Stop waiting. Return the members that have not acknowledged."""
        missing = tuple(self._unacknowledged)
        self._unacknowledged.clear()
        return missing

    def view_installed(self, view: View) -> None:
        if self._delta_base != view.view_id:
            self._delta_base = None
        self._unacknowledged = {m: None for m in self._unacknowledged if m in view}
        if not self._unacknowledged:
            self._timer.cancel()

    def stop(self) -> None:
        self._unacknowledged.clear()
        self._timer.cancel()

    def check(self) -> None:
        assert self._timer.armed == bool(self._unacknowledged)
