"""Multi-master maps: dictionaries in a file that every process of every host may write at any time, and that are the same everywhere a
moment later (seed 004).

    from jgroups_py.maps import open_map

    async with open_map("sessions", key=str, value="json") as sessions:
        sessions["alice"] = {"visits": 1}

``jgroups_py.blocking`` and ``jgroups_py.aio`` have it, too. A machine without I/O (replica.py) keeps the tables of several hosts equal.
See design/maps.md.
"""

from __future__ import annotations

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
from jgroups_py.maps.feed import MapChange, Skipped
from jgroups_py.maps.host import MapHost, Network
from jgroups_py.maps.links import Link
from jgroups_py.maps.local_map import MapStatistics
from jgroups_py.maps.memory import MemoryLinks
from jgroups_py.maps.open import Changes, Map, open_map
from jgroups_py.maps.opening import Replication
from jgroups_py.maps.replica import Arrived, Sent, Told
from jgroups_py.maps.rules import (
    LAST_WRITER,
    ConflictRule,
    LastWriter,
    Maximum,
    PerField,
    PnCounter,
    Union,
)
from jgroups_py.maps.tcp import TcpSettings
from jgroups_py.maps.tcp_links import TcpLinks

__all__ = [
    "Arrived",
    "AuditLog",
    "AuditRecord",
    "BYTES",
    "Changes",
    "Codec",
    "ConflictRule",
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
    "Network",
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
