"""Picture: all nodes of a cache as of one moment, in memory and in its store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.cache.store import StorePicture


@dataclass(frozen=True, slots=True)
class Picture:
    """``nodes`` are in memory, and the truth for their paths. ``stored``: the rows of the store then, to be
    closed by whoever has it; those of ``gone`` are removed nodes that it did not know of."""

    nodes: Mapping[Fqn, Node]
    stored: StorePicture | None = None
    gone: Collection[Fqn] = ()
