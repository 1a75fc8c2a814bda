"""A cache with buddies on channels: the full stack of sim.xml, on a network in memory."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
from cache_group import Deaf, counter, group, owners_backed_up_by, put_noting, settings, total
from counters import Counters
from faulty_store import FaultyStore
from split_network import SplitNetwork

from jgroups_py import MemoryNetwork, open_channel
from jgroups_py.buddy.messages import Op
from jgroups_py.buddy.values import BuddyGroup
from jgroups_py.cache import (
    BuddyReplicationConfig,
    CacheSettings,
    EventKind,
    Fqn,
    MsgpackCodec,
    NodeChanged,
    TreeCache,
    open_tree_cache,
)
from jgroups_py.cache.buddy_replication import BuddyReplication
from jgroups_py.cache.node import Node
from jgroups_py.channel.channel import Channel
from jgroups_py.channel.outbox import Outbox
from jgroups_py.errors import (
    BatchConflict,
    CacheClosed,
    CacheRefused,
    Expelled,
    NotOwner,
    ReplicationError,
)
from jgroups_py.tools.commands.cache_shell import execute
from jgroups_py.values.message import Flag


@pytest.mark.seed("B16")
async def test_only_a_cache_with_buddies_has_a_manager(autojump_clock: Any) -> None:
    async with open_tree_cache("local.xml") as cache:
        with pytest.raises(CacheRefused, match="not configured"):
            _ = cache.buddies
    async with group() as g:
        (a,) = await g.start("A", settings())
        assert a.buddies.group.buddies == () and a.buddies.groups == ()


@pytest.mark.seed("B7", "B8", "B12")
async def test_a_dead_owners_node_comes_to_the_first_asker(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c, d, e = await g.start("ABCDE", settings())
        for n in range(10):
            await a.put(f"/a/{n}", "k", n)
        await e.put("/e", "k", "e")
        assert owners_backed_up_by(b) == ["A"]
        await g.kill("A")
        await g.protected()
        survivors = [b, c, d, e]
        assert owners_backed_up_by(b) == ["E"]  # the ring is closed
        assert counter(b, "nodes_adopted") == 10
        assert total(survivors, "buddy_gravitations") == 0  # no node moves before a request
        assert [cache.statistics().nodes for cache in survivors] == [10, 0, 0, 1]
        assert counter(c, "backup_nodes") == 10  # all nodes are protected again

        assert await d.get("/a/3", "k") == 3
        assert [cache.statistics().nodes for cache in survivors] == [9, 0, 1, 1]
        await d.put("/a/3", "k", 33)
        assert await b.get("/a/3", "k", gravitation=False) is None
        assert total(survivors, "buddy_gravitations") == 1
        assert await e.get("/a", "k") is None  # asks for /a with all nodes below
        assert [cache.statistics().nodes for cache in survivors] == [0, 0, 0, 11]
        assert await e.get("/a/3", "k") == 33


@pytest.mark.seed("B5", "B25", "B28", "B29", "B30", "B37")
async def test_each_member_backs_up_exactly_one_other(autojump_clock: Any) -> None:
    async with group() as g:
        caches = await g.start("ABCDE", settings())
        for name, cache in zip("abcde", caches, strict=True):
            await cache.put_node(f"/{name}/data", {"of": name})
        for name, cache, before in zip("abcde", caches, "EABCD", strict=True):
            assert owners_backed_up_by(cache) == [before]
            assert await cache.get_node(f"/{name}/data") == {"of": name}
            owner = g.caches[before]
            (kept,) = cache.buddies.groups
            assert kept == owner.buddies.group and isinstance(kept, BuddyGroup)
            assert kept.buddies == (cache.buddies.machine.me,)
            assert kept.name == f"{before}-{kept.owner}"
            # Apart from its own nodes, and only the owner's own nodes, not its backups.
            assert await cache.children("/") == (name,)
            assert await cache.children("/_buddy_backup_") == (kept.name,)
            lower = before.lower()
            backup = f"/_buddy_backup_/{kept.name}/{lower}/data"
            assert await cache.get_node(backup) == {"of": lower}
            statistics = cache.statistics()
            assert statistics.nodes == 1 and statistics.counters["backup_nodes"] == 1
            assert statistics.bytes == statistics.counters["backup_bytes"]
            with pytest.raises(CacheRefused):
                await cache.put(backup, "of", "x")
            with pytest.raises(CacheRefused):
                await cache.remove_tree("/_buddy_backup_")
            assert not await cache.exists(f"/_buddy_backup_/{kept.name}/nothing")


@pytest.mark.seed("B1", "B2")
@pytest.mark.parametrize(("size", "buddies"), [(5, 1), (12, 1), (5, 2)])
async def test_a_write_goes_to_the_buddies_whatever_the_size(
    size: int, buddies: int, autojump_clock: Any
) -> None:
    async with group() as g:
        caches = await g.start("ABCDEFGHIJKL"[:size], settings(buddies))
        await caches[2].put("/x", "k", 0)
        before = [total(caches, f"buddy_sent_{m}") for m in ("Op", "OpAck", "Claim", "Answer")]
        sent = [cache.buddies._channel.statistics().sent for cache in caches]
        for n in range(10):
            await caches[2].put("/x", "k", n)
        after = [total(caches, f"buddy_sent_{m}") for m in ("Op", "OpAck", "Claim", "Answer")]
        assert [x - y for x, y in zip(after, before, strict=True)] == [
            10 * buddies,
            10 * buddies,
            0,
            0,
        ]
        sent = [c.buddies._channel.statistics().sent - s for c, s in zip(caches, sent, strict=True)]
        assert sent == [0, 0, 10 * buddies, *[10] * buddies, *[0] * (size - 3 - buddies)]
        assert [counter(cache, "backup_nodes") for cache in caches] == [
            0,
            0,
            0,
            *[1] * buddies,
            *[0] * (size - 3 - buddies),
        ]


@pytest.mark.seed("B6")
async def test_synchronous_writes_wait_for_the_buddies_asynchronous_ones_do_not(
    autojump_clock: Any,
) -> None:
    async with group() as g:
        a, b, c = await g.start("ABC", settings(2, sync_repl_timeout=3))
        await a.put("/x", "k", 1)
        acks, c.buddies._incoming = c.buddies._incoming, Deaf()
        begun = trio.current_time()
        with pytest.raises(ReplicationError, match="not acknowledged by all buddies") as caught:
            await a.put("/x", "k", 2)
        assert not caught.value.definite and trio.current_time() - begun == pytest.approx(3)
        assert await a.get("/x", "k") == 2
        begun = trio.current_time()
        await a.put("/x", "k", 3, sync=False)
        assert trio.current_time() == begun
        with pytest.raises(ReplicationError, match="nothing was changed") as caught:
            await b.get("/y", "k")  # C does not answer
        assert caught.value.definite
        c.buddies._incoming = acks


@pytest.mark.seed("B6")
async def test_an_asynchronous_cache_waits_for_nobody(autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings(cache_mode="REPL_ASYNC"))
        await a.put("/x", "k", 1)
        b.buddies._incoming = Deaf()
        begun = trio.current_time()
        for n in range(100):
            await a.put("/x", "k", n)
        assert trio.current_time() == begun and await a.get("/x", "k") == 99


@pytest.mark.seed("B9", "B10")
async def test_taken_nodes_are_gone_at_the_former_owner_and_its_buddies(
    autojump_clock: Any,
) -> None:
    async with group() as g:
        a, b, c, d = await g.start("ABCD", settings())
        await a.put("/s", "k", 1)
        await a.put("/s/below", "k", 2)
        await a.put("/t", "k", 3)
        async with (
            a.listen(kinds=frozenset(EventKind)) as left,
            c.listen(kinds=frozenset(EventKind)) as came,
        ):
            assert await c.get("/s", "k") == 1
            await g.protected()
            for listener, kind in ((left, EventKind.GIVEN), (came, EventKind.TAKEN)):
                heard = [await anext(listener), await anext(listener)]
                assert {(str(i.path), i.kind) for i in heard if isinstance(i, NodeChanged)} == {
                    ("/s", kind),
                    ("/s/below", kind),
                }
        assert await c.get("/s/below", "k") == 2
        assert [cache.statistics().nodes for cache in (a, b, c, d)] == [1, 0, 2, 0]
        assert [counter(x, "backup_nodes") for x in (a, b, c, d)] == [0, 1, 0, 2]
        assert len(a.buddies.machine.own) == 1


@pytest.mark.seed("B15")
async def test_the_same_history_gives_the_same_result_with_and_without_buddies(
    autojump_clock: Any,
) -> None:
    async def history(*caches: TreeCache) -> list[Any]:
        a, b, c = caches
        seen: list[Any] = []
        await a.put_node("/u/1", {"x": 1, "y": 2})
        await b.put("/u/1", "x", 10)
        await c.put_node("/u/2", {"z": [1, 2]})
        seen.append(await c.get_node("/u/1"))
        seen.append(await a.remove("/u/1", "y"))
        seen.append(await b.remove("/u/1", "y"))
        async with b.batch() as batch:
            batch.put("/v", "sum", await batch.get("/u/1", "x") + 1)
            batch.remove_node("/u/2")
        seen.append(await a.get_node("/v"))
        seen.append(await a.exists("/u/2"))
        seen.append(await c.move("/v", "/w/v"))
        seen.append(await b.get("/w/v", "sum"))
        try:
            async with a.batch() as batch:
                value = await batch.get("/w/v", "sum")
                await b.put("/w/v", "sum", 0)
                batch.put("/w/v", "sum", value + 1)
        except BatchConflict:
            seen.append("conflict")
        seen.append(await c.get("/w/v", "sum"))
        seen.append(await c.remove_tree("/"))
        seen.append([await cache.get_node("/u/1") for cache in caches])
        await a.put("/u/1", "again", True)
        seen.append(await b.get_node("/u/1"))
        return seen

    results = []
    off = BuddyReplicationConfig(buddy_replication_enabled=False)
    for config in (
        settings(),
        settings(2),
        CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="test"),
        CacheSettings(
            cache_mode="REPL_SYNC",
            stack="sim.xml",
            cluster_name="test",
            buddy_replication_config=off,
        ),
    ):
        network = MemoryNetwork()
        async with (
            open_tree_cache(config, name="A", transport=network) as a,
            open_tree_cache(config, name="B", transport=network) as b,
            open_tree_cache(config, name="C", transport=network) as c,
        ):
            results.append(await history(a, b, c))
    assert results[0] == results[1] == results[2] == results[3]
    assert results[0][:3] == [{"x": 10, "y": 2}, True, False] and "conflict" in results[0]


@pytest.mark.seed("B23")
async def test_a_call_takes_no_node_that_it_may_not_take(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c = await g.start("ABC", settings(auto=False))
        await a.put("/x", "k", 1)
        assert await b.get("/x", "k") is None
        assert total([a, b, c], "buddy_claims") == 1  # of the put
        for write in (b.put("/x", "k", 2), b.remove_node("/x"), b.remove_tree("/")):
            with pytest.raises(NotOwner, match=r"owned by another member.*: /x") as caught:
                await write
            assert caught.value.definite
        assert await a.get("/x", "k") == 1
        assert await b.get("/x", "k", gravitation=True) == 1
        assert await a.get("/x", "k") is None
        await b.put("/x", "k", 2)
        async with a.batch(gravitation=True) as batch:  # the reads of a batch may take nodes, too
            batch.put("/x", "k", await batch.get("/x", "k") + 1)
        assert await a.get("/x", "k") == 3
        assert await b.update_node("/x", {"k": 4}, gravitation=True) is True
        assert await b.update_node("/nowhere", {"k": 4}, gravitation=True) is False
        await b.put("/new", "k", 1, new=True)
        claims = total([a, b, c], "buddy_claims")
        await b.put("/newer", "k", 1, new=True)
        assert total([a, b, c], "buddy_claims") == claims


@pytest.mark.seed("B14", "B39")
async def test_a_joiner_gets_no_state_but_its_part_of_the_ring(autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings())
        for n in range(250):
            await a.put(f"/n/{n}", "k", n)
        (c,) = await g.start("C", settings())
        assert c.statistics().nodes == counter(c, "backup_nodes") == 0
        assert counter(b, "backup_nodes") == 250
        assert a.buddies._channel._giver._provider is None  # no member could give a state
        await g.kill("B")  # C is A's buddy now, and gets all of A's nodes in the background
        await g.protected()
        assert counter(c, "backup_nodes") == 250 and c.statistics().nodes == 0


async def test_a_member_that_leaves_hands_everything_over(autojump_clock: Any) -> None:
    async with group() as g:
        a, b, c = await g.start("ABC", settings())
        for n in range(20):
            await a.put(f"/n/{n}", "k", n)
        begun = trio.current_time()
        await g.close("A")
        assert trio.current_time() - begun < 5
        await g.protected()
        assert total([b, c], "nodes_adopted") == 0
        assert b.statistics().nodes + c.statistics().nodes == 20
        assert await c.get("/n/7", "k") == 7
        with pytest.raises(CacheClosed):
            await a.put("/x", "k", 1)
        await g.close("B")
        await g.close("C")


async def test_bytes_that_are_no_messages_are_counted_and_dropped(autojump_clock: Any) -> None:
    from jgroups_py.buddy.codec import encode
    from jgroups_py.buddy.values import OwnedNode as Entry
    from jgroups_py.buddy.values import Stamp
    from jgroups_py.values.address import UUID

    async with group() as g:
        a, b = await g.start("AB", settings())
        await a.put("/x", "k", 1)
        async with open_channel(
            "sim.xml", cluster="test", name="X", transport=g.network
        ) as stranger:
            tag = (stranger.view.id, stranger.view.view_id.creator)
            stamp = Stamp(0, (1, 0), 1, UUID(bytes(16)))
            rubbish = [b"", b"\xff" * 50, b"\xb1", b"\xb1\x92\xc0"]
            for path, value in (((), {}), (("_buddy_backup_", "x"), {}), (("a",), {"k": 1})):
                op = Op(1, ((path, Entry(value, (1, 0), stamp)),))
                rubbish.append(b"\xb1" + encode(tag, op))
            for payload in rubbish:
                await stranger.send(payload)
                await stranger.send(payload, to=a.buddies.machine.me)
            await trio.sleep(1)
        with trio.fail_after(60):
            while not a.buddies.protected:  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert counter(a, "buddy_garbage") == 2 * len(rubbish)
        assert counter(b, "buddy_garbage") == len(rubbish)
        await a.put("/x", "k", 2)
        assert await b.get("/x", "k") == 2


async def test_a_call_that_is_cancelled_before_it_owned_anything_did_nothing(
    autojump_clock: Any,
) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings())
        await a.put("/x", "k", 1)
        heard, a.buddies._incoming = a.buddies._incoming, Deaf()
        with trio.move_on_after(1):
            await b.put("/x", "k", 2)
        with trio.move_on_after(1):
            await b.put("/y", "k", 2, gravitation=False)
        a.buddies._incoming = heard
        assert not b.buddies.machine.calls.open and not b._replication._tickets  # type: ignore[attr-defined]
        assert b.statistics().nodes == 0


@pytest.mark.seed("B3", "B13")
@pytest.mark.parametrize("buddies", [1, 3])
async def test_memory_holds_own_nodes_and_as_much_for_each_buddy(
    buddies: int, autojump_clock: Any
) -> None:
    """At rest all members together hold exactly (b + 1) X; with full replication they would hold n X."""
    async with group() as g:
        caches = await g.start("ABCDE", settings(buddies))
        replicated = CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="full")
        full = await g.start("VWXYZ", replicated)
        for n in range(50):
            for kind in (caches, full):
                await kind[n % 5].put(f"/n/{n}", "key", bytes(10 * n))
        owned = sum(cache.statistics().bytes for cache in caches)
        assert owned == sum(
            len("key") + len(MsgpackCodec().encode(bytes(10 * n))) for n in range(50)
        )
        assert owned + total(caches, "backup_bytes") == (buddies + 1) * owned
        assert sum(cache.statistics().bytes for cache in full) == 5 * owned
        await g.kill("A")
        await g.protected()
        caches = caches[1:]
        assert sum(cache.statistics().bytes for cache in caches) == owned
        assert total(caches, "backup_bytes") == buddies * owned
        assert await caches[3].get("/n/5", "key") == bytes(50)


@pytest.mark.seed("B11")
async def test_a_dead_owners_data_spreads_as_it_is_asked_for(autojump_clock: Any) -> None:
    """The members' shares of 200 keys are those of their requests, 1 : 1 : 2, within 25 %, with a fixed seed."""
    chance = random.Random(11)
    async with group() as g:
        a, *rest = await g.start("ABCD", settings())
        for n in range(200):
            await a.put(f"/n/{n}", "k", n, new=True)
        await g.kill("A")
        await g.protected()
        for n in range(200):
            (asked,) = chance.choices(rest, (1, 1, 2))
            assert await asked.get(f"/n/{n}", "k") == n
        for cache, share in zip(rest, (50, 50, 100), strict=True):
            assert cache.statistics().nodes == pytest.approx(share, rel=0.25)


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(0, 1), *(pytest.param(n, 4, marks=pytest.mark.slow) for n in range(1, 10))],
)
async def test_no_acknowledged_increment_is_lost(
    seed: int, rounds: int, autojump_clock: Any
) -> None:
    """Counters that move between members, one of which crashes or leaves between protected moments."""
    chance = random.Random(seed)
    counters = Counters(4, rate=10)
    async with group() as g:
        await g.start("ABCD", settings())
        for round in range(rounds):
            async with trio.open_nursery() as writers:
                counters.start(writers, g, chance)
                await trio.sleep(1 + chance.random())
                victim = chance.choice(sorted(g.caches))
                if chance.random() < 0.7:
                    g.work[victim].cancel()
                    await g.kill(victim)
                else:
                    await g.close(victim)
                await trio.sleep(chance.random())
                counters.stop = True
            await g.protected()
            await g.start("EFGH"[round], settings())
        reader = g.caches[sorted(g.caches)[0]]
        await counters.check(reader)
        assert min(counters.done) > 5
        owned = [cache.statistics().nodes for cache in g.caches.values()]
        assert sum(owned) == 4
        await g.protected()
        assert total(list(g.caches.values()), "backup_nodes") == 4


