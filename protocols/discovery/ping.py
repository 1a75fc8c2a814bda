"""PING: discovery by IP multicast over the transport.

Place: above UDP. Over a transport without multicast it reaches members of the view only; use
TCPPING or MPING there.

Source:  JGroups PING.java; WIRE.md section 9.1.
"""

from __future__ import annotations

from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import PROTOCOL_IDS


class PING(Discovery):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["PING"]

    def send_request(self, batch: Batch) -> None:
        self.pass_down(batch)
