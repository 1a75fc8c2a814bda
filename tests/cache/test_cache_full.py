"""Full replication on channels: the full stack of sim.xml, on a network in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import trio
from cache_group import group, put_noting

from jgroups_py import UUID, Address, MemoryNetwork, MergeView, View, ViewId
from jgroups_py.cache import (
    CacheSettings,
    EvictionConfig,
    Fqn,
    LoaderConfig,
    NodeChanged,
    RegionConfig,
    StoreConfig,
    TreeCache,
    open_tree_cache,
)
from jgroups_py.cache.changes import NodeChange, Put
from jgroups_py.cache.full_replication import FullReplication
from jgroups_py.cache.node import Node
from jgroups_py.cache.total_order import Ordered
from jgroups_py.cache.wire import body_bytes, said_bytes
from jgroups_py.errors import (
    BatchConflict,
    CacheClosed,
    CacheRefused,
    ConfigError,
    ReplicationError,
    StateTransferError,
)

SYNC = CacheSettings(cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="test")
ASYNC = CacheSettings(cache_mode="REPL_ASYNC", stack="sim.xml", cluster_name="test")


@pytest.fixture
def opened() -> Any:
    return partial(open_tree_cache, transport=MemoryNetwork())


async def whole(cache: TreeCache, path: str = "/") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in await cache.children(path):
        child = f"{path.rstrip('/')}/{name}"
        if await cache.exists(child):
            found[child] = await cache.get_node(child)
        found.update(await whole(cache, child))
    return found


async def test_a_write_is_everywhere_when_it_returns(opened: Any, autojump_clock: Any) -> None:
    async with opened(SYNC, name="A") as a, opened(SYNC, name="B") as b:
        await a.put("/a", "x", 1)
        assert await b.get("/a", "x") == 1
        await b.put("/a", "y", 2)
        assert await a.get_node("/a") == {"x": 1, "y": 2}
        async with a.batch() as batch:
            batch.put("/b/c", "x", await batch.get("/a", "x") + 10)
            batch.remove("/a", "x")
        assert await whole(b) == {"/a": {"y": 2}, "/b/c": {"x": 11}}
        assert await b.move("/b", "/d") == 1 and await a.remove_tree("/a") == 1
        assert await a.remove_node("/a") is False
        assert await whole(a) == await whole(b) == {"/d/c": {"x": 11}}
        with pytest.raises(CacheRefused, match="would set this member's tree apart"):
            await a.put("/mine", "x", 1, local_only=True)
        assert not await a.exists("/mine")


async def test_a_joiner_begins_with_the_present_tree(opened: Any, autojump_clock: Any) -> None:
    async with opened(SYNC, name="A") as a:
        for n in range(50):
            await a.put(f"/n/{n}", "x", bytes(1000))
        async with opened(SYNC, name="B") as b:
            assert len(await whole(b)) == 50
            async with opened(SYNC, name="C") as c:
                await b.put("/n/0", "x", 0)
                assert await c.get("/n/0", "x") == 0
            await a.put("/n/1", "x", 1)
            assert await b.get("/n/1", "x") == 1


async def test_writers_everywhere_and_a_member_that_joins_and_leaves_agree(
    opened: Any, autojump_clock: Any
) -> None:
    """Counters by batch: every increment that was acknowledged is in the sum, exactly once."""
    done = 0

    async def count(cache: TreeCache, seed: int) -> None:
        nonlocal done
        rng = random.Random(seed)
        for _ in range(20):
            path = f"/counter/{rng.randrange(3)}"
            while True:
                try:
                    async with cache.batch() as batch:
                        batch.put(path, "n", await batch.get(path, "n", 0) + 1)
                    break
                except BatchConflict:
                    await trio.sleep(rng.random() / 10)
            done += 1

    async def come_and_go() -> None:
        for n in range(3):
            async with opened(SYNC, name=f"G{n}") as guest:
                await count(guest, n)

    async with opened(SYNC, name="A") as a, opened(SYNC, name="B") as b:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(come_and_go)
            nursery.start_soon(count, a, 10)
            nursery.start_soon(count, b, 11)
        assert done == 100
        assert await whole(a) == await whole(b)
        assert sum(node["n"] for node in (await whole(a)).values()) == 100
        refused = a.statistics().counters["replication_refused"]
        assert refused == b.statistics().counters["replication_refused"] > 0


async def test_many_nodes_at_once_are_one_batch_everywhere(
    opened: Any, autojump_clock: Any
) -> None:
    """The batch takes its place among the batches of calls: a call that had read a node before it is refused."""

    def rows(cache: TreeCache, **nodes: int | None) -> list[tuple[Fqn, Node | None]]:
        return [
            (Fqn((name,)), None if value is None else Node(cache.encode_all({"x": value})))
            for name, value in nodes.items()
        ]

    async with opened(SYNC, name="A") as a, opened(SYNC, name="B") as b:
        for cache in (a, b):
            await cache.put_node("/old", {"x": 1, "y": 2})
            told: list[int] = []
            cache.tree.observers.append(lambda changes, _, told=told: told.append(len(changes)))
            more = rows(cache, old=3, new=4, gone=5) + rows(cache, gone=None, never=None)
            assert await cache.put_at_once(more, replace=False)
            assert told == [2]
            assert await whole(a) == await whole(b) == {"/old": {"x": 3, "y": 2}, "/new": {"x": 4}}
            assert await cache.put_at_once(rows(cache, old=6, new=None), replace=True)
            assert await whole(a) == await whole(b) == {"/old": {"x": 6}}

        async def overtaken() -> None:
            async with a.batch() as batch:
                batch.put("/old", "x", await batch.get("/old", "x") + 1)
                assert await a.put_at_once(rows(a, old=10), replace=False)

        with pytest.raises(BatchConflict):
            await overtaken()
        for wrong in ((Fqn(), Node({})), (Fqn(("a",)), Node({"": b"1"}))):
            with pytest.raises(CacheRefused):
                await a.put_at_once([*rows(a, old=0), wrong], replace=False)
        assert await whole(a) == await whole(b) == {"/old": {"x": 10}}

        # A large batch: the origin knows its content, and the other member reads it.
        large = rows(a, **{f"n{n}": n for n in range(3000)})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(a.put_at_once, large, replace=False))
            nursery.start_soon(partial(b.put_at_once, rows(b, n7=-1), replace=False))
        assert await whole(a) == await whole(b) and len(await whole(a)) == 3001
    with pytest.raises(CacheClosed):
        await a.put_at_once(rows(a, old=0), replace=False)


async def test_the_next_member_orders_when_the_coordinator_leaves(
    opened: Any, autojump_clock: Any
) -> None:
    acknowledged = []
    gone = trio.Event()

    async def coordinator(task_status: trio.TaskStatus[None]) -> None:
        async with opened(SYNC, name="A"):
            task_status.started()
            await trio.sleep(0.5)
        gone.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(coordinator)
        async with opened(SYNC, name="B") as b, opened(SYNC, name="C") as c:

            async def write(cache: TreeCache, name: str) -> None:
                for n in range(100):
                    await cache.put(f"/{name}/{n}", "x", n)
                    acknowledged.append(f"/{name}/{n}")
                    await trio.sleep(0.01)

            async with trio.open_nursery() as writers:
                writers.start_soon(write, b, "b")
                writers.start_soon(write, c, "c")
            assert gone.is_set()
            assert await whole(b) == await whole(c)
            assert sorted(acknowledged) == sorted(await whole(b))
            assert len(acknowledged) == 200


async def test_a_member_that_is_cancelled_is_not_waited_for(
    opened: Any, autojump_clock: Any
) -> None:
    async with opened(SYNC, name="A") as a:
        scope = trio.CancelScope()

        async def victim(task_status: trio.TaskStatus[None]) -> None:
            with scope:
                async with opened(SYNC, name="B") as b:
                    task_status.started()
                    await trio.sleep_forever()
                    await b.get("/", "x")

        async with trio.open_nursery() as nursery:
            await nursery.start(victim)
            await a.put("/a", "x", 1)
            scope.cancel()
            await a.put("/a", "x", 2)
            assert await a.get("/a", "x") == 2


async def test_asynchronous_writes_return_when_they_are_ordered(
    opened: Any, autojump_clock: Any
) -> None:
    async with opened(ASYNC, name="A") as a, opened(ASYNC, name="B") as b:
        for n in range(20):
            await b.put("/a", f"k{n}", n)
            assert await b.get("/a", f"k{n}") == n
        await a.put("/b", "x", 1, sync=True)
        assert await b.get("/b", "x") == 1
        await trio.sleep(1)
        assert await whole(a) == await whole(b)


async def test_listeners_hear_of_others_changes(opened: Any, autojump_clock: Any) -> None:
    async with opened(SYNC, name="A") as a, opened(SYNC, name="B") as b, b.listen() as changes:
        await a.put("/a", "x", 1)
        await b.put("/b", "x", 1)
        heard = [await anext(changes) for _ in range(2)]
    assert [(str(c.path), c.local) for c in heard if isinstance(c, NodeChanged)] == [
        ("/a", False),
        ("/b", True),
    ]


async def test_a_write_that_is_not_confirmed_in_time_may_have_happened(
    opened: Any, autojump_clock: Any
) -> None:
    quick = CacheSettings(
        cache_mode="REPL_SYNC", stack="sim.xml", cluster_name="t", sync_repl_timeout=2
    )
    async with opened(quick, name="A") as a, opened(quick, name="B") as b:
        await a.put("/a", "x", 1)
        b._replication._order.receive = lambda *_: None  # B reads, and does nothing with it
        with pytest.raises(ReplicationError, match="applied here, not everywhere within 2 s") as e:
            await a.put("/a", "x", 2)
        assert not e.value.definite
        with pytest.raises(ReplicationError, match="not ordered within 2 s"):
            await b.put("/a", "x", 3)


async def test_rubbish_from_outside_is_counted_and_dropped(
    opened: Any, autojump_clock: Any
) -> None:
    from jgroups_py import open_channel
    from jgroups_py.cache.total_order import Propose
    from jgroups_py.cache.wire import said_bytes

    network = MemoryNetwork()
    async with open_tree_cache(SYNC, name="A", transport=network) as a:
        async with open_channel("sim.xml", cluster="test", name="X", transport=network) as stranger:
            for payload in (b"", b"\xff" * 50, said_bytes(Propose(stranger.view.id, 1, b"\x01"))):
                await stranger.send(payload, to=stranger.view.coordinator)
            await trio.sleep(1)
        await trio.sleep(1)
        await a.put("/a", "x", 1)
        assert a.statistics().counters["replication_garbage"] == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (CacheSettings(cache_mode="REPL_SYNC"), "needs ClusterName, or cluster="),
        (
            CacheSettings(
                cache_mode="REPL_SYNC",
                eviction_policy_config=EvictionConfig(
                    regions=(RegionConfig(name="/", max_nodes=5),)
                ),
            ),
            "EvictionPolicyConfig: REPL_SYNC to everybody keeps everything in memory",
        ),
        (
            CacheSettings(
                cache_mode="REPL_ASYNC",
                cache_loader_configuration=LoaderConfig(cacheloader=StoreConfig()),
            ),
            "CacheLoaderConfiguration: REPL_ASYNC to everybody keeps everything in memory",
        ),
    ],
)
async def test_options_that_exclude_each_other_are_refused(
    settings: CacheSettings, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        async with open_tree_cache(settings):
            pass


class Winner:
    """A channel with no more than a merge needs: the state of the winning side."""

    def __init__(self, state: bytes, fail: int = 0) -> None:
        self.state = state
        self.fail = fail
        self.asked: list[Address] = []

    async def fetch_state(self, provider: Address, *, timeout: float) -> AsyncIterator[bytes]:
        self.asked.append(provider)
        if len(self.asked) <= self.fail:
            raise StateTransferError("it left", str(provider))
        yield self.state[:10]
        yield self.state[10:]


def member(address: UUID, nodes: dict[str, bytes]) -> tuple[FullReplication, TreeCache]:
    full = FullReplication(sync=True, timeout=1)
    cache = TreeCache(replication=full)
    full.connect(address)
    changes = [NodeChange(Fqn.parse(p), None, Node({"x": v})) for p, v in nodes.items()]
    full.tree.apply(tuple(changes), local=True)
    return full, cache


async def test_a_merge_takes_the_larger_side_and_lists_discarded_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    a, b, c = (UUID(bytes(15) + bytes([n])) for n in range(3))
    winner, _ = member(a, {"/both": b"\x01", "/there": b"\x02"})
    sides = (View(ViewId(c, 4), (c,)), View(ViewId(a, 7), (a, b)))
    merged = MergeView(ViewId(c, 8), (c, a, b), sides)
    state = b"".join([chunk async for chunk in winner.state()])

    loser, cache = member(c, {"/both": b"\x05", "/here": b"\x03", "/there": b"\x02"})
    channel: Any = Winner(state, fail=1)
    await loser._install(channel, merged)
    assert channel.asked == [a, b]
    assert await whole(cache) == {"/both": {"x": 1}, "/there": {"x": 2}}
    counters = cache.statistics().counters
    assert counters["replication_merged"] == 1
    assert counters["replication_discarded_at_merge"] == counters["discarded"] == 2
    assert sorted((str(d.path), d.attributes) for d in cache.discarded) == [
        ("/both", {"x": 5}),
        ("/here", {"x": 3}),
    ]
    assert "2 nodes of this side were discarded: /" in caplog.text

    channel = Winner(state)
    await winner._install(channel, merged)
    assert channel.asked == []
    with pytest.raises(StateTransferError):
        await member(c, {})[0]._install(Winner(state, fail=9), merged)  # type: ignore[arg-type]
    with pytest.raises(StateTransferError, match="not the state of a cache"):
        await member(c, {})[0]._install(Winner(b"x" * 20), merged)  # type: ignore[arg-type]


async def test_after_a_merge_orders_of_the_losing_sides_coordinator_are_void() -> None:
    """``c`` coordinates the merged group. It multicast a batch before it installed that view, and then adopted the
    other side's tree; the batch reaches ``a`` afterwards."""
    a, b, c = (UUID(bytes(15) + bytes([n])) for n in range(3))
    sides = (View(ViewId(c, 6), (c,)), View(ViewId(a, 7), (a, b)))
    merged = MergeView(ViewId(c, 8), (c, a, b), sides)
    winner, cache = member(a, {"/both": b"\x01"})
    channel: Any = None
    await winner._install(channel, View(ViewId(a, 7), (a, b)))
    await winner._install(channel, merged)
    for view, value in ((6, b"\x05"), (8, b"\x06")):
        body = body_bytes([Put(Fqn.parse(f"/{view}"), {"x": value})])
        winner._receive(c, said_bytes(Ordered(view, bytes(c), view, body)))
        winner._after()
    assert await whole(cache) == {"/8": {"x": 6}, "/both": {"x": 1}}


