"""The export port: a member's data for programs that are not members, above all Spark's executors.

    async with open_tree_cache("replicated.xml", cluster="shop") as cache:
        async with open_export(cache, token=token) as port:
            print(port.address)             # ("127.0.0.1", 41234)

It gives consistent snapshots and ranges of a change log, and takes bulk writes in two phases, in columnar frames. A
client must know the token. See design/export.md.

May import: cache, channel and what is below.
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

_PLACES = {"ExportPort": "server", "open_export": "server", "Source": "source"}
"""Names of the member's side. They are imported on first use, because clients need no loop, cache and stack."""


def __getattr__(name: str) -> typing.Any:
    if name not in _PLACES:
        raise AttributeError(f"module jgroups_py.export has no attribute {name}")
    import importlib

    return getattr(importlib.import_module(f"jgroups_py.export.{_PLACES[name]}"), name)