@pytest.mark.seed("B22")
async def test_the_store_is_asked_before_the_others(autojump_clock: Any) -> None:
    async with group() as g:
        store = g.stores["B"] = FaultyStore()
        store.rows[Fqn.parse("/old")] = Node({"k": MsgpackCodec().encode("old")})
        a, b = await g.start("AB", settings())
        await a.put_node("/x", {"k": 1})
        await a.put_node("/x/below", {"k": 2})
        store.calls.clear()
        claims = counter(b, "buddy_claims")
        assert await b.get("/old", "k") == "old"
        assert counter(b, "buddy_claims") == claims and b.statistics().nodes == 0  # only a value
        assert await b.get("/x", "k") == 1
        assert counter(b, "buddy_claims") == claims + 1
        assert store.calls == ["load", "load"]
        assert b.statistics().nodes == 2  # with all sub-nodes
        await b.put("/old", "more", 1)  # no member has it: it is made from the store's row
        assert counter(a, "backup_nodes") == 3
        await g.kill("B")
        await g.protected()
        assert await a.get_node("/old") == {"k": "old", "more": 1}


@pytest.mark.seed("B40")
@pytest.mark.parametrize("remove", [True, False])
async def test_the_former_owners_store(remove: bool, autojump_clock: Any) -> None:
    """The former owner's row is deleted, or stays if a shared store must keep the data; the new owner's store has
    the node."""
    async with group() as g:
        a_store, b_store = g.stores["A"], g.stores["B"] = FaultyStore(), FaultyStore()
        a, b = await g.start("AB", settings(remove_on_find=remove))
        await a.put("/x", "k", 1)
        await a.put("/stays", "k", 1)
        assert await b.get("/x", "k") == 1
        await trio.sleep(10)  # the evictor's task
        paths = {str(path) for path in a_store.rows}
        assert paths == ({"/stays"} if remove else {"/stays", "/x"})
        assert [str(path) for path in b_store.rows] == ["/x"]
        await a.put("/x", "k", 2)
        await trio.sleep(10)
        assert [str(path) for path in b_store.rows] == ([] if remove else ["/x"])
        assert a_store.rows[Fqn.parse("/x")].attributes["k"] == MsgpackCodec().encode(2)
        await g.close("A")
        assert await b.get("/x", "k") == 2


