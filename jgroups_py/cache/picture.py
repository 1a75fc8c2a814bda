"""CachePicture: all nodes of a cache as of one moment, in memory and in its store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from jgroups_py.buddy.values import Path
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.cache.store import StorePicture


@dataclass(frozen=True, slots=True)
class CachePicture:
    """``nodes``: those in memory. ``left``: those that left memory while the rows were taken. Both outrank rows of
    their paths.
    ``stored``: the store's rows; the holder of the picture closes it. ``gone``: removed nodes whose rows do not count.
    ``only``: with buddies, the rows that are values of this member's nodes. Each of these rows must exist."""

    nodes: Mapping[Fqn, Node]
    stored: StorePicture | None = None
    gone: Collection[Fqn] = ()
    left: Mapping[Fqn, Node] = field(default_factory=dict)
    only: Collection[Path] | None = None
