"""UFC: flow control of unicasts, for each destination.

A sender has ``max_credits`` bytes for each destination. Unicasts that do not fit wait in order, and the channel's senders
to that destination wait. The destination gives credits back when its application has taken messages. credits.py has the
rules, which are those of MFC, too.

Place: above MFC, below FRAG2. Unicasts to a member outside the view are not controlled.
"""

from __future__ import annotations

from typing import ClassVar, Final

from jgroups_py.protocols.flow.credits import NO_FC, FlowControl, Lane
from jgroups_py.stack.services import UNICAST, VIEWS
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowOpened
from jgroups_py.values.native import mypyc_attr
from jgroups_py.values.view import View
from jgroups_py.wire.headers import PROTOCOL_IDS

_ID: Final = PROTOCOL_IDS["UFC"]


@mypyc_attr(allow_interpreted_subclasses=True)
class UFC(FlowControl):
    """Flow control of unicasts: credits for each destination."""

    protocol_id: ClassVar[int] = _ID
    multicast: ClassVar[bool] = False
    needs_below = (UNICAST, VIEWS)

    def down(self, batch: Batch) -> None:
        lane = None
        if batch.dest is not None and not batch.flags & NO_FC:
            lane = self._lanes.get(batch.dest)
        if lane is None:
            self.pass_down(batch)
            return
        length = batch._length
        if length < 0:
            length = batch.length
        if lane.queue or length > lane.room:
            self.send(lane, batch)
            return
        lane.sent += length
        lane.room -= length
        self.bytes_sent += length
        self.pass_down(batch)

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_ID)
        if header is not None:
            self.on_control(batch, header)
            return
        if batch.dest is not None and not batch.flags & NO_FC:
            length = batch._length
            if length < 0:
                length = batch.length
            if length:
                batch = self.received(batch, length)
        self.pass_up(batch)

    def lane_of(self, member: Address) -> Lane | None:
        return self._lanes.get(member)

    def on_view(self, view: View) -> None:
        old, self._lanes = self._lanes, {}
        for member in view.members:
            lane = old.pop(member, None)
            if lane is None:
                lane = Lane(member)
                lane.granted[member] = 0
                lane.measure(self._max)
            self._lanes[member] = lane
        for dest, lane in old.items():
            self.queue_dropped += sum(len(batch.payloads) for batch in lane.queue)
            lane.queue.clear()
            if lane.blocked:
                lane.blocked = False
                self.pass_event_up(FlowOpened(self.name, dest))

    def check(self) -> None:
        super().check()
        members = () if self._view is None else self._view.members
        assert tuple(self._lanes) == members
