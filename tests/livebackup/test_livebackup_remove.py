"""Objects that an operation removes: their counters, and the time when their names begin anew. Nodes run in virtual
time."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from livebackup_group import Group, Queue, livebackup_group, put, put_both, slow_put, states

from jgroups_py.livebackup import (
    BadOperation,
    Cut,
    LiveBackupNode,
    NotLive,
    OutcomeUnknown,
    Work,
    by_effects,
)
from jgroups_py.livebackup.applier import Applier, Step
from jgroups_py.livebackup.changed import Changed
from jgroups_py.livebackup.confirming import Confirming
from jgroups_py.livebackup.kinds import REMOVAL, Catalogue
from jgroups_py.livebackup.messages import Op, Part, Whole, decode, encode
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.snapshots import Arrival, ArrivedSnapshot, BadSnapshot
from jgroups_py.livebackup.tickets import Counters, Ticket, read_record

MODES = pytest.mark.parametrize("mode", ["parallel", "one_at_a_time"])


async def close(work: Work, queue: str) -> bool:
    return await work.remove(Queue, queue)


async def expire_all(work: Work, queue: str) -> None:
    await work.get(Queue, queue).take()


async def close_empty(work: Work, queue: str) -> bool:
    return await work.remove(Queue, queue, unless="size")


async def close_odd(work: Work, queue: str, unless: str) -> bool:
    return await work.remove(Queue, queue, unless=unless)


@by_effects
async def close_by_effects(work: Work, queue: str) -> bool:
    return await work.remove(Queue, queue)


async def close_and_go_on(work: Work, queue: str, seconds: float) -> None:
    await work.remove(Queue, queue)
    await trio.sleep(seconds)


async def replace(work: Work, queue: str, message: Any, seconds: float = 0) -> bool:
    was_there = await work.remove(Queue, queue)
    await work.get(Queue, queue).put(message)
    await trio.sleep(seconds)
    return was_there


async def close_or_put_foreign(work: Work, queue: str) -> None:
    """An operation that acts differently on each node."""
    if work.name in DIFFERS:
        await work.get(Queue, queue).put(0)
    else:
        DIFFERS.append(work.name)
        await work.remove(Queue, queue)


DIFFERS: list[str] = []
OPERATIONS = (
    *(close, close_by_effects, close_and_go_on, replace, close_or_put_foreign),
    *(close_empty, close_odd, expire_all),
)


@asynccontextmanager
async def removing_group(**settings: Any) -> AsyncIterator[Group]:
    DIFFERS.clear()
    async with livebackup_group(**settings) as group:
        refused = (close_by_effects,) if settings.get("mode") == "one_at_a_time" else ()
        group.also(operations=[one for one in OPERATIONS if one not in refused])
        yield group


def live_counters(live: LiveBackupNode) -> dict[str, int]:
    leading = live._leading
    assert leading is not None
    return leading.side.counters.vector()


def backup_counters(backup: LiveBackupNode) -> dict[str, int]:
    following = backup._following
    assert following is not None and following.side is not None
    return following.side.applier.vector()


# --- effects for users


@MODES
async def test_a_removed_object_is_gone_on_all_nodes_and_its_name_may_be_used_again(
    mode: str, autojump_clock: Any
) -> None:
    async with removing_group(mode=mode) as group:
        live, _ = await group.start("AB")
        await live.run(put, "a", 1)
        await live.run(put, "b", 1)
        assert await live.run(close, "a") is True
        assert await live.run(close, "a") is False, "it was not there"
        assert list(await group.equal()) == ["Queue/b"]
        assert await live.run(put, "a", 2) == 1, "it was made anew"
        assert await live.run(replace, "b", 3) is True
        found = await group.equal()
        assert found["Queue/a"]["messages"] == [2] and found["Queue/b"]["messages"] == [3]


async def test_an_operation_that_waits_for_a_removed_object_gets_a_new_one(
    autojump_clock: Any,
) -> None:
    async with removing_group() as group:
        live, backup = await group.start("AB")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, slow_put, "a", 1, 1.0)
            await trio.sleep(0.1)
            nursery.start_soon(live.run, close, "a")
            await trio.sleep(0.1)
            nursery.start_soon(live.run, put, "a", 2)
        found = await group.equal()
        assert found["Queue/a"]["messages"] == [2] and backup.counts["diverged"] == 0


@MODES
async def test_an_object_that_is_in_use_is_not_removed(mode: str, autojump_clock: Any) -> None:
    async with removing_group(
        mode=mode, **({"readable": True} if mode == "parallel" else {})
    ) as group:
        live, backup = await group.start("AB")
        assert await live.run(close_empty, "a") is False, "it is not there"
        await live.run(put, "a", 1)
        assert await live.run(close_empty, "a") is False, "it is used"
        assert (await group.equal())["Queue/a"]["messages"] == [1]
        with pytest.raises(BadOperation, match="Queue/a has no public method nothing"):
            await live.run(close_odd, "a", "nothing")
        with pytest.raises(TypeError):
            await live.run(close_odd, "a", "put")
        assert (await group.equal())["Queue/a"]["messages"] == [1]
        await live.run(expire_all, "a")
        assert await live.run(close_empty, "a") is True
        assert await group.equal() == {} and backup.counts["diverged"] == 0


async def test_a_removal_is_repeated_by_its_effect_and_compared(autojump_clock: Any) -> None:
    async with removing_group(checksum_every=1) as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        assert await live.run(close_by_effects, "a") is True
        await live.run(replace, "b", 1)
        assert list(await group.equal()) == ["Queue/b"]
        assert backup.counts["diverged"] == 0


async def test_an_object_that_only_one_side_removes_is_found_and_taken_anew(
    autojump_clock: Any,
) -> None:
    async with removing_group(checksum_every=1) as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        await live.run(put, "kept", 1)
        kept = backup.space.object("Queue/kept")
        await live.run(close_or_put_foreign, "a")
        assert list(await group.equal()) == ["Queue/kept"]
        assert backup.counts["diverged"] == 1 and backup.space.object("Queue/kept") is kept
        assert await live.run(put, "a", 2) == 1
        assert (await group.equal())["Queue/a"]["messages"] == [2]


def sizes(cut: Cut, *queues: str) -> list[int]:
    return [len(cut.get(Queue, queue).messages) for queue in queues]


async def test_a_reader_sees_an_object_until_its_removal_is_confirmed(autojump_clock: Any) -> None:
    async with removing_group(readable=True) as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, replace, "a", 2, 5.0)
            await trio.sleep(6)
            assert states(backup)["Queue/a"]["messages"] == [2]
            nursery.start_soon(live.run, close, "a")
            await trio.sleep(1)
            assert states(backup) == {} and backup.read(sizes, "a") == [1]
        await group.equal()
        assert backup.read(sizes, "a") == [0]


# --- counters


async def test_a_name_used_again_goes_on_counting_until_all_backups_have_confirmed(
    autojump_clock: Any,
) -> None:
    async with removing_group(confirm="first") as group:
        live, *_ = await group.start("ABC")
        await live.run(put, "a", 1)
        leading = live._leading
        assert leading is not None
        usual = leading.side.confirming.is_settled
        leading.side.confirming.is_settled = lambda number: False  # type: ignore[method-assign]
        await live.run(close, "a")
        await live.run(put, "b", 1)
        await live.run(put, "a", 2)
        assert live_counters(live) == {"Queue/a": 3, "Queue/b": 1}
        await live.run(close, "a")
        await group.equal()
        leading.side.confirming.is_settled = usual  # type: ignore[method-assign]
        await live.run(put, "b", 2)
        assert live_counters(live) == {"Queue/b": 2}, "its name begins anew"
        await group.equal()
        assert await live.run(put, "a", 3) == 1
        assert live_counters(live) == {"Queue/a": 1, "Queue/b": 2}
        await group.equal()


async def test_a_counter_stays_while_an_operation_runs_that_began_before_the_removal(
    autojump_clock: Any,
) -> None:
    """Without a backup the removal is answered at once, and the operation with an older change is sent after it."""
    async with removing_group() as group:
        (live,) = await group.start("A")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, put_both, "a", "b", "m", 10.0)
            await trio.sleep(1)
            assert await live.run(close, "a")
            await live.run(put, "c", 1)
            assert live_counters(live)["Queue/a"] == 2
        await live.run(put, "c", 2)
        assert live_counters(live) == {"Queue/b": 1, "Queue/c": 2}


async def test_names_that_are_used_once_leave_nothing_behind(autojump_clock: Any) -> None:
    async with removing_group() as group:
        live, backup = await group.start("AB")
        for n in range(60):
            await live.run(put_both, f"q{n}", "always", n, 0)
            await live.run(close, f"q{n}")
        assert list(await group.equal()) == ["Queue/always"]
        await live.run(put, "always", 1)
        await group.equal()
        assert live_counters(live) == backup_counters(backup) == {"Queue/always": 61}
        leading = live._leading
        assert leading is not None
        assert list(leading.side._changed._by) == ["Queue/always"]
        assert backup.counts["diverged"] == 0


async def test_a_joiner_counts_on_where_a_removed_object_ended(autojump_clock: Any) -> None:
    """The slow backup has not confirmed the removal when the joiner arrives, so the name does not begin anew."""
    async with removing_group(confirm="first") as group:
        live, *_ = await group.start("AB")
        await live.run(put, "a", 1)
        leading = live._leading
        assert leading is not None
        leading.side.confirming.is_settled = lambda number: False  # type: ignore[method-assign]
        await live.run(close, "a")
        await group.start("C")
        assert backup_counters(group.nodes["C"]) == {"Queue/a": 2}
        assert await live.run(put, "a", 2) == 1
        assert (await group.equal())["Queue/a"]["messages"] == [2]
        assert group.nodes["C"].counts["diverged"] == 0


async def test_a_removed_object_is_not_counted_in_the_next_term(autojump_clock: Any) -> None:
    async with removing_group() as group:
        live, *_ = await group.start("ABC")
        await live.run(put, "a", 1)
        await live.run(put, "b", 1)
        await live.run(close, "a")
        group.kill(live.channel.name)
        await group.settled()
        assert live_counters(group.live) == {"Queue/b": 1}
        assert sum(n.counts["snapshots_asked"] for n in group.nodes.values()) <= 2, "only at first"
        assert await group.live.run(put, "a", 2) == 1
        await group.equal()


# --- take-overs


async def test_a_removal_that_is_not_confirmed_is_reversed(autojump_clock: Any) -> None:
    async with removing_group() as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", "kept")
        await live.run(put, "b", "kept")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run, close_and_go_on, "a", 60.0)
            nursery.start_soon(live.run, replace, "b", "new", 60.0)
            nursery.start_soon(live.run, put_both, "d", "e", "new", 60.0)
            await trio.sleep(61)
            assert [key for key in states(backup)] == ["Queue/b", "Queue/d"]
            nursery.start_soon(live.run, close, "b")
            nursery.start_soon(live.run, put, "a", "new")
            await trio.sleep(0.1)
            group.kill(live.channel.name)
            nursery.cancel_scope.cancel()
        await group.settled()
        kept = {"messages": ["kept"], "consumers": []}
        assert states(backup) == {"Queue/a": kept, "Queue/b": kept}
        assert await backup.run(put, "a", "after") == 2


@pytest.mark.parametrize("seed", range(3))
async def test_under_load_with_removals_and_take_overs_all_nodes_have_the_same(
    seed: int, autojump_clock: Any
) -> None:
    """Objects with few names come and go, the live node is lost, and another node joins."""
    chance = random.Random(seed)
    async with removing_group(checksum_every=2) as group:
        await group.start("ABC")

        async def client(live: Any) -> None:
            names = [f"q{n}" for n in range(4)]
            for n in range(40):
                what = chance.choice([put_both, put_both, replace, close])
                given: list[Any] = [chance.choice(names)]
                if what is put_both:
                    given.append(chance.choice(names))
                if what is not close:
                    given += [n, chance.random() / 50]
                try:
                    await live.run(what, *given)
                except (NotLive, OutcomeUnknown):
                    return

        for name in "DE":
            live = group.live
            with trio.move_on_after(0.5 + chance.random()):
                async with trio.open_nursery() as nursery:
                    for _ in range(6):
                        nursery.start_soon(client, live)
                    await trio.sleep(0.1)
                    await group.open(name)
                    await trio.sleep(0.3)
                    group.kill(live.channel.name)
                    nursery.cancel_scope.cancel()
            await group.equal()
        assert sum(node.counts["diverged"] for node in group.nodes.values()) == 0
        await group.live.run(close, "q0")
        await group.live.run(put, "last", 1)
        await group.equal()
        there = set(states(group.live))
        for node in group.nodes.values():
            if node is not group.live:
                assert set(backup_counters(node)) - {"Queue/q0"} == there


# --- the parts


@pytest.mark.parametrize("messages", [[], [0], [1]])
async def test_changes_of_a_method_that_decides_a_removal_are_reversed(
    messages: list[int],
) -> None:
    space = Space(Catalogue.of([Queue], []))
    await space.load("Queue/a", {"messages": [*messages], "consumers": []})
    outcome, undo = await space.change_undoable("Queue/a", REMOVAL, ("take",))
    assert outcome.value is (messages != [1]) is (space.find("Queue/a") is None)
    done = undo()
    if done is not None:
        await done
    assert await space.saved() == {"Queue/a": {"messages": messages, "consumers": []}}


def test_an_object_is_forgotten_when_its_removal_is_settled_and_it_is_not_there_again() -> None:
    counters = Counters({"A": 3, "B": 2, "C": 1}.items())
    changed = Changed(counters)
    changed.sent(1, read_record("A(3), B(1)"), {"A": 3})
    changed.sent(2, read_record("B(2), C(1)"), {"B": 2, "C": 1})
    assert changed.removed() == [("A", 3), ("B", 2), ("C", 1)]
    assert changed.forgotten(lambda op: False) == []
    assert changed.forgotten(lambda op: op == 2) == [], "the older one comes first"
    counters.next("C")
    assert changed.removed() == [("A", 3), ("B", 2)]
    assert changed.forgotten(lambda op: True) == ["A", "B"]
    assert counters.vector() == {"C": 2} and changed.removed() == []
    assert (changed.since(2), changed.since(3)) == (0, 3)
    assert not changed.is_changed("A", 1) and changed.is_changed("C", 2)


def test_no_removal_is_forgotten_while_an_operation_runs_that_had_begun_before() -> None:
    counters = Counters({"A": 4}.items())
    changed = Changed(counters)
    changed.sent(1, read_record("A(4)"), {"A": 4})
    assert changed.forgotten(lambda op: True, 0) == [], "it may have made A(3)"
    assert changed.forgotten(lambda op: True, 1) == ["A"]


def test_no_more_is_forgotten_at_once_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jgroups_py.livebackup.changed.FORGOTTEN_MAX", 2)
    counters = Counters((name, 1) for name in "ABC")
    changed = Changed(counters)
    changed.sent(1, read_record("A(1), B(1), C(1)"), {"A": 1, "B": 1, "C": 1})
    assert [changed.forgotten(lambda op: True) for _ in range(3)] == [["A", "B"], ["C"], []]


def test_the_newer_of_two_removals_counts_whichever_operation_ends_first() -> None:
    counters = Counters({"A": 4}.items())
    changed = Changed(counters)
    changed.sent(1, read_record("A(3), A(4)"), {"A": 4})
    changed.sent(2, read_record("A(2)"), {"A": 2})
    assert changed.removed() == [("A", 4)]
    assert changed.forgotten(lambda op: True) == ["A"]
    changed.sent(3, read_record("A(1)"), {})
    assert not changed.is_changed("A", 1), "it is forgotten already"


def test_an_operation_is_settled_when_all_backups_that_will_need_it_have_confirmed() -> None:
    confirming: Confirming[str] = Confirming("first")
    confirming.joined("B", 0)
    confirming.joined("C", 0)
    confirming.given("D")
    confirming.sent(1, 10, 0.0)
    assert not confirming.is_settled(1)
    assert confirming.confirmed("B", [1]) == [1] and not confirming.is_settled(1)
    confirming.confirmed("C", [1])
    assert not confirming.is_settled(1), "D has a snapshot without it"
    confirming.joined("D", 0)
    confirming.confirmed("D", [1])
    assert confirming.is_settled(1)


def test_a_backup_forgets_nothing_that_is_not_confirmed() -> None:
    backup = Applier({"Q1": 5, "Q2": 1})
    backup.add(1, [Ticket("Q1", 6)])
    with pytest.raises(BadOperation, match=r"Q1\(6\) of operation 1 is not confirmed"):
        backup.forget(["Q2", "Q1"])
    assert backup.vector() == {"Q1": 5, "Q2": 1}
    backup.done(Step(1, 0, Ticket("Q1", 6)))
    with pytest.raises(BadOperation, match="is not confirmed"):
        backup.forget(["Q1"])
    backup.ended(1)
    backup.forget(["Q1"])
    assert backup.vector() == {"Q2": 1}
    assert backup.add(2, [Ticket("Q1", 1)]) == [Step(2, 0, Ticket("Q1", 1))]


async def test_a_live_node_that_forgets_existing_objects_is_not_believed(
    autojump_clock: Any,
) -> None:
    async with removing_group() as group:
        live, backup = await group.start("AB")
        await live.run(put, "a", 1)
        await group.equal()
        following = backup._following
        assert following is not None and following.side is not None
        op = Op(live.term, 2, "put", ["b", 1], 0.0, 1, [Ticket("Queue/b", 1)], "")
        following.side.take(msgspec.structs.replace(op, forgotten=["Queue/a"]))
        await trio.sleep(0.1)
        await group.equal()
        assert backup.counts["diverged"] == 1
        assert "forgets Queue/a, which is there" in backup.put_aside[0].why


def test_removed_objects_of_a_snapshot_count_as_objects() -> None:
    arrival = Arrival(objects_max=2)
    arrival.begin(1)
    arrival.part(Part(1, 1, [("Queue/a", 1, {})], [("Queue/b", 2)]))
    with pytest.raises(BadSnapshot, match="2 objects came, 1 were said"):
        arrival.whole(Whole(1, 1, 1, 5))
    arrival.begin(2, 3)
    arrival.part(Part(1, 2, [], [("Queue/b", 2)]))
    assert arrival.whole(Whole(1, 2, 1, 5, 3)) == ArrivedSnapshot([], [("Queue/b", 2)], False)
    arrival.begin(3, 3)
    assert arrival.whole(Whole(1, 3, 0, 5)) == ArrivedSnapshot([], [], True), "everything came"
    arrival.begin(4)
    with pytest.raises(BadSnapshot, match="more than 2 objects"):
        arrival.part(Part(1, 4, [], [(f"Queue/{n}", 2) for n in range(3)]))


def test_removals_to_forget_travel_with_the_operation() -> None:
    op = Op(1, 2, "put", [], 0.0, 1, [], "", [], None, ["Queue/a"])
    assert decode(encode(op)) == op
    part = Part(1, 2, [], [("Queue/a", 3)])
    assert decode(encode(part)) == part
