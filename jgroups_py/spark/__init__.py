"""Spark: the data source ``format("jgroups")``, and jobs made with it. Needs ``jgroups_py[spark]``.

    from jgroups_py.spark import register

    register(spark)
    users = (
        spark.read.format("jgroups")
        .options(members="10.0.0.1:7900,10.0.0.2:7900", tokenfile="/etc/jgroups/token", path="/users")
        .schema("path string, name string, visits long")
        .load()
    )

Executors are not members: they read and write at the export ports of members (``jgroups_py.export``). A snapshot is of
one moment. For a cache with buddies ``members`` names the ports of all members. Then each node is read once, and each
member's part is of one moment; all these moments are within milliseconds. Changes are followed at all members, too. Of two
changes of a path the one with the higher ``stamp`` is later.
Options, schemas and guarantees: design/spark.md.

May import: drill, export, testing and the rooms below.
Imported by: tools.
"""

from __future__ import annotations

from jgroups_py.errors import ConfigError

try:
    import pyarrow as _arrow
    import pyspark as _pyspark
except ImportError as error:
    raise ConfigError(
        f"Spark needs more packages ({error.name} is missing): pip install 'jgroups_py[spark]'"
    ) from None

from jgroups_py.spark.errors import problem_of
from jgroups_py.spark.kinds import MapKind, register_kind
from jgroups_py.spark.maps import map_place
from jgroups_py.spark.session import open_session
from jgroups_py.spark.source import JGroupsDataSource, register

__all__ = [
    "JGroupsDataSource",
    "MapKind",
    "map_place",
    "open_session",
    "problem_of",
    "register",
    "register_kind",
]

del _arrow, _pyspark
