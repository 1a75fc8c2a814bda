"""Deployment: the contents of a deployment file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.config.yaml_reader import Place
from jgroups_py.errors import ConfigError

NODES_MAX: Final = 200
"""The most nodes of an instance."""
COMPONENTS_MAX: Final = 100
"""The most components of one kind on a node."""

Separate = Literal["causes", "nodes"]


@dataclass(frozen=True, kw_only=True)
class DeployedNode:
    """A node. ``causes``: each fails all nodes that name it, such as a rack. ``buckets``: copies it can hold;
    ``masters``: the number of these that can be masters. The other numbers are components of each kind."""

    name: str
    causes: tuple[str, ...] = ()
    buckets: int
    masters: int
    managers: int = 1
    indices: int = 1
    routers: int = 1
    proxies: int = 1
    address: str = ""

    def components(self, kind: str) -> tuple[str, ...]:
        """Return the components' names, such as ``m/n1``, ``m/n1/2``. Kinds: m, i (index copies), r (routers), p (proxy
        managers)."""
        count = {"m": self.managers, "i": self.indices, "r": self.routers, "p": self.proxies}[kind]
        first = f"{kind}/{self.name}"
        return tuple(first if n == 1 else f"{first}/{n}" for n in range(1, count + 1))


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """``separate``: the things that two copies of a bucket must not share: causes of failure (and nodes), or only
    nodes. ``pinned``: bucket -> nodes of master and slave, as the file wants them. ``application``: module:name of the
    plug-in. ``attributes``: PROTOCOL.attribute -> text, set in the stack."""

    name: str
    buckets: int
    nodes: tuple[DeployedNode, ...]
    settings: InstanceSettings
    separate: Separate = "causes"
    stack: str = "udp.xml"
    application: str = ""
    pinned: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    source: str = "<deployment>"
    places: Mapping[str, Place] = field(default_factory=dict, repr=False)

    @cached_property
    def by_name(self) -> dict[str, DeployedNode]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def causes(self) -> dict[str, tuple[str, ...]]:
        """Return nodes by cause of failure. Every node is a cause of its own, named ``node NAME``; a cause of a
        single node is that node."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            for cause in node.causes:
                found.setdefault(cause, []).append(node.name)
        return {f"node {node.name}": (node.name,) for node in self.nodes} | {
            cause: tuple(names) for cause, names in found.items() if len(names) > 1
        }

    def zone_of(self, node: DeployedNode) -> str:
        """Return the node's causes for its components: names with commas between them. A running index refuses pairs
        that share a name, so the text is empty if they may share one."""
        return ",".join(node.causes) if self.separate == "causes" else ""

    def shared(self, one: str, other: str) -> str:
        """Return why these two nodes can fail together, or ""."""
        if one == other:
            return f"node {one}"
        common = [c for c in self.by_name[one].causes if c in self.by_name[other].causes]
        return common[0] if common else ""

    def may_pair(self, one: str, other: str) -> bool:
        """May a bucket have a copy on each of them?"""
        return one != other and (self.separate == "nodes" or not self.shared(one, other))

    def wrong(self, where: str, problem: str) -> ConfigError:
        """Return an error at a key of the file, or at the nearest existing one above."""
        at = where
        while at not in self.places and "." in at:
            at = at.rpartition(".")[0]
        line, column = self.places.get(at, (1, 1))
        return ConfigError(problem, file=self.source, line=line, column=column, where=where)