async def test_writes_that_are_done_but_not_acknowledged_are_waited_for(
    autojump_clock: Any,
) -> None:
    """A repeated removal must not be acknowledged before the first one is: the node might come back."""
    async with group() as g:
        a, b = await g.start("AB", settings(sync_repl_timeout=3))
        await a.put("/x", "k", 1)
        await a.put("/t/x", "k", 1)
        b.buddies.machine._handlers[Op] = lambda *_: None  # a store that acknowledges nothing
        assert await a.remove_node("/x", sync=False) is True
        assert await a.remove_tree("/t", sync=False) == 1
        for again in (a.remove_node("/x"), a.remove_tree("/t")):
            with pytest.raises(ReplicationError, match="not acknowledged"):
                await again


async def test_the_end_of_the_channel_ends_calls(autojump_clock: Any) -> None:
    async with group() as g:
        a, b = await g.start("AB", settings())
        await a.put("/x", "k", 1)
        b.buddies._incoming = Deaf()
        errors: dict[str, ReplicationError] = {}

        async def put(path: str) -> None:
            try:
                await a.put(path, "k", 2)
            except ReplicationError as error:
                errors[path] = error

        async with trio.open_nursery() as nursery:
            nursery.start_soon(put, "/x")
            nursery.start_soon(put, "/new")
            await trio.sleep(1)
            a.buddies.ended(Expelled("the others went on without"))
        assert not errors["/x"].definite and "may have happened" in str(errors["/x"])
        assert errors["/new"].definite and "nothing was changed" in str(errors["/new"])


