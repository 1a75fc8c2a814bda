"""The tables of a cache's parts: they forget members that left long ago, and keep everything that a store still
lacks."""

from __future__ import annotations

from typing import Any

import pytest
from faulty_store import FaultyStore

from jgroups_py.cache import Fqn, total_order
from jgroups_py.cache.changes import NodeChange
from jgroups_py.cache.container import MemoryTree
from jgroups_py.cache.eviction import Evictor
from jgroups_py.cache.listeners import CacheListeners
from jgroups_py.cache.locks import PathLocks, Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.total_order import AppliedHere, Ordered, Propose, TotalOrder
from jgroups_py.errors import StoreError

A, B = Fqn.parse("/a"), Fqn.parse("/b")
OLD, NEW = Node({"x": b"\x01"}), Node({"x": b"\x02"})


def test_an_order_remembers_members_of_the_last_views_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(total_order, "KEEP_VIEWS", 5)
    me = b"me"
    order = TotalOrder(me)
    order.install(1, [me], ready=True)
    for view in range(2, 60):
        guest = b"guest %d" % view
        order.install(view, [me, guest], ready=True)
        order.receive(guest, Propose(view, 1, b"x"))
        order.receive(me, Ordered(view, guest, 1, b"x"))
        order.applied_now(order.to_apply.pop())
        order.receive(guest, AppliedHere(view, order._last))
        order.to_send.clear()
    remembered = {name: len(v) for name, v in vars(order).items() if isinstance(v, dict)}
    assert max(remembered.values()) <= 5 + 1, remembered
    assert remembered["applied"] > 1


def tree_with(*nodes: tuple[Fqn, Node]) -> MemoryTree:
    tree = MemoryTree()
    tree.apply(tuple(NodeChange(path, None, node) for path, node in nodes))
    return tree


async def keeper(passivation: bool = False) -> tuple[Keeper, FaultyStore]:
    store = FaultyStore()
    await store.open()
    return Keeper(store, passivation=passivation), store


async def test_rows_that_a_failed_write_may_have_spoilt_are_counted_and_written_again() -> None:
    """The call fails, and memory keeps the former value; the row's value is unknown."""
    kept, store = await keeper()
    await kept.before((NodeChange(A, None, OLD),))
    store.fault = lambda: "after"
    with pytest.raises(StoreError):
        await kept.before((NodeChange(A, OLD, NEW), NodeChange(B, None, NEW)))
    assert store.rows == {A: NEW, B: NEW}
    assert kept.statistics()["store_behind"] == 2 and kept.statistics()["unsaved_nodes"] == 1
    store.fault = lambda: ""
    assert await kept.load(B) is None
    await kept.catch_up(tree_with((A, OLD)), PathLocks())
    assert store.rows == {A: OLD}
    assert kept.statistics()["store_behind"] == kept.statistics()["unsaved_nodes"] == 0


async def test_a_removal_of_a_node_in_use_is_made_good_later() -> None:
    kept, store = await keeper()
    tree, locks = tree_with((A, NEW), (B, NEW)), PathLocks()
    store.fault = lambda: "before"
    await kept.after((NodeChange(A, OLD, NEW), NodeChange(B, OLD, NEW)))
    store.fault = lambda: ""
    held = locks.try_acquire((Scope(A, write=True),))
    assert held is not None
    await kept.catch_up(tree, locks)
    assert [*store.rows] == [B] and kept.statistics()["store_behind"] == 1
    locks.release(held)
    await kept.catch_up(tree, locks)
    assert store.rows == {A: NEW, B: NEW} and kept.statistics()["store_behind"] == 0
    assert locks.try_acquire((Scope(A, write=True), Scope(B, write=True))) is not None


async def test_a_node_that_came_from_another_member_is_written_and_one_that_went_is_not() -> None:
    kept, store = await keeper(passivation=True)
    kept.taken(A)
    kept.taken(B)
    kept.given(B, remove=True)
    assert not kept.is_saved(A) and kept.is_saved(B)
    await kept.flush(tree_with((A, NEW)))
    assert store.rows == {A: NEW}
    assert kept.statistics()["store_behind"] == kept.statistics()["unsaved_nodes"] == 0


@pytest.mark.parametrize("stored", [False, True])
async def test_only_values_that_are_nowhere_are_reported_as_forgotten(stored: bool) -> None:
    tree = tree_with((A, NEW))
    kept = (await keeper(passivation=True))[0] if stored else None
    if kept is not None:
        await kept.before((NodeChange(A, None, NEW),))
    locks = PathLocks()
    evictor = Evictor(tree, [], locks, CacheListeners(), kept, clock=lambda: 0.0)
    told: list[Any] = []
    evictor.forgotten = lambda path, node: told.append((path, node))
    assert await evictor.evict(A) and not await evictor.evict(A)
    assert told == ([] if stored else [(A, NEW)])
    assert tree.get(A) is None and evictor.evicted == 1
    assert locks.try_acquire((Scope(A, write=True),)) is not None, "the lock is let go"
