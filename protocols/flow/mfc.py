"""MFC: flow control of multicasts. The slowest member sets the pace.

A sender has ``max_credits`` bytes for each member. A multicast uses credits of all members, and the lowest count decides.
Multicasts that do not fit wait in order, and the channel's senders wait. A member gives credits back when its application
has taken messages. credits.py has the rules, which are those of UFC, too.

Place: above GMS, below FRAG2.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from jgroups_py.protocols.flow.credits import NO_FC, FlowControl, Lane
from jgroups_py.stack.services import MULTICAST, VIEWS
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Exclude
from jgroups_py.values.native import mypyc_attr
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PROTOCOL_IDS, FragHeader

_ID: Final = PROTOCOL_IDS["MFC"]
_FRAG: Final = PROTOCOL_IDS["FRAG2"]


@mypyc_attr(allow_interpreted_subclasses=True)
class MFC(FlowControl):
    """Flow control of multicasts: credits for each member. A multicast uses credits of all, and the lowest count decides."""

    protocol_id: ClassVar[int] = _ID
    multicast: ClassVar[bool] = True
    needs_below = (MULTICAST, VIEWS)

    def start(self) -> None:
        super().start()
        self._lane = self._lanes[None] = Lane(None)

    def down(self, batch: Batch) -> None:
        if batch.dest is not None or batch.flags & NO_FC:
            self.pass_down(batch)
        else:
            self.send(self._lane, batch)

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_ID)
        if header is not None:
            self.on_control(batch, header)
            return
        if batch.dest is None and not batch.flags & NO_FC:
            length = batch.length
            if length:
                batch = self.received(batch, length)
        self.pass_up(batch)

    def event_up(self, event: Event) -> None:
        if isinstance(event, Exclude):
            event = replace(event, lost=(*event.lost, *self._torn()))
        super().event_up(event)

    def _torn(self) -> tuple[Batch, ...]:
        """Return the message whose first fragments have gone out. The others drop those fragments, and the ones that
        wait here for credits come after the merge."""
        queue = self._lane.queue
        header = queue[0].headers.get(_FRAG) if queue else None
        if type(header) is FragHeader and header.index:
            return (queue[0].slice(0, 1),)
        return ()

    def lane_of(self, member: Address) -> Lane | None:
        return self._lane

    def on_view(self, view: View) -> None:
        lane = self._lane
        lane.granted = {member: lane.granted.get(member, lane.sent) for member in view.members}
        lane.measure(self._max)

    def check(self) -> None:
        super().check()
        members = () if self._view is None else self._view.members
        assert tuple(self._lane.granted) == members
