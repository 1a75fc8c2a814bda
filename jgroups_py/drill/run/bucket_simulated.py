"""A drill of a bucket store in virtual time, on a network in memory. The nodes are the real ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import trio

from jgroups_py.buckets.opening import open_buckets
from jgroups_py.drill.file.bucket_settings import attributes, instance, parts, placement
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.bucket_course import BucketCourse
from jgroups_py.drill.run.bucket_user import BucketUser, plugin
from jgroups_py.drill.run.faulty_network import MemberNetwork
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.drill.run.trio_simulated import EPOCH, SimulatedMember, TrioSimulation, run_on_trio


def run_bucket_simulated(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_on_trio(plan, progress, BucketSimulation)


class BucketMember(SimulatedMember):
    """One incarnation of a node of the store."""

    @property
    def asked(self) -> BucketUser:
        assert isinstance(self.user, BucketUser)
        return self.user


class BucketSimulation(BucketCourse[BucketMember], TrioSimulation[BucketMember]):
    """One run of a drill of a bucket store."""

    unready = "not every member knows an instance of which all buckets have both copies"

    def _new_member(
        self, site: str, name: str, incarnation: int, network: MemberNetwork
    ) -> BucketMember:
        return BucketMember(site, name, incarnation, network)

    async def _open(
        self, member: BucketMember, chance: random.Random, started: Callable[[], None]
    ) -> None:
        stack = self._stacks[member.site, member.name]
        names = self.plan.site(member.site).members
        given = dict(self.plan.settings)
        settings = instance(given, names)
        async with open_buckets(
            stack.stack,
            cluster=f"drill-{member.site}",
            plugin=plugin(given, member.origin),
            settings=settings,
            parts=parts(member.name, given, settings),
            placement=placement(given, names, settings.buckets),
            name=member.origin,
            wall=lambda: EPOCH + trio.current_time(),
            seed=chance.getrandbits(32),
            attributes=attributes(stack.attributes),
            properties=stack.properties,
            transport=member.network,
        ) as node:
            user = member.user = BucketUser(
                node, member.site, member.origin, chance, self._log_of(member), given
            )
            user.on_move = self._move_began
            self._opened(member, node.channel, node.channel.view)
            node.on_view = lambda view: self._on_view(member, view)
            started()
            await self._until_closing(member, user.watch)

    async def _standing(self, administrator: BucketMember) -> dict[str, Any]:
        return administrator.asked.standing()

    async def _order(self, administrator: BucketMember, do: str, **what: str) -> None:
        user = administrator.asked
        user.begin_move() if do == "move" else user.begin_upgrade(**what)

    def _ready(self) -> bool:
        return super()._ready() and all(m.asked.protected for m in self._members.values())

    async def _last_look(self) -> None:
        keys = max((load.asks.keys for load in self.plan.loads), default=0)
        async with trio.open_nursery() as nursery:
            for member in self._there():
                nursery.start_soon(member.asked.census, keys)
