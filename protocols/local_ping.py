"""LOCAL_PING: SHARED_LOOPBACK_PING under JGroups' newer name and with its protocol id."""

from __future__ import annotations

from jgroups_py.headers import PROTOCOL_IDS
from jgroups_py.protocols.shared_loopback_ping import SHARED_LOOPBACK_PING


class LOCAL_PING(SHARED_LOOPBACK_PING):
    """See shared_loopback_ping.py."""

    protocol_id = PROTOCOL_IDS["LOCAL_PING"]
