"""Remote calls on a channel: ``open_rpc`` and its values.

May import: channel and the rooms below.
Imported by: ``jgroups_py``, blocking, aio.
"""

from __future__ import annotations

from jgroups_py.rpc.java import Arg, JavaObject
from jgroups_py.rpc.limits import RpcCounters, RpcLimits, RpcStatistics
from jgroups_py.rpc.methods import Methods, with_caller
from jgroups_py.rpc.open import open_rpc
from jgroups_py.rpc.ours import Codec, Msgpack
from jgroups_py.rpc.replies import Answer, Raised, Reply
from jgroups_py.rpc.rpc import Replies, Rpc

__all__ = [
    "Answer",
    "Arg",
    "Codec",
    "JavaObject",
    "Methods",
    "Msgpack",
    "Raised",
    "Replies",
    "Reply",
    "Rpc",
    "RpcCounters",
    "RpcLimits",
    "RpcStatistics",
    "open_rpc",
    "with_caller",
]
