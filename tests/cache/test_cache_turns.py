"""Turns: the order of waiting members, a keeper's notes about moving nodes, and a batch's bytes on the wire."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from faulty_store import FaultyStore

from jgroups_py.cache import Fqn, turns
from jgroups_py.cache.call import CacheCall
from jgroups_py.cache.changes import NodeChange, Put
from jgroups_py.cache.keeping import KEEP_TIME, RoomKeeping
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.node import Node
from jgroups_py.cache.saving import Keeper
from jgroups_py.cache.steps import StoringLast
from jgroups_py.cache.turns import Line, Turn, Turns
from jgroups_py.cache.wire import Body, body_bytes, body_from
from jgroups_py.errors import LockTimeout

A, B, C = b"A", b"B", b"C"


def scope(path: str, *, deep: bool = False) -> Scope:
    return Scope(Fqn.parse(path), deep=deep)


def test_a_line_is_in_order_and_only_calls_that_meet_wait() -> None:
    line = Line()
    line.join((A, 1), (scope("/x"), scope("/y")))
    line.join((B, 1), (scope("/y"),))
    line.join((C, 1), (scope("/z"),))
    line.join((B, 1), (scope("/z"),))  # the node is already there
    assert line.ahead((A, 1), [scope("/x"), scope("/y")]) == []
    assert line.ahead((B, 1), [scope("/y")]) == [(A, 1)]
    assert line.ahead((C, 1), [scope("/z")]) == []
    assert line.ahead(None, [scope("/y")]) == [(A, 1), (B, 1)]
    assert line.ahead(None, [scope("/", deep=True)]) == [(A, 1), (B, 1), (C, 1)]
    assert line.ahead(None, [scope("/z/below")]) == []
    line.join((C, 2), (scope("/z", deep=True),))
    assert line.ahead(None, [scope("/z/below")]) == [(C, 2)]
    assert line.ahead((A, 7), [scope("/y")]) == []  # lost its place: it need not wait
    line.leave((A, 1))
    assert line.ahead((B, 1), [scope("/y")]) == []
    line.keep([B])
    assert len(line) == 1
    line.clear()
    assert len(line) == 0


async def test_a_member_that_waits_hears_of_each_move() -> None:
    line = Line()
    line.join((A, 1), (scope("/x"),))
    moves: list[Callable[[], object]] = [
        lambda: line.leave((A, 1)),
        line.clear,
        lambda: line.keep([]),
    ]
    for move in moves:
        line.join((A, 1), (scope("/x"),))
        moved = line.moved
        move()
        assert moved.is_set() and not line.moved.is_set()
    line.leave((A, 1))
    assert not line.moved.is_set()


def test_a_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LINE_MAX", 2)
    line = Line()
    for number in (1, 2, 3):
        line.join((A, number), (scope("/x"),))
    assert len(line) == 2 and line.full == 1


async def test_a_turn_covers_its_paths(autojump_clock: Any) -> None:
    queue = Turns()
    turn = await queue.take([scope("/x"), scope("/y", deep=True)], 1)
    assert turn.covers([scope("/x"), scope("/y/z"), scope("/y/z", deep=True)])
    assert not turn.covers([scope("/x", deep=True)]) and not turn.covers([scope("/x/y")])
    with pytest.raises(LockTimeout):
        await queue.take([scope("/y/z")], 1)
    assert queue.waits == 1 and len(queue) == 2
    queue.end(turn)
    assert len(queue) == 0


@pytest.mark.parametrize("turn", [None, 0, 7])
def test_a_batch_carries_its_reads_and_its_turn(turn: int | None) -> None:
    put = Put(Fqn.parse("/x"), {"n": b"1"})
    expected = ((scope("/x"), b"digest"), (scope("/y", deep=True), b""))
    assert body_from(body_bytes([put], expected, turn)) == Body((put,), expected, turn)


async def test_keeping_ends_after_its_time_and_says_so(autojump_clock: Any) -> None:
    told: list[float] = []
    keeping = RoomKeeping(lambda: told.append(trio.current_time()))
    queue = Turns()
    first = await queue.take([scope("/x")], 1)
    second = await queue.take([scope("/y", deep=True)], 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeping.run)
        keeping.begin(first)
        keeping.begin(second)
        await trio.sleep(10)  # no member asks
        assert keeping.keeps(("x",)) and not keeping.keeps(("z",)) and not keeping.keeps(("x", "a"))
        began = trio.current_time()
        await trio.sleep(KEEP_TIME / 2)
        assert keeping.keeps(("x",)) and told == []
        await trio.sleep(KEEP_TIME)
        assert not keeping.keeps(("x",)) and told == [pytest.approx(began + KEEP_TIME)]
        keeping.end(first)  # no caller waits any longer
        assert keeping.keeps(("y", "a")) and len(told) == 1
        keeping.end(second)
        assert not keeping.keeps(("y", "a")) and len(told) == 2
        assert (keeping.kept, keeping.too_long) == (2, 1)
        nursery.cancel_scope.cancel()


class Slow(FaultyStore):
    """Each write takes a second."""

    async def apply(self, rows: Any) -> None:
        await trio.sleep(1)
        await super().apply(rows)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("removed", [False, True])
async def test_a_node_that_moves_while_it_is_written_is_as_the_move_left_it(
    removed: bool, fails: bool, autojump_clock: Any
) -> None:
    store = Slow(lambda: "before" if fails else "")
    await store.open()
    keeper = Keeper(store, passivation=False)
    path, other = Fqn.parse("/x"), Fqn.parse("/y")
    node = Node({"n": b"1"})
    change = NodeChange(path, None if not removed else node, None if removed else node)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.after, (change,))
        nursery.start_soon(keeper.after, (NodeChange(other, None, node),))
        await trio.sleep(0.5)
        keeper.given(path, remove=True)
        keeper.taken(path)  # with another value
    assert not keeper.is_saved(path)
    assert keeper.is_saved(other) is not fails
    assert keeper.statistics()["store_behind"] == (2 if fails else 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.after, (change,))
        await trio.sleep(0.5)
        keeper.given(path, remove=True)
    assert keeper.statistics()["store_behind"] == (
        2 if fails else 1
    )  # its row is about to be deleted
    await keeper.after((NodeChange(path, None, node),))
    assert keeper.is_saved(path) is not fails  # earlier moves do not count


async def test_a_write_that_was_cancelled_is_not_trusted(autojump_clock: Any) -> None:
    store = Slow()
    await store.open()
    keeper = Keeper(store, passivation=False)
    path = Fqn.parse("/x")
    with trio.move_on_after(0.5):
        await keeper.before((NodeChange(path, Node({}), Node({"n": b"1"})),))
    assert not keeper.is_saved(path)


def test_a_turn_is_told_apart_from_another_on_the_same_paths() -> None:
    assert len({Turn(Turns(), [], held=None): 1, Turn(Turns(), [], held=None): 2}) == 2  # type: ignore[arg-type]


async def test_only_changes_that_are_still_the_calls_own_are_stored(autojump_clock: Any) -> None:
    """While other members acknowledged, one node left, one came back with another value, and one was made anew."""
    gone, other, anew, still, removed = map(Fqn.parse, ("/gone", "/other", "/anew", "/still", "/r"))
    old, new = Node({"n": b"1"}), Node({"n": b"2"})
    stored: list[NodeChange] = []

    class Container:
        owned = {other: new, anew: new, still: old}.get

    class Noting:
        async def after(self, changes: Any) -> None:
            stored.extend(changes)

    class End:
        async def handle(self, call: CacheCall) -> None:
            pass

    replication = SimpleNamespace(keeps_copies=True, tree=SimpleNamespace(container=Container))
    storing = StoringLast(Noting(), replication)  # type: ignore[arg-type]
    storing.next = End()  # type: ignore[assignment]
    changes = [NodeChange(path, None, old) for path in (gone, other, still)]
    changes += [NodeChange(path, old, None) for path in (anew, removed)]
    call = CacheCall("batch", (), lambda _call, _container: ())
    call.changes = tuple(changes)
    await storing.handle(call)
    assert [change.path for change in stored] == [still, removed]
