"""A reader goes on at another member: one that has the reader's place. It gets an error when none has."""

from __future__ import annotations

from contextlib import suppress

import pytest
from cache_group import QUICK_MERGES, group
from export_kit import TOKEN, changes_of, client_of, in_thread
from split_network import SplitNetwork

from jgroups_py.cache import CacheSettings, TreeCache
from jgroups_py.export import (
    Behind,
    Diverged,
    ExportClient,
    ExportLimits,
    NoMember,
    Offset,
    Trimmed,
    UnknownMap,
    connect_at,
    open_export,
)

pytestmark = pytest.mark.sockets

ASYNC = CacheSettings(cache_mode="REPL_ASYNC", stack=QUICK_MERGES, cluster_name="test")
QUICK = ExportLimits(behind_wait=0.3)
NOBODY = ("127.0.0.1", 1)


async def together(*caches: TreeCache) -> None:
    for cache in caches:
        await cache.wait_members(len(caches), timeout=90)


async def test_the_first_member_that_has_the_place_is_used() -> None:
    async with group() as g:
        a, b = await g.start("AB", ASYNC)
        await together(a, b)
        for cache in (a, b):
            await cache.put_node("/settled", {"v": 1}, sync=True)
        async with open_export(b, token=TOKEN) as port_b, client_of(port_b) as client_b:
            begin = (await in_thread(client_b.find_offset, "cache")).offset
            await a.put("/n/1", "v", 1, sync=True)
            (c,) = await g.start("C", ASYNC)
            await together(a, b, c)
            async with open_export(c, token=TOKEN, limits=QUICK) as port_c:
                end = (await in_thread(client_b.find_offset, "cache")).offset
                members = [NOBODY, port_c.address, port_b.address]

                def there(members: list[tuple[str, int]], *places: Offset) -> str:
                    with connect_at(members, TOKEN, places) as client:
                        return client.member

                assert await in_thread(there, members, end) == "C"
                assert await in_thread(there, members, begin, end) == "B", "C came later"
                with pytest.raises(Trimmed, match=r":1: .*refused; .*take a snapshot"):
                    await in_thread(there, members[:2], begin)
                with pytest.raises(NoMember, match="no member can be reached"):
                    await in_thread(there, members[:1], begin)
                (by_a,) = (o for o, n in end.origins.items() if n != begin.origins[o])
                soon = Offset("x", 0, {**end.origins, by_a: end.origins[by_a] + 1})
                with pytest.raises(Behind, match=r"within 0.3 s \(behind_wait\): it is behind"):
                    await in_thread(there, members[:2], soon)
                with pytest.raises(UnknownMap):
                    await in_thread(lambda: connect_at(members, TOKEN, [end], map="other"))


async def test_a_change_that_nobody_else_got_is_said_to_be_lost() -> None:
    """The coordinator reports ordered changes to a reader before the others have them, and leaves. Its silence is not noticed
    before it leaves."""
    async with group() as g:
        g.network = network = SplitNetwork()
        a, b, c = await g.start("ABC", ASYNC)
        await together(a, b, c)
        first = next(cache for cache in (a, b, c) if cache.name == a.members[0])
        left = [cache for cache in (a, b, c) if cache is not first]
        await first.put("/before", "v", 1, sync=True)
        async with open_export(left[0], token=TOKEN, limits=QUICK) as port:
            async with open_export(first, token=TOKEN) as told, client_of(told) as client:
                begin = (await in_thread(client.find_offset, "cache")).offset
                channel = first._replication.channel
                assert channel is not None
                network.side = {id(channel.driver)}
                await first.put("/lost", "v", 1, sync=False)
                place = (await in_thread(client.find_offset, "cache")).offset
                rows = await in_thread(changes_of, client, begin, place)
                assert [row[3] for row in rows] == ["/lost"]

            def ask() -> None:
                with ExportClient(port.address, TOKEN) as client:
                    client.find_offset("cache", place)

            def ask_until_it_is_not_behind() -> None:
                for _ in range(20):
                    with suppress(Behind):
                        ask()

            with pytest.raises(Behind, match="it is behind; try again"):
                await in_thread(ask)
            await g.kill(first.name)
            await together(*left)
            with pytest.raises(
                Diverged, match=r"which has left.* it is lost.*take a snapshot"
            ) as said:
                await in_thread(ask_until_it_is_not_behind)
            assert type(said.value) is Diverged
            assert not await left[0].exists("/lost")


async def test_a_reader_outlives_members_that_nobody_knows_any_more() -> None:
    """All members are replaced, one after the other; the newest member has the reader's place."""
    async with group() as g:
        stays, before = await g.start("ZM", ASYNC)
        told: list[str] = []
        place: Offset | None = None
        for number in range(8):
            (now,) = await g.start(str(number), ASYNC)
            await together(stays, before, now)
            async with open_export(now, token=TOKEN) as port, client_of(port) as client:
                start = place or (await in_thread(client.find_offset, "cache")).offset
                await before.put(f"/by/{before.name}", "v", 1, sync=True)
                await g.close(before.name)
                await together(stays, now)
                place = (await in_thread(client.find_offset, "cache", start)).offset
                told += [row[3] for row in await in_thread(changes_of, client, start, place)]
            before = now
        assert told == [f"/by/{name}" for name in "M0123456"]
