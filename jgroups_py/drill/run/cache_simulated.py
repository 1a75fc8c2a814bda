"""A drill of caches in virtual time, on a network in memory. The caches are the real ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.drill.file.cache_settings import keys_of, settings_of
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.cache_user import CacheUser
from jgroups_py.drill.run.faulty_network import MemberNetwork
from jgroups_py.drill.run.runner import Progress, RunLog
from jgroups_py.drill.run.trio_simulated import SimulatedMember, TrioSimulation, run_on_trio


def run_cache_simulated(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_on_trio(plan, progress, CacheSimulation)


@dataclass(eq=False)
class CacheMember(SimulatedMember):
    """One incarnation of a member with its cache."""

    cache: TreeCache | None = None

    def linked(self, plan: DrillPlan) -> bool:
        """Does the site's relay reach all other sites, as far as this member knows?"""
        if self.cache is None or len(plan.sites) == 1:
            return self.cache is not None
        return len(self.cache.buddies.sites.status.reachable) == len(plan.sites) - 1

    @property
    def asked(self) -> CacheUser:
        assert isinstance(self.user, CacheUser)
        return self.user

    @property
    def view(self) -> tuple[str, ...]:
        """Return the names, without incarnations, of the view in which the buddies were chosen."""
        return tuple(self.asked.members) if self.user is not None else ()


class CacheSimulation(TrioSimulation[CacheMember]):
    """One run of a drill of caches."""

    looks_after_failures = True
    unready = "not every member has its full view, its buddies and its way to the other sites"

    def __init__(self, plan: DrillPlan, progress: Progress, folder: Path) -> None:
        super().__init__(plan, progress, folder)
        self._settings = {
            (site, name): settings_of(plan, site, stack, folder / f"{site}.{name}.xml")
            for (site, name), stack in self._stacks.items()
        }

    def _new_member(
        self, site: str, name: str, incarnation: int, network: MemberNetwork
    ) -> CacheMember:
        return CacheMember(site, name, incarnation, network)

    async def _open(
        self, member: CacheMember, chance: random.Random, started: Callable[[], None]
    ) -> None:
        async with open_tree_cache(
            self._settings[member.site, member.name],
            cluster=f"drill-{member.site}",
            name=member.origin,
            transport=member.network,
        ) as cache:
            member.cache = cache
            user = member.user = CacheUser(
                cache,
                member.site,
                member.origin,
                chance,
                self._log_of(member),
                self._others(member.site),
            )
            self._opened(member, cache.buddies.channel, cache.buddies.view)
            cache.buddies.on_view = partial(self._on_view, member)
            started()
            await self._until_closing(member, user.watch)

    def _ready(self) -> bool:
        return super()._ready() and all(
            member.cache is not None and member.cache.buddies.protected and member.linked(self.plan)
            for member in self._members.values()
        )

    async def _last_look(self) -> None:
        """Ask the owners of all keys; then read each key once more at its home."""
        there = self._there()
        keys = keys_of(self.plan)
        for member in there:
            await member.asked.census(keys)
        for site in self.plan.sites:
            living = [m for m in there if m.site == site.name]
            for number, member in enumerate(living):
                await member.asked.last_look(range(number, keys, len(living)))

    async def _look_after(self, site: str) -> None:
        there = [member for member in self._there() if member.site != site]
        for member in there:
            if member.user is not None and not member.gone:
                await member.asked.holds(keys_of(self.plan), site)

    async def _tell_relay(self, relay: CacheMember, what: str, site: str) -> None:
        assert relay.cache is not None
        sites = relay.cache.buddies.sites
        if what == "promote":
            sites.promote()
        else:
            sites.bootstrap(site)
