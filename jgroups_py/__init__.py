"""Reliable group communication: channels over a layered stack of protocols.

``open_channel`` makes a member of a group, ``open_rpc`` calls methods on it; the rest are the values it works with and the errors it
raises. For protocols of your own see jgroups_py.protocol and jgroups_py.testing.
"""

from __future__ import annotations

from jgroups_py.address import UUID, Address, IpAddress, SiteMaster, SiteUUID
from jgroups_py.batch import Batch
from jgroups_py.channel import Channel
from jgroups_py.channel_open import open_channel
from jgroups_py.channel_values import ChannelLimits, ChannelStatistics, State
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
    Refused,
    RemoteError,
    ReplyLost,
    StateTransferError,
    Suspected,
    Unreachable,
)
from jgroups_py.message import Flag, Message
from jgroups_py.rpc import Answer, Raised, Rpc, open_rpc
from jgroups_py.view import Digest, MergeView, View, ViewId

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
    "Expelled",
    "Flag",
    "IpAddress",
    "JGroupsError",
    "JoinError",
    "LocalProtocolError",
    "MemoryNetwork",
    "MergeView",
    "Message",
    "NoAnswer",
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
    "UUID",
    "Unreachable",
    "View",
    "ViewId",
    "open_channel",
    "open_rpc",
]
