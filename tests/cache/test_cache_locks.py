"""Locks of the nodes of a call: no deadlock, no starvation, serial results."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio
import trio.lowlevel
from hypothesis import given
from hypothesis import strategies as st

from jgroups_py.cache import CacheLimits, Fqn, TreeCache
from jgroups_py.cache.locks import LockRequest, PathLocks, Scope
from jgroups_py.errors import LockTimeout


def scope(text: str) -> Scope:
    """``w /a`` writes one node, ``r /a/`` reads all at and below it."""
    kind, _, path = text.partition(" ")
    deep = path.endswith("/")
    return Scope(Fqn.parse(path.rstrip("/") or "/"), deep=deep, write=kind == "w")


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        ("r /a", "r /a", False),
        ("r /a", "w /a", True),
        ("w /a", "r /a", True),
        ("w /a", "w /b", False),
        ("w /a", "w /a/b", False),
        ("w /a/", "r /a/b", True),
        ("r /a/b", "w /a/", True),
        ("r /a/", "r /a/b/", False),
        ("w /a/b/", "r /a/", True),
        ("w /a/b/", "r /a", False),
        ("w /", "r /a/b", True),
        ("w /a/", "w /ab", False),
    ],
)
def test_the_one_that_waits_is_not_the_one_that_is_waited_for(
    first: str, second: str, waits: bool
) -> None:
    locks = PathLocks()
    held = locks.try_acquire([scope(first)])
    assert held is not None
    other = locks.try_acquire([scope(second)])
    assert (other is None) is waits
    if other is not None:
        locks.release(other)
    locks.release(held)
    again = locks.try_acquire([scope(second)])
    assert again is not None
    locks.release(again)
    assert len(locks) == 0


def brute_force(one: Scope, other: Scope) -> bool:
    covers = (one.deep and other.path.is_within(one.path)) or (
        other.deep and one.path.is_within(other.path)
    )
    return (one.path == other.path or covers) and (one.write or other.write)


scopes = st.lists(
    st.builds(
        Scope,
        st.lists(st.sampled_from("ab"), max_size=3).map(Fqn),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(st.lists(scopes, max_size=6), st.lists(st.integers(0, 5)))
def test_a_request_is_behind_all_earlier_ones_in_its_way(
    asked: list[list[Scope]], released: list[int]
) -> None:
    locks = PathLocks()
    requests: dict[int, LockRequest] = {n: locks.enter(scopes) for n, scopes in enumerate(asked)}
    for gone in [None, *released]:
        if gone in requests and not requests[gone].behind:
            locks.release(requests.pop(gone))
        for n, request in requests.items():
            behind = [
                m
                for m in requests
                if m < n and any(brute_force(a, b) for a in asked[m] for b in asked[n])
            ]
            assert request.behind == len(behind)
    for request in requests.values():
        locks.release(request)
    assert len(locks) == 0


async def test_two_writers_on_one_subtree_in_opposite_order_both_end(autojump_clock: Any) -> None:
    """The classic deadlock: one has /t/a and wants /t/b, the other the reverse."""
    cache = TreeCache()
    results = []

    async def writer(name: str, first: str, second: str) -> None:
        for turn in range(50):
            async with cache.batch() as batch:
                batch.put(first, "by", (name, turn))
                await trio.lowlevel.checkpoint()
                batch.put(second, "by", (name, turn))
            one, other = await cache.get(first, "by"), await cache.get(second, "by")
            results.append((one, other))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer, "x", "/t/a", "/t/b")
            nursery.start_soon(writer, "y", "/t/b", "/t/a")
    assert len(results) == 100
    assert await cache.get("/t/a", "by") == await cache.get("/t/b", "by")


async def test_random_calls_on_one_subtree_end_and_are_serial(autojump_clock: Any) -> None:
    """Moves, removals and batches over a slow store; the tree always holds exactly ten tokens."""
    from faulty_store import FaultyStore

    from jgroups_py.cache.saving import Keeper

    store = FaultyStore()
    store.slow = 0.01
    await store.open()
    cache = TreeCache(keeper=Keeper(store, passivation=False))
    for n in range(10):
        await cache.put(f"/t/{n % 2}/{n}", "token", n)

    async def mover(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(10):
            one, other = rng.sample(["/t/0", "/t/1", "/t/2"], 2)
            try:
                await cache.move(one, other)
            except ValueError:
                pass  # at least one token is there

    async def counter() -> None:
        for _ in range(20):
            assert len(await cache.children("/t")) == 2
            await trio.sleep(0.02)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(counter)
            for seed in range(4):
                nursery.start_soon(mover, seed)
    tokens = [
        await cache.get(f"/t/{a}/{b}", "token")
        for a in await cache.children("/t")
        for b in await cache.children(f"/t/{a}")
    ]
    assert sorted(tokens) == list(range(10))
    assert cache.statistics().counters["lock_waits"] > 0
    assert cache.statistics().counters["waiting_for_locks"] == 0


async def test_a_writer_is_not_overtaken_by_readers_for_ever(autojump_clock: Any) -> None:
    locks, order = PathLocks(), []

    async def use(name: str, text: str, seconds: float) -> None:
        held = await locks.acquire([scope(text)], 100)
        order.append(name)
        await trio.sleep(seconds)
        locks.release(held)

    async with trio.open_nursery() as nursery:
        for name, text in (("r1", "r /a"), ("w", "w /a"), ("r2", "r /a"), ("r3", "r /a")):
            nursery.start_soon(use, name, text, 1)
            await trio.sleep(0.1)
    assert order[:2] == ["r1", "w"] and set(order[2:]) == {"r2", "r3"}
    assert trio.current_time() - 0 >= 3 and locks.waits == 3


async def test_a_call_that_waits_too_long_changes_nothing(autojump_clock: Any) -> None:
    from faulty_store import FaultyStore

    from jgroups_py.cache.saving import Keeper

    store = FaultyStore()
    store.slow = 5
    await store.open()
    keeper = Keeper(store, passivation=False)
    cache = TreeCache(keeper=keeper, limits=CacheLimits(lock_timeout=3))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.put, "/a", "x", 1)
        await trio.sleep(1)
        with pytest.raises(LockTimeout, match="no lock on /a within 3 s") as caught:
            await cache.put("/a", "x", 2)
        assert caught.value.definite
        with pytest.raises(LockTimeout, match=r"within 0\.5 s"):
            await cache.put("/a", "x", 3, lock_timeout=0.5)
        with trio.move_on_after(0.1) as scope:
            await cache.put("/a", "x", 4)
        assert scope.cancelled_caught
    assert await cache.get("/a", "x") == 1
    assert cache.statistics().counters["waiting_for_locks"] == 0
