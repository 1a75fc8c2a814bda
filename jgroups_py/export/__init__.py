"""The export port: a member's data for programs that are not members, above all Spark's executors.

    async with open_tree_cache("replicated.xml", cluster="shop") as cache:
        async with open_export(cache, token=token) as port:
            print(port.address)             # ("127.0.0.1", 41234)

The port gives consistent snapshots and ranges of a change log, and takes bulk writes in two phases, in columnar frames.
A client must know the token. See design/export.md.

May import: cache, channel and the rooms below.
Imported by: blocking, spark, tools.
"""

from __future__ import annotations

import typing

from jgroups_py.export.client import ExportAccess, ExportClient, connect, connect_at, read_token
from jgroups_py.export.errors import (
    Behind,
    Diverged,
    ExportError,
    NoMember,
    NotAllowed,
    NotTrusted,
    Trimmed,
    UnknownMap,
    WrongToken,
)
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.messages import Marker, Offset
from jgroups_py.export.tokens import ExportToken
from jgroups_py.lazy import on_first_use

if typing.TYPE_CHECKING:
    from jgroups_py.export.server import ExportPort, open_export
    from jgroups_py.export.source import Source

__all__ = [
    "Behind",
    "Diverged",
    "ExportAccess",
    "ExportClient",
    "ExportError",
    "ExportLimits",
    "ExportPort",
    "ExportToken",
    "Marker",
    "NoMember",
    "NotAllowed",
    "NotTrusted",
    "Offset",
    "Source",
    "Trimmed",
    "UnknownMap",
    "WrongToken",
    "connect",
    "connect_at",
    "open_export",
    "read_token",
]

_PLACES = {"server": "ExportPort open_export", "source": "Source"}
"""Names of the member's side, by module. They are imported on first use, because clients need no loop, cache and
stack."""

if not typing.TYPE_CHECKING:
    __getattr__, __dir__ = on_first_use(__name__, _PLACES)