async def test_calls_of_tasks_outside_end_when_the_block_of_a_cache_is_cancelled(
    autojump_clock: Any,
) -> None:
    errors: list[Exception] = []
    async with trio.open_nursery() as nursery, group() as g:
        a, b = await g.start("AB", settings())
        await a.put("/x", "k", 0)
        b.buddies._incoming = Deaf()
        nursery.start_soon(put_noting, a, errors)
        await trio.sleep(0.1)
        nursery.start_soon(put_noting, a, errors)  # it waits for the lock of the first one
        await trio.sleep(0.1)
        with trio.fail_after(1):
            await g.kill("A")
    first, second = errors
    assert isinstance(first, ReplicationError) and not first.definite
    assert isinstance(second, CacheClosed)


async def test_what_interrupts_the_end_of_a_cache_comes_out_as_it_is(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    """As a second Ctrl-C does while the cache waits for calls of other tasks."""

    class Stop(BaseException):
        pass

    async def interrupt(cache: TreeCache) -> None:
        stops, end_calls = [Stop()], cache.end_calls

        async def interrupted() -> None:
            if stops:
                raise stops.pop()
            await end_calls()

        monkeypatch.setattr(cache, "end_calls", interrupted)

    with pytest.raises(Stop):
        async with open_tree_cache(settings(), name="A", transport=MemoryNetwork()) as cache:
            await interrupt(cache)


async def test_the_function_of_a_call_that_has_ended_with_its_block_does_not_run(
    autojump_clock: Any,
) -> None:
    """The node may come in the step in which the block is cancelled."""
    errors: list[ReplicationError] = []
    ran: list[Any] = []

    async def update(cache: TreeCache) -> None:
        try:
            await cache.update("/x", "k", ran.append)
        except ReplicationError as error:
            errors.append(error)

    async with trio.open_nursery() as nursery, group() as g:
        a, b = await g.start("AB", settings())
        await b.put("/x", "k", "first")
        b.buddies._draining = True  # the claim waits in its queue
        nursery.start_soon(update, a)
        await trio.sleep(0.1)
        assert isinstance(a._replication, BuddyReplication)
        a._replication.give_up()
        b.buddies._drain()
        await trio.sleep(0.1)
        (error,) = errors
        assert error.definite and "nothing was changed" in str(error)
        assert ran == [] and ("x",) in a.buddies.entries, "the node has come"
        assert await b.get("/x", "k") == "first"


async def test_a_protocol_that_raises_at_a_put_ends_the_member(autojump_clock: Any) -> None:
    errors: list[Exception] = []

    async def put(cache: TreeCache) -> None:
        with trio.move_on_after(300):
            try:
                await cache.put("/x", "k", 1)
            except Exception as error:
                errors.append(error)

    async with trio.open_nursery() as nursery:
        with pytest.RaisesGroup(ZeroDivisionError, flatten_subgroups=True):
            async with group() as g:
                a, _ = await g.start("AB", settings())
                await a.put("/x", "k", 0)
                began = trio.current_time()
                a.buddies.channel.stack._send = lambda batch: 1 / 0
                nursery.start_soon(put, a)
                await trio.sleep(60)
        assert trio.current_time() - began < 0.1  # before the next tick of the driver
    (error,) = errors
    assert isinstance(error, ReplicationError) and not error.definite


async def test_buddy_traffic_is_not_relayed_to_other_sites(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = []
    send, alone = Channel.send_nowait, Outbox.alone

    def spy(self: Channel, *arguments: Any, **options: Any) -> None:
        flags.append(options["flags"])
        send(self, *arguments, **options)

    def spy_alone(self: Outbox, payload: bytes, size: int, to: Any, *more: Any) -> Any:
        flags.append(more[1])
        return alone(self, payload, size, to, *more)

    monkeypatch.setattr(Channel, "send_nowait", spy)
    monkeypatch.setattr(Outbox, "alone", spy_alone)
    async with group() as g:
        a, b = await g.start("AB", settings())
        await a.put("/x", "k", 1)
        assert await b.get("/x", "k") == 1
    assert len(flags) > 10 and all(flag & Flag.NO_RELAY for flag in flags)


async def test_after_a_split_each_path_has_one_owner_again(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Both sides write; the last value of the longer history stays, and the values that it lacks are reported."""
    async with group() as g:
        g.network = SplitNetwork()
        a, b, c, d = caches = await g.start("ABCD", settings())
        for n in range(4):
            await caches[n].put(f"/{n}", "k", "before")
        await g.cut("C", "D")
        for n in range(4):
            await a.put(f"/{n}", "k", "a")
            await d.put(f"/{n}", "k", "d")
        await d.put("/0", "k", "d again")
        await a.put("/only-a", "k", 1)
        await d.put("/only-d", "k", 1)
        await g.cut()
        assert sum(cache.statistics().nodes for cache in caches) == 6
        assert total(caches, "backup_nodes") == 6
        seen = [await b.get(f"/{n}", "k") for n in range(4)]
        assert set(seen) <= {"a", "d", "d again"}
        assert await b.get("/only-a", "k") == await c.get("/only-d", "k") == 1
        assert "the merge discarded a value: /1 of" in caplog.text
        listed = [value for cache in caches for value in cache.discarded]
        assert {str(value.path) for value in listed} == {"/0", "/1", "/2", "/3"}
        lost = {str(value.path): value.attributes for value in listed if value.attributes}
        for n, kept in enumerate(seen):  # each side's last value is kept or listed, with its owner
            attributes = lost[f"/{n}"]
            assert attributes is not None and {attributes["k"], kept} in (
                {"a", "d"},
                {"a", "d again"},
            )
        assert counter(a, "discarded") == len(a.discarded)
        assert (await execute(a, ["discarded"])).lines
