"""A drill of maps in virtual time: hosts with the real replica on the real links, channel and protocols.

Only the file is replaced: by a table in memory that outlives its process.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.channel.open import open_channel
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.faulty_network import MemberNetwork
from jgroups_py.drill.run.map_user import MapUser
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.drill.run.trio_simulated import EPOCH, SimulatedMember, TrioSimulation, run_on_trio
from jgroups_py.maps.channel import open_map_channel
from jgroups_py.maps.entry import MapEntry, origin_of
from jgroups_py.maps.host import MapHost
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.stamp import HybridClock, MapStamp
from jgroups_py.maps.table import MemoryTable

MAP: Final = "drill"


def run_map_simulated(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_on_trio(plan, progress, MapSimulation)


def _wall() -> int:
    return int((EPOCH + trio.current_time()) * 1e9)


class SimulatedFile(MemoryTable):
    """The file of a host, and the application's access to the map."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self.node = node
        self.origin = origin_of(node, 1)
        self.clock = HybridClock(_wall)

    def opened(self) -> None:
        """Open the file for a new process: its clock begins above all stored times."""
        self.clock = HybridClock(_wall)
        for entry in self.entries.values():
            self.clock.observe(entry.stamp.time)

    def read(self, key: str) -> Any:
        entry = self.entry(key.encode())
        return None if entry is None or entry.value is None else json.loads(entry.value)

    def write(self, key: str, value: Any) -> bool:
        if value is None and self.read(key) is None:
            return False
        data = None if value is None else json.dumps(value).encode()
        self.change(
            self.origin, key.encode(), MapEntry(data, MapStamp(self.clock.next(), self.node))
        )
        return True

    def all_keys(self) -> Iterable[str]:
        return [key.decode() for key, entry in self.entries.items() if not entry.removed]


@dataclass(eq=False)
class MapMember(SimulatedMember):
    """One incarnation of a host."""

    host: MapHost | None = None

    @property
    def asked(self) -> MapUser:
        assert isinstance(self.user, MapUser)
        return self.user


class MapSimulation(TrioSimulation[MapMember]):
    """One run of a drill of maps."""

    unready = (
        "not every host is linked with those of its site, and first hosts with those of other sites"
    )

    def __init__(self, plan: DrillPlan, progress: Progress, folder: Path) -> None:
        super().__init__(plan, progress, folder)
        self._files = {who: SimulatedFile(n) for n, who in enumerate(plan.members, 1)}

    def _new_member(
        self, site: str, name: str, incarnation: int, network: MemberNetwork
    ) -> MapMember:
        return MapMember(site, name, incarnation, network)

    async def _open(
        self, member: MapMember, chance: random.Random, started: Callable[[], None]
    ) -> None:
        stack = self._stacks[member.site, member.name]
        file = self._files[member.site, member.name]
        links = random.Random(chance.random())
        async with (
            open_channel(
                stack.stack,
                cluster=f"drill-{member.site}",
                name=member.origin,
                attributes=stack.attributes,
                properties=stack.properties,
                transport=member.network,
            ) as channel,
            open_map_channel(channel) as carrier,
        ):
            carrier.chance = lambda: links.randint(1, 2**32 - 1)
            carrier.on_view = partial(self._on_view, member)
            file.opened()
            user = member.user = MapUser(
                file, member.site, member.origin, chance, self._log_of(member)
            )
            host = member.host = MapHost(file, self._replica(file), user.on_event)
            self._opened(member, channel, channel.view)
            user.census(first=True)
            started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(host.run)
                nursery.start_soon(carrier.network(MAP).run, host)
                await self._until_closing(member, user.watch)
                nursery.cancel_scope.cancel()

    def _replica(self, file: SimulatedFile) -> ReplicaSettings:
        hosts = frozenset(range(1, len(self.plan.members) + 1))
        return ReplicaSettings(
            map=MAP,
            node=file.node,
            origin=file.origin,
            file=bytes([file.node]),
            peers=hosts,
            **dict(self.plan.settings),
        )

    def _ready(self) -> bool:
        return super()._ready() and all(
            member.host is not None and len(member.host.replica.peers) >= self._links(member)
            for member in self._members.values()
        )

    def _links(self, member: MapMember) -> int:
        """Count the links of a host: the other hosts of its site, and for a first host those of other sites."""
        names = self.plan.site(member.site).members
        return len(names) - 1 + (len(self.plan.sites) - 1) * (member.name == names[0])

    async def _last_look(self) -> None:
        for member in self._there():
            member.asked.census()
