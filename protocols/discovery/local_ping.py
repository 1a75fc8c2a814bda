"""LOCAL_PING: SHARED_LOOPBACK_PING under JGroups' newer name and with its protocol id."""

from __future__ import annotations

from jgroups_py.protocols.discovery.shared_loopback_ping import SHARED_LOOPBACK_PING
from jgroups_py.wire.headers import PROTOCOL_IDS


class LOCAL_PING(SHARED_LOOPBACK_PING):
    """See shared_loopback_ping.py."""

    protocol_id = PROTOCOL_IDS["LOCAL_PING"]
