"""The bucket store keeps application objects in memory, each with a live copy on another machine. Requests run at the node that
has their object (seed 003, the Amadeus Cache Server).

May import: channel and the rooms below. The machine (bucket, manager, index, router) is without I/O. See design/buckets.md.
"""

from __future__ import annotations

from jgroups_py.buckets.digest import bucket_of, digest_of
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.errors import (
    BadKey,
    BadPlugin,
    BucketError,
    BucketsClosed,
    Busy,
    EntryFailed,
    NotSensible,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.opening import FAST_DETECTION, open_buckets
from jgroups_py.buckets.parts import NodeParts, Placement
from jgroups_py.buckets.plugin import (
    Classification,
    Entry,
    EntryBehaviourProvider,
    EntryBucket,
    Plugin,
    Reply,
    Request,
    RequestClassifier,
)
from jgroups_py.buckets.proxies import ProxyManager
from jgroups_py.buckets.settings import InstanceSettings

__all__ = [
    "FAST_DETECTION",
    "BadKey",
    "BadPlugin",
    "BucketError",
    "BucketNode",
    "BucketsClosed",
    "Busy",
    "Cep",
    "Classification",
    "Entry",
    "EntryBehaviourProvider",
    "EntryBucket",
    "EntryFailed",
    "InstanceSettings",
    "NodeParts",
    "NotSensible",
    "OutcomeUnknown",
    "Placement",
    "Plugin",
    "ProxyId",
    "ProxyManager",
    "Refused",
    "Reply",
    "Request",
    "RequestClassifier",
    "Unavailable",
    "bucket_of",
    "digest_of",
    "open_buckets",
]