async def test_a_merging_part_without_its_own_view_takes_the_tree_of_its_first_member() -> None:
    """``d`` coordinated the view and was cut off. Its last batch reached ``a`` only, and no view of ``a`` and ``b`` came
    before the merge: they never agreed on the messages of ``d``."""
    a, b, d = (UUID(bytes(15) + bytes([n])) for n in range(3))
    before = View(ViewId(d, 1), (d, a, b))
    sides = (View(ViewId(d, 2), (d,)), View(ViewId(d, 1), (a, b)))
    merged = MergeView(ViewId(d, 3), (d, a, b), sides)
    first, _ = member(a, {"/last": b"\x01"})
    second, cache = member(b, {})
    state = b"".join([chunk async for chunk in first.state()])
    channel: Any = Winner(state)
    for one in (first, second):
        await one._install(channel, before)
        await one._install(channel, merged)
    assert channel.asked == [a]  # by b alone
    assert await whole(cache) == {"/last": {"x": 1}}


async def test_calls_of_tasks_outside_end_when_the_block_of_a_cache_is_cancelled(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    errors: list[Exception] = []
    async with trio.open_nursery() as nursery, group() as g:
        a, b = await g.start("AB", SYNC)
        await a.put("/x", "k", 0)
        # It confirms nothing.
        monkeypatch.setattr(b._replication, "_receive", lambda *message: None)
        nursery.start_soon(put_noting, a, errors)
        await trio.sleep(0.1)
        nursery.start_soon(put_noting, a, errors)  # it waits for the lock of the first one
        await trio.sleep(0.1)
        with trio.fail_after(1):
            await g.kill("A")
    first, second = errors
    assert isinstance(first, ReplicationError) and not first.definite
    assert isinstance(second, CacheClosed)


@pytest.mark.parametrize("sync", [True, False])
async def test_a_call_that_is_done_when_its_block_is_cancelled_has_no_error(
    sync: bool, monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    """Its task may only not have run yet."""
    async with group() as g:
        a, _ = await g.start("AB", SYNC)
        full = a._replication
        assert isinstance(full, FullReplication)
        after = full._after

        def then_give_up() -> None:
            after()
            if any(
                (one.finished if sync else one.applied).is_set() for one in full._asked.values()
            ):
                full.give_up()

        monkeypatch.setattr(full, "_after", then_give_up)
        await a.put("/x", "k", 1, sync=sync)
        assert full._has_given_up
