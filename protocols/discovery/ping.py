"""PING: discovery by IP multicast over the transport.

    FindMembers from above    ask, and LookAround
    NobodyListens from below  no member can answer: the search ends, and we are certainly alone

Place: above UDP. Over a transport without multicast it reaches members of the view only; use
TCPPING or MPING there.

Source:  JGroups PING.java; WIRE.md section 9.1.
Differs: on the loopback interface a member that is alone does not wait for answers (driver/listeners.py).
"""

from __future__ import annotations

from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, FindMembers, LookAround, NobodyListens
from jgroups_py.wire.headers import PROTOCOL_IDS


class PING(Discovery):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["PING"]

    def send_request(self, batch: Batch) -> None:
        self.pass_down(batch)

    def searching(self, request: FindMembers) -> None:
        if request.initial:
            self.pass_event_down(LookAround())

    def event_up(self, event: Event) -> None:
        if type(event) is NobodyListens:
            self.complete()
        else:
            super().event_up(event)
