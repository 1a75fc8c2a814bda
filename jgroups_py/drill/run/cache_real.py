"""A drill of caches for real: as real.py, with a cache in each process."""

from __future__ import annotations

from typing import Any

import trio

from jgroups_py.drill.file.cache_settings import keys_of
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.run.real import AskedDrill, Process, run_drill
from jgroups_py.drill.run.runner import Progress, RunLog

LAST_WORDS_SECONDS = 0.5
"""Seconds for a member before its kill, to name the keys that other sites have not acknowledged."""


def run_cache_real(plan: DrillPlan, progress: Progress) -> RunLog:
    """A ``Runner``. Raises ``DrillError``, ``ConfigError``."""
    return run_drill(plan, progress, CacheRealDrill)


class CacheRealDrill(AskedDrill):
    """One run of a drill of caches."""

    module = "jgroups_py.drill.run.cache_member"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._protected: dict[Process, bool] = {}

    def _heard(self, member: Process, told: dict[str, Any]) -> None:
        match told["what"]:
            case "protected":
                self._protected[member] = told["protected"]
            case _:
                super()._heard(member, told)

    def _settled(self) -> bool:
        return all(self._protected.get(member, False) for member in self._everybody)

    async def _before_crash(self, member: Process) -> None:
        if len(self.plan.sites) > 1 and not member.paused:
            self._looked.pop(member, None)
            # A paused member cannot be asked: the holders of its copies answer.
            asleep = any(m.paused for m in self._members.values() if m.site == member.site)
            await self._tell(member, do="unsent", backups=asleep)
            with trio.move_on_after(LAST_WORDS_SECONDS):
                await self._until(lambda: member in self._looked)

    async def _look_after(self, site: str) -> None:
        for member in list(self._members.values()):
            if not (member.gone or member.paused or member.site == site):
                await self._tell(member, do="holds", keys=keys_of(self.plan), failed=site)

    async def _last_look(self) -> None:
        """Ask the owners of all keys; then read each key once more by a member of each site."""
        keys = keys_of(self.plan)
        there = [m for m in self._members.values() if not (m.gone or m.paused)]
        await self._look(there, {member: {"do": "census", "keys": keys} for member in there})
        commands = {}
        for site in self.plan.sites:
            living = [m for m in there if m.site == site.name]
            for number, member in enumerate(living):
                mine = list(range(number, keys, len(living)))
                commands[member] = {"do": "look", "keys": mine}
        await self._look(there, commands)
