"""A drill of live and backup in virtual time, on a network in memory. The nodes are the real ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import trio

from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.faulty_network import MemberNetwork
from jgroups_py.drill.run.live_user import KINDS, OPERATIONS, LiveUser
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.drill.run.trio_simulated import EPOCH, SimulatedMember, TrioSimulation, run_on_trio
from jgroups_py.livebackup import LiveBackupNode, LiveBackupSettings, open_livebackup


def run_live_simulated(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_on_trio(plan, progress, LiveSimulation)


@dataclass(eq=False)
class LiveMember(SimulatedMember):
    """One incarnation of a live node or backup."""

    node: LiveBackupNode | None = None

    @property
    def asked(self) -> LiveUser:
        assert isinstance(self.user, LiveUser)
        return self.user


class LiveSimulation(TrioSimulation[LiveMember]):
    """One run of a drill of live and backup."""

    unready = (
        "not every node has its full view, or there is no live node of which all others are backups"
    )

    def _new_member(
        self, site: str, name: str, incarnation: int, network: MemberNetwork
    ) -> LiveMember:
        return LiveMember(site, name, incarnation, network)

    async def _open(
        self, member: LiveMember, chance: random.Random, started: Callable[[], None]
    ) -> None:
        stack = self._stacks[member.site, member.name]
        async with open_livebackup(
            stack.stack,
            cluster=f"drill-{member.site}",
            kinds=KINDS,
            operations=OPERATIONS,
            settings=LiveBackupSettings(**dict(self.plan.settings)),
            name=member.origin,
            wall=lambda: EPOCH + trio.current_time(),
            seed=chance.getrandbits(32),
            attributes=stack.attributes,
            properties=stack.properties,
            transport=member.network,
        ) as node:
            member.node = node
            user = member.user = LiveUser(
                node, member.site, member.origin, chance, self._log_of(member)
            )
            self._opened(member, node.channel, node.channel.view)
            node.on_view = partial(self._on_view, member)
            started()
            await self._until_closing(member, user.watch)

    def _ready(self) -> bool:
        roles = sorted(m.asked.role for m in self._members.values() if m.user is not None)
        backups = ["backup"] * (len(self.plan.members) - 1)
        return super()._ready() and roles == [*backups, "live"]

    async def _last_look(self) -> None:
        for member in self._there():
            await member.asked.census()
