"""Reliable group communication: channels over a layered stack of protocols.

``open_channel`` makes a member of a group. ``open_rpc`` calls methods of other members. The other names are values and errors.
For protocols of your own see jgroups_py.stack.protocol and jgroups_py.testing.

May import: channel, rpc and the rooms below.
Imported by: everything above them, and users.
"""

from __future__ import annotations

import typing

from jgroups_py.lazy import on_first_use as _on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.channel.channel import Channel
    from jgroups_py.channel.open import open_channel
    from jgroups_py.channel.values import ChannelLimits, ChannelStatistics, State
    from jgroups_py.driver.memory import MemoryNetwork
    from jgroups_py.errors import (
        CallError,
        ChannelClosed,
        ConfigError,
        Expelled,
        JGroupsError,
        JoinError,
        LocalProtocolError,
        NoAnswer,
        ProtocolFailed,
        Refused,
        RemoteError,
        ReplyLost,
        StateTransferError,
        Suspected,
        Unreachable,
        WaitTimeout,
    )
    from jgroups_py.rpc import Answer, Raised, Rpc, open_rpc
    from jgroups_py.values.address import UUID, Address, IpAddress, SiteMaster, SiteUUID
    from jgroups_py.values.batch import Batch
    from jgroups_py.values.lost import Excluded, Lost
    from jgroups_py.values.message import Flag, Message
    from jgroups_py.values.turned_away import TurnedAway
    from jgroups_py.values.view import Digest, MergeView, View, ViewId

__all__ = [
    "Address",
    "Answer",
    "Batch",
    "CallError",
    "Channel",
    "ChannelClosed",
    "ChannelLimits",
    "ChannelStatistics",
    "ConfigError",
    "Digest",
    "Excluded",
    "Expelled",
    "Flag",
    "IpAddress",
    "JGroupsError",
    "JoinError",
    "LocalProtocolError",
    "Lost",
    "MemoryNetwork",
    "MergeView",
    "Message",
    "NoAnswer",
    "ProtocolFailed",
    "Raised",
    "Refused",
    "RemoteError",
    "ReplyLost",
    "Rpc",
    "SiteMaster",
    "SiteUUID",
    "State",
    "StateTransferError",
    "Suspected",
    "TurnedAway",
    "UUID",
    "Unreachable",
    "View",
    "ViewId",
    "WaitTimeout",
    "open_channel",
    "open_rpc",
]

_PLACES = {
    "values.address": "UUID Address IpAddress SiteMaster SiteUUID",
    "values.batch": "Batch",
    "channel.channel": "Channel",
    "channel.open": "open_channel",
    "channel.values": "ChannelLimits ChannelStatistics State",
    "driver.memory": "MemoryNetwork",
    "errors": "CallError ChannelClosed ConfigError Expelled JGroupsError JoinError LocalProtocolError NoAnswer ProtocolFailed Refused RemoteError ReplyLost StateTransferError Suspected Unreachable WaitTimeout",
    "values.message": "Flag Message",
    "values.lost": "Excluded Lost",
    "values.turned_away": "TurnedAway",
    "rpc": "Answer Raised Rpc open_rpc",
    "values.view": "Digest MergeView View ViewId",
}
"""Names that are imported on first use, by module. An import of one part of the package, such as a client in a Spark
worker, then does not load the whole."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = _on_first_use(__name__, _PLACES)
