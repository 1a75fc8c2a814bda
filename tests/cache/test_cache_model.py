"""Random calls on caches with failing stores, compared with a dict: no acknowledged change is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from faulty_store import Fault, FaultyStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jgroups_py.cache import Fqn, TreeCache
from jgroups_py.cache.eviction import Region
from jgroups_py.cache.fqn import ROOT
from jgroups_py.cache.policies import LeastRecentlyUsed
from jgroups_py.cache.replication import LocalReplication
from jgroups_py.cache.saving import Keeper
from jgroups_py.errors import BatchConflict, CacheRefused, StoreError

Model = dict[Fqn, dict[str, int]]
PATHS = [Fqn.parse(p) for p in ("/a", "/a/b", "/a/b/c", "/d", "/d/b", "/e")]
path = st.sampled_from(PATHS)
key = st.sampled_from("xy")
number = st.integers(0, 9)
call = st.one_of(
    st.tuples(st.just("put"), path, key, number),
    st.tuples(st.just("replace"), path, key, number),
    st.tuples(st.just("remove"), path, key),
    st.tuples(st.just("remove_node"), path),
    st.tuples(st.just("remove_tree"), path),
    st.tuples(st.just("move"), path, path),
    st.tuples(st.just("batch"), path, path, key, number),
    st.tuples(st.just("get"), path, key),
    st.tuples(st.just("children"), path),
    st.tuples(st.just("evict"), path),
    st.tuples(st.just("wait"), st.just(PATHS[0])),
)
faults = st.lists(st.sampled_from(["", "", "", "before", "after"]), max_size=60)


class Copies(LocalReplication):
    """A container that behaves as if other members had copies: the store may fall behind."""

    keeps_copies = True


def make(store: FaultyStore, passivation: bool, copies: bool, max_nodes: int) -> TreeCache:
    return TreeCache(
        keeper=Keeper(store, passivation=passivation),
        replication=Copies() if copies else LocalReplication(),
        regions=[Region(ROOT, LeastRecentlyUsed(max_nodes))] if max_nodes else [],
    )


async def play(cache: TreeCache, model: Model, step: Any) -> None:
    """One call on the cache, and on the model if the cache did it."""
    name, at, *rest = step
    below = [p for p in model if p.is_within(at)]
    match name:
        case "put":
            await cache.put(at, rest[0], rest[1])
            model.setdefault(at, {})[rest[0]] = rest[1]
        case "replace":
            await cache.put_node(at, {rest[0]: rest[1]}, replace=True)
            model[at] = {rest[0]: rest[1]}
        case "remove":
            assert await cache.remove(at, rest[0]) is (rest[0] in model.get(at, {}))
            model.get(at, {}).pop(rest[0], None)
        case "remove_node":
            assert await cache.remove_node(at) is (at in model)
            model.pop(at, None)
        case "remove_tree":
            assert await cache.remove_tree(at) == len(below)
            for p in below:
                del model[p]
        case "move":
            try:
                assert await cache.move(at, rest[0]) == len(below)
            except CacheRefused:
                return
            model.update({p.moved(at, rest[0]): model.pop(p) for p in below})
        case "batch":
            async with cache.batch() as batch:
                before = await batch.get(at, rest[1], 0)
                assert before == model.get(at, {}).get(rest[1], 0)
                batch.remove_tree(rest[0])
                batch.put(at, rest[1], before + rest[2])
            for p in [p for p in model if p.is_within(rest[0])]:
                del model[p]
            model.setdefault(at, {})[rest[1]] = before + rest[2]
        case "get":
            assert await cache.get(at, rest[0]) == model.get(at, {}).get(rest[0])
        case "children":
            assert set(await cache.children(at)) == {p[len(at)] for p in below if p != at}
        case "evict":
            await cache.evict(at)
        case "wait":
            await trio.sleep(6)  # the evictor's task runs, and retries a store that failed


async def same(cache: TreeCache, model: Model) -> None:
    for p in PATHS:
        assert await cache.get_node(p) == model.get(p), p


async def history(
    steps: list[Any], failing: list[Fault], passivation: bool, copies: bool, max_nodes: int
) -> None:
    plan: Iterator[Fault] = iter(failing)
    store = FaultyStore(lambda: next(plan, ""))
    await store.open()
    cache, model = make(store, passivation, copies, max_nodes), Model()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.run)
        for step in steps:
            try:
                await play(cache, model, step)
            except StoreError as error:
                assert error.definite  # noqa: PT017, most calls raise nothing
        plan = iter(())
        nursery.cancel_scope.cancel()
    await same(cache, model)
    await cache.aclose()
    assert store.rows.keys() == model.keys()
    await store.open()
    await same(make(store, passivation, copies, max_nodes), model)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("passivation", [False, True])
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(call, max_size=30), faults, st.sampled_from([0, 1, 3]))
def test_acknowledged_writes_survive_a_failure_of_the_store(
    passivation: bool, copies: bool, steps: list[Any], failing: list[Fault], max_nodes: int
) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(history, steps, failing, passivation, copies, max_nodes, clock=clock)


async def tellers(seed: int, passivation: bool) -> None:
    """Many tasks move money between accounts that do not all fit into memory."""
    rng = random.Random(seed)
    store = FaultyStore()
    store.slow = 0.01
    await store.open()
    cache = make(store, passivation, False, 2)
    accounts = [Fqn.parse(f"/bank/{n}") for n in range(8)]
    for account in accounts:
        await cache.put(account, "money", 100)
    store.fault = lambda: "before" if rng.random() < 0.05 else ""
    done = 0

    async def teller(seed: int) -> None:
        nonlocal done
        mine = random.Random(seed)
        for _ in range(20):
            one, other = mine.sample(accounts, 2)
            try:
                async with cache.batch() as batch:
                    has = await batch.get(one, "money")
                    batch.put(one, "money", has - 1)
                    batch.put(other, "money", await batch.get(other, "money") + 1)
                done += 1
            except (StoreError, BatchConflict):
                pass
            await trio.sleep(mine.choice([0, 0.01, 0.05]))

    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(teller, seed * 100 + number)
    store.fault = lambda: ""
    assert done > 10
    assert sum([await cache.get(a, "money") for a in accounts]) == 800
    await cache.aclose()
    await store.open()
    again = make(store, passivation, False, 2)
    assert sum([await again.get(a, "money") for a in accounts]) == 800


@pytest.mark.parametrize("passivation", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_money_moved_by_many_tasks_is_neither_made_nor_lost(seed: int, passivation: bool) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(tellers, seed, passivation, clock=clock)


def test_a_node_that_was_saved_though_the_store_said_no_can_be_removed_for_good() -> None:
    """The test above found this: a deleted node's row came back."""
    a, d = Fqn.parse("/a"), Fqn.parse("/d")
    puts = [("put", d, "x", 0), ("put", a, "x", 0), ("get", d, "x")]
    steps = [*puts, ("remove_node", a), ("remove_node", d)]
    works: list[Fault] = [""]
    for before in range(4):
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(history, steps, works * before + ["after"], True, False, 1, clock=clock)
