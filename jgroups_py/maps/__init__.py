"""Multi-master maps: dictionaries in a file. Every process of every host may write at any time, and all hosts are equal
a moment later (seed 004).

    from jgroups_py.maps import open_map

    async with open_map("sessions", key=str, value="json") as sessions:
        sessions["alice"] = {"visits": 1}

``jgroups_py.blocking`` and ``jgroups_py.aio`` have it, too. A machine without I/O (replica.py) keeps the tables of several hosts equal.
See design/maps.md.

May import: channel and the rooms below.
Imported by: blocking, aio, drill, spark, testing, tools.
"""

from __future__ import annotations

import typing

from jgroups_py.lazy import on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.maps.async_map import Changes
    from jgroups_py.maps.audit import AuditLog, AuditRecord, read_audit
    from jgroups_py.maps.channel import MapChannel, open_map_channel
    from jgroups_py.maps.cluster import MapBuilder, ReplicatedMaps, open_cluster
    from jgroups_py.maps.cluster_file import ClusterConfig, load_cluster, parse_cluster
    from jgroups_py.maps.codecs import BYTES, INT, JSON, STR, Codec, struct_codec
    from jgroups_py.maps.errors import (
        MapBusy,
        MapClosed,
        MapError,
        MapFileError,
        MapFull,
        MapTypeError,
    )
    from jgroups_py.maps.feed import Evicted, MapChange, Skipped
    from jgroups_py.maps.host import MapHost, PeerNetwork
    from jgroups_py.maps.links import Link
    from jgroups_py.maps.local_map import MapStatistics
    from jgroups_py.maps.memory import MemoryLinks
    from jgroups_py.maps.open import Map, open_map
    from jgroups_py.maps.opening import Replication
    from jgroups_py.maps.orders import Arrived, Sent, Told
    from jgroups_py.maps.rules import (
        LAST_WRITER,
        ConflictRule,
        LastWriter,
        Maximum,
        PerField,
        PnCounter,
        Union,
    )
    from jgroups_py.maps.tcp_links import TcpLinks
    from jgroups_py.maps.tcp_settings import TcpSettings

__all__ = [
    "Arrived",
    "AuditLog",
    "AuditRecord",
    "BYTES",
    "Changes",
    "Codec",
    "ConflictRule",
    "Evicted",
    "INT",
    "JSON",
    "LAST_WRITER",
    "LastWriter",
    "Link",
    "Map",
    "MapBusy",
    "MapChannel",
    "MapChange",
    "MapClosed",
    "MapError",
    "MapFileError",
    "MapFull",
    "MapHost",
    "MapStatistics",
    "MapTypeError",
    "Maximum",
    "MemoryLinks",
    "PeerNetwork",
    "open_map",
    "open_map_channel",
    "read_audit",
    "PerField",
    "PnCounter",
    "Replication",
    "Sent",
    "Skipped",
    "STR",
    "struct_codec",
    "Told",
    "Union",
    "ClusterConfig",
    "MapBuilder",
    "ReplicatedMaps",
    "TcpLinks",
    "TcpSettings",
    "load_cluster",
    "open_cluster",
    "parse_cluster",
]

_PLACES = {
    "async_map": "Changes",
    "audit": "AuditLog AuditRecord read_audit",
    "channel": "MapChannel open_map_channel",
    "cluster": "MapBuilder ReplicatedMaps open_cluster",
    "cluster_file": "ClusterConfig load_cluster parse_cluster",
    "codecs": "BYTES INT JSON STR Codec struct_codec",
    "errors": "MapBusy MapClosed MapError MapFileError MapFull MapTypeError",
    "feed": "Evicted MapChange Skipped",
    "host": "MapHost PeerNetwork",
    "links": "Link",
    "local_map": "MapStatistics",
    "memory": "MemoryLinks",
    "open": "Map open_map",
    "opening": "Replication",
    "orders": "Arrived Sent Told",
    "rules": "LAST_WRITER ConflictRule LastWriter Maximum PerField PnCounter Union",
    "tcp_links": "TcpLinks",
    "tcp_settings": "TcpSettings",
}
"""Names that are imported on first use, by module. The merging process needs few of them."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _PLACES)
