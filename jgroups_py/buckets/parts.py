"""NodeParts: the components of one member (DU_Bucket, DU_Router and DU_Proxy of the seed)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jgroups_py.buckets.ends import COMPONENT_MAX
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.plugin import Plugin
from jgroups_py.buckets.port import Index
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.errors import ConfigError

ROUTERS_MAX: Final = 100
"""The most routers of one member."""
Placement = Mapping[int, tuple[str, str]]
"""The managers of a bucket's master and slave, by bucket, for the start of an instance."""


@dataclass(frozen=True, kw_only=True)
class NodeParts:
    """Names of components. Managers and index copies need names that are unique in the instance. Each member has proxies and at least one router."""

    node: str
    """The computer. Two copies of a bucket are never on the same one (A32)."""
    zone: str = ""
    """A cause of common failure, such as a rack; "" if unknown. Two copies are never in the same one."""
    managers: tuple[str, ...] = ()
    """Bucket managers. Without any, the member is a client."""
    index: str | None = None
    """An index copy, one of the static set; None: the routers follow another member's copy."""
    routers: int = 1
    """The number of routers that share the requests, in turns. All run in this process."""

    def __post_init__(self) -> None:
        if not 1 <= self.routers <= ROUTERS_MAX:
            raise ConfigError(f"node {self.node}: 1 to {ROUTERS_MAX} routers, not {self.routers}")
        names = [*self.managers, *([self.index] if self.index is not None else [])]
        for name in (self.node, *names):
            if not isinstance(name, str) or not 1 <= len(name) <= COMPONENT_MAX:
                raise ConfigError(f"names have 1 to {COMPONENT_MAX} characters, not {name!r}")
        if len(set(names)) != len(names):
            raise ConfigError(f"node {self.node}: components with the same name: {names}")

    @classmethod
    def of(cls, node: str, settings: InstanceSettings, zone: str = "") -> NodeParts:
        """Return parts with a manager ``m/NODE``, and an index copy if the static set has ``i/NODE``."""
        index = f"i/{node}"
        return cls(
            node=node,
            zone=zone,
            managers=(f"m/{node}",),
            index=index if index in settings.index_copies else None,
        )

    def build(self, machine: BucketMachine, plugin: Plugin, placement: Placement | None) -> None:
        """Add the components to the machine of a new member. Raises ConfigError."""
        for name in self.managers:
            machine.add_manager(name, plugin)
        if self.index is None:
            self._add_routers(machine, plugin, machine.add_mirror(f"follower/{self.node}"))
        else:
            if self.index not in machine.settings.index_copies:
                raise ConfigError(
                    f"index {self.index!r} is not in index_copies: {', '.join(machine.settings.index_copies)}"
                )
            copy = machine.add_index(self.index, dict(placement) if placement else None)
            self._add_routers(machine, plugin, copy)
        machine.add_proxies(f"p/{self.node}")

    def _add_routers(self, machine: BucketMachine, plugin: Plugin, index: Index) -> None:
        first = f"r/{self.node}"
        for number in range(1, self.routers + 1):
            machine.add_router(first if number == 1 else f"{first}/{number}", plugin, index)
