"""One member of a real drill of caches: a process with a tree cache and the requests to it.

    python -m jgroups_py.drill.run.cache_member    as jgroups_py.drill.run.member

More commands: ``census`` (with ``keys``), ``look`` (with the ``keys`` to read), ``holds`` (with ``keys`` and
the site that ``failed``), ``unsent`` (with ``backups``), ``bootstrap`` (with ``site``). It reports ``protected`` when
that, or its knowledge of other sites, changes, and ``looked`` after ``census``, ``look`` or ``unsent``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trio

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.cache.settings_file import load_cache_settings
from jgroups_py.drill.file.cache_settings import on_stack
from jgroups_py.drill.file.stacks import Settings
from jgroups_py.drill.run.cache_user import CacheUser
from jgroups_py.drill.run.member import DrillMember, main
from jgroups_py.drill.run.requests import Load
from jgroups_py.driver import SocketTransport


class CacheDrillMember(DrillMember):
    """See the module's docstring."""

    user: CacheUser | None = None
    cache: TreeCache | None = None

    async def live(self) -> None:
        task = self.task
        settings = on_stack(
            load_cache_settings(task.cache, properties=task.cache_properties),
            Settings(task.stack, task.attributes, task.properties),
            Path(task.log).with_suffix(".xml"),
        )
        async with open_tree_cache(
            settings,
            cluster=task.cluster,
            name=f"{task.name}#{task.incarnation}",
            transport=SocketTransport(faults=self.faults),
        ) as cache:
            await self._use(cache)

    async def _use(self, cache: TreeCache) -> None:
        task, channel = self.task, cache.buddies.channel
        self.cache = cache
        channel.driver.machine.trace = self._on_trace
        channel.driver.before_flush.append(self._watch_bridge)
        self._has_joined(channel)
        self._on_view(cache.buddies.view)
        cache.buddies.on_view = self._on_view
        others = [site for site in task.site_names if site != task.site]
        self.user = CacheUser(cache, task.site, self.origin, self.chance, self._write, others)
        await self.serve(self.user, Load)

    def _write(
        self, event: str, origin: str | None = None, seqno: int | None = None, **detail: Any
    ) -> None:
        self.write(event, origin, seqno, **detail)
        if event == "buddies":
            linked = len(detail.get("reachable", ())) == len(self.task.site_names) - 1
            self.tell("protected", protected=detail["protected"] and linked)

    async def obey(self, command: dict[str, Any]) -> None:
        if self.user is None:  # the member is still joining
            self.tell("looked")
            return
        match command["do"]:
            case "unsent":
                self.user.last_words(backups=command.get("backups", False))
                self.tell("looked")
            case "holds":
                await self.user.holds(command["keys"], command["failed"])
            case "bootstrap":
                assert self.cache is not None
                self.cache.buddies.sites.bootstrap(command["site"])
            case "census":
                await self.user.census(command["keys"])
                self.tell("looked")
            case "look":
                await self.user.last_look(command["keys"])
                self.tell("looked")

    def before_end(self) -> None:
        if self.user is not None:
            self.user.last_words()

    def promote(self) -> None:
        assert self.cache is not None, "promote before joining"
        self.cache.buddies.sites.promote()


if __name__ == "__main__":
    trio.run(main, CacheDrillMember)
