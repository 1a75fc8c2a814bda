"""Caches with buddies at two sites: the full stack with RELAY, on a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
from cache_group import Group, group, settings

from jgroups_py import MemoryNetwork
from jgroups_py.cache import EventKind, Fqn, NodeChanged, TreeCache, open_tree_cache
from jgroups_py.channel.relay import RelayControl
from jgroups_py.errors import CacheClosed, CacheRefused, ConfigError, ReplicationError

PORTS = {"NYC": "45001", "SFO": "45002"}
BRIDGE = ",".join(f"127.0.0.1[{port}]" for port in range(7950, 7960))


class Site(Group):
    """Caches of one site."""

    def __init__(self, nursery: trio.Nursery, network: MemoryNetwork, site: str) -> None:
        super().__init__(nursery)
        self.network = network
        self.site = site
        self.properties = {
            "relay.site": site,
            "relay.sites": "NYC,SFO",
            "relay.bridge.hosts": BRIDGE,
            "jgroups.udp.mcast_port": PORTS[site],
        }

    async def open(self, names: str, **more: Any) -> list[TreeCache]:
        config = replace(settings(**more), stack="relay-udp.xml", cluster_name=self.site)
        return await self.start(names, config)


@asynccontextmanager
async def two_sites() -> AsyncIterator[tuple[Site, Site]]:
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        yield Site(nursery, network, "NYC"), Site(nursery, network, "SFO")
        nursery.cancel_scope.cancel()


async def until(condition: Any, seconds: float = 60) -> None:
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.05)


async def linked(*caches: TreeCache) -> None:
    await until(lambda: all(cache.buddies.sites.status.reachable for cache in caches))


def unsent(caches: list[TreeCache], site: str) -> dict[Fqn, int]:
    return {p: n for cache in caches for p, n in cache.buddies.sites.unsent(site).items()}


def everything(caches: list[TreeCache]) -> dict[str, Any]:
    """Return the nodes by owner."""
    return {
        str(path): entry.value
        for cache in caches
        for path, entry in (
            (Fqn(p), e)
            for p, e in cache.buddies.machine.own.items()
            if e.to is None and not e.removed
        )
    }


@pytest.mark.seed("R17", "R19")
async def test_writes_of_owners_live_at_the_other_site_with_owners_and_buddies_of_its_own(
    autojump_clock: Any,
) -> None:
    async with two_sites() as (nyc, sfo):
        ours = await nyc.open("ABC")
        theirs = await sfo.open("STU")
        await linked(*ours, *theirs)
        for number in range(30):
            await ours[number % 3].put(f"/k/{number}", "n", number)
        await ours[0].remove_node("/k/3")
        await until(lambda: not unsent(ours, "SFO"))
        there = everything(theirs)
        assert there == everything(ours) and len(there) == 29
        owning = [len(everything([cache])) for cache in theirs]
        assert sum(owning) == 29 and all(owning)  # their own locator spreads them
        backups = [c.statistics().counters["backup_nodes"] for c in theirs]
        assert sum(backups) >= 29
        assert await theirs[0].get("/k/5", "n") == 5
        assert await theirs[0].get("/k/3", "n") is None


@pytest.mark.seed("R18", "R19")
async def test_events_name_a_site_and_a_path_and_find_the_owner(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[tuple[str, bytes]] = []
    post = RelayControl.post

    def recorded(self: RelayControl, site: str, payload: bytes) -> bool:
        posted.append((site, payload))
        return post(self, site, payload)

    monkeypatch.setattr(RelayControl, "post", recorded)
    async with two_sites() as (nyc, sfo):
        ours = await nyc.open("ABC")
        theirs = await sfo.open("STU")
        await linked(*ours, *theirs)
        await ours[1].put("/k", "n", 1)
        await until(lambda: "/k" in everything(theirs))
        (home,) = (cache for cache in theirs if everything([cache]))
        other = next(cache for cache in theirs if cache is not home)
        assert await other.get("/k", "n") == 1  # it moves there
        await ours[2].put("/k", "n", 2)
        await until(lambda: not unsent(ours, "SFO"))
        assert everything([other]) == everything(ours) == {"/k": {"n": b"\x02"}}
        events = [payload for site, payload in posted if site == "SFO"]
        assert any(b"\x02" in payload for payload in events)
        members = [bytes(member) for member in home.buddies.members]
        assert not any(member in payload for payload in events for member in members)


@pytest.mark.seed("R19")
async def test_relays_and_owners_crash_while_others_write_and_no_write_is_missing_there(
    autojump_clock: Any,
) -> None:
    async with two_sites() as (nyc, sfo):
        a, b, c, d = await nyc.open("ABCD")
        theirs = await sfo.open("STU")
        await linked(a, b, c, d, *theirs)
        acked: dict[str, int] = {}

        async def write(cache: TreeCache, name: str) -> None:
            for number in range(60):
                path = f"/{name}/{number % 20}"
                try:
                    await cache.put(path, "n", number)
                except (ReplicationError, CacheClosed):
                    continue
                acked[path] = number
                await trio.sleep(0.02)

        async with trio.open_nursery() as nursery:
            for cache, name in zip((b, c, d), "bcd", strict=True):
                nursery.start_soon(write, cache, name)
            await trio.sleep(0.5)
            await nyc.kill("A")  # the relay
            await nyc.protected()
            await sfo.kill("S")  # and the other one
        ours = [b, c, d]
        await nyc.kill("D")  # an owner
        await nyc.protected()
        ours.remove(d)
        await until(lambda: not unsent(ours, "SFO"), 120)
        there = everything(theirs[1:])
        assert len(acked) == 60 and there == everything(ours)
        assert {p: ours[0].decode(v["n"]) for p, v in there.items()} == acked


@pytest.mark.seed("R17", "R19")
async def test_a_lost_site_had_named_the_others_missing_keys_and_is_built_anew_from_it(
    autojump_clock: Any,
) -> None:
    async with two_sites() as (nyc, sfo):
        ours = await nyc.open("AB")
        theirs = await sfo.open("ST")
        await linked(*ours, *theirs)
        for number in range(20):
            await ours[number % 2].put(f"/k/{number}", "n", number)
        await until(lambda: not unsent(ours, "SFO"))
        nyc_sites = [cache.buddies.sites for cache in ours]
        for sites in nyc_sites:  # the link is dead, but not noticed yet
            sites.post = lambda site, message: None  # type: ignore[method-assign]
        await ours[0].put("/k/4", "n", "late")
        await ours[1].put("/new", "n", "late")
        await ours[1].remove_node("/k/5")
        missing = unsent(ours, "SFO")
        assert set(map(str, missing)) == {"/k/4", "/new", "/k/5"}
        await nyc.kill("A")
        await nyc.kill("B")
        theirs[1].buddies.sites.promote()
        await until(lambda: all(t.buddies.sites.status.epoch == 1 for t in theirs))
        for number in range(20):  # all other nodes are here, and belong to this site
            assert await theirs[0].get(f"/k/{number}", "n") == number
        assert await theirs[1].get("/new", "n") is None
        await theirs[1].put("/k/7", "n", "after")

        ours = await nyc.open("CD")
        await linked(*ours, *theirs)
        theirs[0].buddies.sites.bootstrap("NYC")
        await until(lambda: any(t.buddies.sites.status.under_way for t in theirs))
        await until(lambda: not any(t.buddies.sites.status.under_way for t in theirs))
        assert everything(ours) == everything(theirs) and len(everything(ours)) == 20
        assert await ours[0].get("/k/7", "n") == "after"


async def test_listeners_hear_of_another_sites_writes(autojump_clock: Any) -> None:
    async with two_sites() as (nyc, sfo):
        (a,) = await nyc.open("A")
        (s,) = await sfo.open("S")
        await linked(a, s)
        async with s.listen("/k") as changes:
            await a.put("/k", "n", 1)
            await a.put("/k", "n", 2)
            await until(lambda: not unsent([a], "SFO"))
            await a.remove_node("/k")
            heard = []
            with trio.move_on_after(5):
                async for change in changes:
                    assert isinstance(change, NodeChanged)
                    heard.append((change.kind, change.local))
        assert heard[0] == (EventKind.CREATED, False) and heard[-1] == (EventKind.REMOVED, False)


async def test_options_that_sites_exclude_are_refused(autojump_clock: Any) -> None:
    async with two_sites() as (nyc, sfo):
        (a,) = await nyc.open("A")
        with pytest.raises(CacheRefused, match="no other site is called 'LON'"):
            a.buddies.sites.unsent("LON")
        with pytest.raises(CacheRefused, match="no other site is called"):
            a.buddies.sites.bootstrap("NYC")
        sfo.properties.pop("relay.sites")
        config = replace(settings(), stack="relay-udp.xml", cluster_name="SFO")
        with pytest.raises(ConfigError, match="RELAY names no other site"):
            async with open_tree_cache(config, transport=sfo.network, properties=sfo.properties):
                pass
    async with group() as g:
        (alone,) = await g.start("A", settings())
        with pytest.raises(CacheRefused, match="the stack has no RELAY"):
            _ = alone.buddies.sites


@pytest.mark.seed("R19")
async def test_writes_of_the_old_primary_meanwhile_lose_and_are_listed(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_sites() as (nyc, sfo):
        ours = await nyc.open("AB")
        theirs = await sfo.open("ST")
        await linked(*ours, *theirs)
        await ours[0].put("/k", "n", 0)
        await until(lambda: not unsent(ours, "SFO"))
        with monkeypatch.context() as cut:
            cut.setattr(RelayControl, "post", lambda self, site, payload: False)
            theirs[0].buddies.sites.machine.promote(trio.current_time())
            theirs[0].buddies.sites._settled()
            await until(lambda: all(t.buddies.sites.status.epoch == 1 for t in theirs))
            for number in range(10):
                await ours[number % 2].put("/k", "n", f"old {number}")
            await ours[0].put("/only", "n", "old")
            await theirs[1].put("/k", "n", "new")
        await until(lambda: not unsent(ours, "SFO") and not unsent(theirs, "NYC"))
        assert everything(ours) == everything(theirs)
        assert await ours[1].get("/k", "n") == await theirs[0].get("/k", "n") == "new"
        assert await theirs[0].get("/only", "n") == "old"
        told = [value for cache in ours for value in cache.discarded]
        assert [(str(v.path), v.attributes) for v in told] == [("/k", {"n": "old 9"})]
