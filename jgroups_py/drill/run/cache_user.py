"""The application of a cache drill: requests at a rate, and a log of their results.

A value names its writer and number: ``["NYC", "A#1", 17, padding]``. Requests do not wait for each other, as those of
many clients. Half of the writes are batches that read first and log the replaced value. So a lost write is noticed even if no
member reads before the next write.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import trio

from jgroups_py.cache import TreeCache
from jgroups_py.drill.run.requests import DrillRequest, Load, Requests
from jgroups_py.drill.run.user import Log, User
from jgroups_py.errors import CacheError

WATCH_SECONDS = 0.02
"""Seconds between two looks at the buddies' state."""
TELL_SECONDS = 1.0
"""Seconds after which an unchanged state is logged again."""
LOOKING = 0.5
"""The part of writes that log the replaced value."""

Version = tuple[str, str, int]
"""Site, ``NAME#incarnation`` and number of a value's writer."""


class CacheUser(User[Load, DrillRequest]):
    """One member's requests. ``others``: other sites."""

    def __init__(
        self,
        cache: TreeCache,
        site: str,
        origin: str,
        chance: random.Random,
        log: Log,
        others: Sequence[str] = (),
    ) -> None:
        super().__init__(site, origin, chance, log)
        self._cache = cache
        self._others = others
        self._discarded = 0

    @property
    def members(self) -> list[str]:
        """Return the names, without incarnations, of the view in which the buddies were chosen."""
        cache = self._cache
        return [cache.name_of(m).partition("#")[0] for m in cache.buddies.members]

    def source(self, load: Load) -> Callable[[], DrillRequest]:
        requests = Requests(load, self._name, self._chance)
        return lambda: requests.next(self.members)

    def refuse(self, request: DrillRequest, why: str) -> None:
        self._log("failed", key=request.key, why=why)

    async def do(self, request: DrillRequest, load: Load) -> None:
        if request.read:
            await self.read(request.key)
        else:
            await self._write(request.key, load)

    async def read(self, key: int, **detail: Any) -> None:
        """Read a node, wherever it is. The cache takes it over if its settings say so."""
        began = trio.current_time()
        try:
            value = await self._cache.get(_path(key), "v")
        except CacheError as error:
            self._log("failed", key=key, why=str(error), **detail)
        else:
            took = trio.current_time() - began
            origin, seqno, more = self._named(_whose(value))
            self._log("got", origin, seqno, key=key, took=round(took, 6), **more, **detail)

    async def _write(self, key: int, load: Load) -> None:
        self._seqno += 1
        seqno, path = self._seqno, _path(key)
        looking = self._chance.random() < LOOKING
        value = None
        if self._chance.random() >= load.remove_ratio:
            padding = bytes(max(0, load.value_size - len(self._site) - len(self._origin) - 12))
            value = [self._site, self._origin, seqno, padding]
        more = {"removed": True} if value is None else {}
        self._log("put", self._origin, seqno, key=key, **more)
        try:
            changed = True
            if looking:
                changed = await self._look_and_write(key, seqno, value)
            elif value is None:
                changed = await self._cache.remove_node(path)
            else:
                await self._cache.put(path, "v", value)
        except CacheError as error:
            why, definite = str(error), error.definite
            self._log("failed", self._origin, seqno, key=key, why=why, definite=definite)
        else:
            self._log(
                "acked", self._origin, seqno, key=key, **({} if changed else {"nothing": True})
            )

    async def _look_and_write(self, key: int, seqno: int, value: list[Any] | None) -> bool:
        """Read, log and write. False: the write removed a missing node."""
        path = _path(key)
        async with self._cache.batch() as batch:
            replaced = _whose(await batch.get(path, "v"))
            over = None if replaced is None else [replaced[1], replaced[2], replaced[0]]
            self._log("over", self._origin, seqno, key=key, over=over)
            if value is None:
                batch.remove_node(path)
            else:
                batch.put(path, "v", value)
        return replaced is not None or value is not None

    def _named(self, version: Version | None) -> tuple[str | None, int | None, dict[str, Any]]:
        """Return a version in the form of records: origin, number, and ``from`` if it is of another site."""
        if version is None:
            return None, None, {}
        site, origin, seqno = version
        return origin, seqno, {} if site == self._site else {"from": site}

    def name_unsent(self, *, backups: bool = False) -> None:
        """Log this member's keys that another site has not acknowledged. ``backups``: include its backups, for owners
        that cannot be asked."""
        for site in self._others:
            unsent = self._cache.buddies.sites.unsent(site, backups=backups)
            keys = {path[-1]: n for path, n in unsent.items() if len(path) == 2}
            self._log("unsent", to=site, keys=keys)

    def last_words(self, *, backups: bool = False) -> None:
        self._tell_discarded()
        self.name_unsent(backups=backups)

    def _tell_discarded(self) -> None:
        """Log the values that merges have dropped since the last call."""
        listed = self._cache.discarded
        for value in listed[self._discarded :]:
            version = _whose((value.attributes or {}).get("v"))
            origin, seqno, more = self._named(version)
            self._log("discarded", origin, seqno, key=int(value.path[-1]), **more)
        self._discarded = len(listed)

    def _sites(self) -> dict[str, Any]:
        """Return this member's knowledge of other sites, for the log."""
        if not self._others:
            return {}
        status = self._cache.buddies.sites.status
        return {
            "reachable": list(status.reachable),
            "out_of_sync": list(status.out_of_sync),
            "under_way": dict(status.under_way),
            "bootstraps": self._cache.statistics().counters.get("buddy_bootstraps", 0),
        }

    async def watch(self) -> None:
        """Log the buddies' state when it changes."""
        cache, told, at = self._cache, None, 0.0
        while True:
            self._tell_discarded()
            members = [cache.name_of(member) for member in cache.buddies.members]
            now = (cache.buddies.protected, members, sites := self._sites())
            if now != told or trio.current_time() - at >= TELL_SECONDS:
                told, at = now, trio.current_time()
                counters = cache.statistics().counters
                self._log(
                    "buddies",
                    protected=now[0],
                    members=members,
                    owned=len(cache.buddies.entries),
                    gravitations=counters.get("buddy_gravitations", 0),
                    adopted=counters.get("nodes_adopted", 0),
                    **sites,
                )
            await trio.sleep(WATCH_SECONDS)

    async def census(self, keys: int) -> None:
        """Log, at the end, the owned keys with their values, and the keys that other sites lack."""
        owned = await self._owned(keys)
        self._tell_discarded()
        members = [self._cache.name_of(member) for member in self._cache.buddies.members]
        self._log("census", members=members, owned=owned)
        self.name_unsent()

    async def holds(self, keys: int, failed: str) -> None:
        """Log the owned keys when another site has ``failed``."""
        self._log("holds", failed=failed, owned=await self._owned(keys))

    async def _owned(self, keys: int) -> dict[str, Any]:
        """Return the owned keys with their values. Nothing moves."""
        owned: dict[str, Any] = {}
        for key in range(keys):
            try:
                value = await self._cache.get(_path(key), "v", gravitation=False)
            except CacheError as error:  # a waiting request has it locked
                self._log("failed", key=key, why=str(error), last=True)
                continue
            version = _whose(value)
            if version is not None:
                owned[str(key)] = [version[1], version[2], version[0]]
        return owned

    async def last_look(self, keys: Sequence[int]) -> None:
        """Read each key once more, when all is at rest."""
        for key in keys:
            await self.read(key, last=True)


def _path(key: int) -> str:
    return f"/drill/{key}"


def _whose(value: Any) -> Version | None:
    return None if value is None else (value[0], value[1], value[2])
