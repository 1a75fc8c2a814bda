"""Members with other kinds, repeated questions or calls of missing methods do no harm to a node; in virtual time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio
from livebackup_group import (
    KINDS,
    OPERATIONS,
    Queue,
    live_work,
    livebackup_group,
    put,
    put_both,
    slow,
    slow_put,
    states,
)

from jgroups_py.livebackup import BadOperation, NotLive, Stateful, Work, undone_by
from jgroups_py.livebackup.kinds import Catalogue
from jgroups_py.livebackup.messages import (
    Here,
    Join,
    Op,
    Ops,
    Part,
    Standing,
    Whole,
    decode,
    encode,
)
from jgroups_py.livebackup.objects import Object, Space
from jgroups_py.livebackup.outgoing import Outgoing
from jgroups_py.livebackup.snapshots import (
    RETRY_SECONDS,
    Arrival,
    ArrivedSnapshot,
    BadSnapshot,
    Givings,
    SnapshotAsk,
)
from jgroups_py.livebackup.work import AloneWork


class Extra(Stateful):
    """A kind that the backup does not have."""

    def __init__(self) -> None:
        self.value = 0

    def set(self, value: int) -> None:
        self.value = value


async def set_extra(work: Work, value: int) -> None:
    await work.get(Extra, "x").set(value)


# --- impossible snapshots


async def test_a_joiner_without_a_kind_of_the_live_node_stays_there_and_names_it(
    autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with livebackup_group() as group:
        group.also(kinds=(Extra,), operations=(set_extra,))
        (live,) = await group.start("A")
        await live.run(put, "q", 1)
        await live.run(set_extra, 5)
        group.also()
        joiner = await group.open("B")
        await trio.sleep(3 * RETRY_SECONDS)
        assert joiner.role == "joining" and len(joiner.space) == 0
        assert 2 <= joiner.counts["bad_snapshots"] <= 4
        assert (
            "Extra/x: no kind Extra; there are Counter, PostOffice, Queue, Session" in caplog.text
        )
        assert await live.run(put, "q", 2) == 2, "the live node goes on"


async def test_a_joiner_takes_the_next_snapshot_when_one_was_bad(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group() as group:
        (live,) = await group.start("A")
        await live.run(put, "q", 1)
        usual = live.space.saved
        bad: list[dict[str, Any]] = [{"Queue/q": 17}, {"Nothing/q": {}}]

        async def saved(*wanted: Any) -> Any:
            return bad.pop() if bad else await usual(*wanted)

        monkeypatch.setattr(live.space, "saved", saved)
        await group.start("B")
        assert (await group.equal())["Queue/q"]["messages"] == [1]
        assert group.nodes["B"].counts["bad_snapshots"] == 2


def test_a_snapshot_with_other_parts_than_it_says_is_none() -> None:
    arrival = Arrival(objects_max=2)
    arrival.begin(1)
    arrival.part(Part(1, 1, [("Queue/a", 1, {})]))
    with pytest.raises(BadSnapshot, match="1 objects came, 2 were said"):
        arrival.whole(Whole(1, 1, 2, 5))
    with pytest.raises(BadSnapshot, match="more than 2 objects came"):
        arrival.part(Part(1, 1, [(f"Queue/{n}", 1, {}) for n in range(3)]))


def test_a_joiner_takes_no_answer_to_an_older_ask() -> None:
    arrival = Arrival()
    arrival.begin(2)
    arrival.part(Part(1, 1, [("Queue/a", 1, {})]))
    assert arrival.whole(Whole(1, 1, 1, 5)) is None
    arrival.part(Part(1, 2, [("Queue/b", 2, {})]))
    assert arrival.whole(Whole(1, 2, 1, 5)) == ArrivedSnapshot([("Queue/b", 2, {})], [], True)


def test_a_joiner_that_asks_again_during_its_snapshot_gets_one_more() -> None:
    givings: Givings[str] = Givings()
    first, second, third = (SnapshotAsk(n, 0) for n in (1, 2, 3))
    assert givings.asked("B", first) and givings.newest("B") == first
    assert not givings.asked("B", second) and not givings.asked("B", third)
    assert givings.asked("C", first)
    assert givings.ended("B", first) and givings.newest("B") == third
    assert not givings.ended("B", third) and givings.asked("B", first)


def test_a_joiner_takes_no_part_of_the_objects_for_all_of_them() -> None:
    arrival = Arrival()
    arrival.begin(1)
    with pytest.raises(BadSnapshot, match="objects since 7 came, and not since 0"):
        arrival.whole(Whole(1, 1, 0, 9, 7))
    arrival.begin(2, 7)
    assert arrival.whole(Whole(1, 2, 0, 9, 7)) == ArrivedSnapshot([], [], False)


def test_a_joiner_keeps_a_limited_number_of_operations_and_skips_those_in_the_snapshot() -> None:
    arrival = Arrival(tail_max=3)
    ops = [Op(1, n, "put", [], 0.0, 1, [], "") for n in range(1, 5)]
    assert [arrival.keep(op) for op in ops] == [True, True, True, False]
    assert arrival.tail(2) == [ops[2]] and arrival.tail(0) == []


# --- repeated questions


async def test_a_member_that_repeats_its_questions_makes_a_live_node_queue_one_answer(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group() as group:
        live, _, other = await group.start("ABC")
        given = live.counts["snapshots_given"]
        gate = trio.Event()
        usual = live.channel.send

        async def stuck(payload: Any, to: Any = None, **options: Any) -> None:
            await gate.wait()
            await usual(payload, to, **options)

        monkeypatch.setattr(live.channel, "send", stuck)
        for n in range(1000):
            for message in (Standing(n, n, False, False), Here(live.term), Join(live.term, n)):
                await live._on_message(other.channel.address, message)
            if n % 100 == 0:
                await trio.lowlevel.checkpoint()
        await trio.sleep(1)
        assert live.statistics()["waiting_messages"] <= 3
        gate.set()
        await group.equal()
        assert live.counts["snapshots_given"] - given <= 3, "one, and one for all that asked again"


async def test_unsent_operations_slow_new_ones_without_a_backup_too(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group(lag_operations=5) as group:
        (live,) = await group.start("A")
        gate = trio.Event()
        usual = live.channel.send

        async def stuck(payload: Any, to: Any = None, **options: Any) -> None:
            await gate.wait()
            await usual(payload, to, **options)

        monkeypatch.setattr(live.channel, "send", stuck)
        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(live.run, put, "q", n)
            await trio.sleep(1)
            assert live.statistics()["waiting_messages"] <= 6
            assert live.statistics()["slowed"] >= 40
            gate.set()
        assert len(states(live)["Queue/q"]["messages"]) == 50


async def test_few_operations_begin_without_a_look_at_small_limits(autojump_clock: Any) -> None:
    """Seven may be under way. The first ones begin far from the limit, where the live node looks seldom."""
    async with livebackup_group(lag_operations=7, lag_aim=0.0) as group:
        live, backup = await group.start("AB")
        slow(backup, 1.0)
        running = 0

        async def client(number: int) -> None:
            await live.run(put, "q", number)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(client, number)
                await trio.lowlevel.checkpoint()
                found = live.statistics()["lag_operations"]
                running = max(running, int(found))
            await trio.sleep(0.5)
            assert max(running, int(live.statistics()["lag_operations"])) <= 7
            assert live.statistics()["slowed"] >= 33


async def test_no_operation_begins_in_the_pause_of_a_snapshot_or_after_the_end(
    autojump_clock: Any,
) -> None:
    """Not even within the millisecond after another one has begun, in which the live node does not look at its limits."""
    async with livebackup_group() as group:
        (live,) = await group.start("A")
        assert live._leading is not None
        side, began = live._leading.side, trio.current_time()

        async def run_at(seconds: float, *given: Any) -> None:
            await trio.sleep_until(began + seconds)
            await live.run(*given)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_at, 0.0, slow_put, "first", 1, 1.0)
            await trio.sleep(0.5)
            nursery.start_soon(side.snapshot, SnapshotAsk(1, 0))
            nursery.start_soon(run_at, 0.9999, slow_put, "second", 1, 1.0)
            nursery.start_soon(run_at, 1.0001, put, "q", 1)
            await trio.sleep(1)
            assert "Queue/second" in states(live) and "Queue/q" not in states(live)
        assert "Queue/q" in states(live)
        side.end()
        with pytest.raises(NotLive):
            await side.run("put", put, ("q", 3))


async def test_answers_wait_once_and_operations_each_time() -> None:
    sent: list[tuple[bytes, str | None]] = []

    async def send(data: bytes, to: str | None) -> None:
        sent.append((data, to))
        if len(sent) == 8:
            scope.cancel()

    out: Outgoing[str] = Outgoing(send, lambda: None, partial(send, to=None))
    for n in range(3):
        out.operation(bytes([n]))
        out.say(b"lead", "B", once=("lead", 1))
        out.say(b"lead", "C", once=("lead", 1))
        out.say(b"confirm", "B")
    assert (out.messages, out.operations, out.bytes) == (8, 3, 3)
    with trio.CancelScope() as scope:
        await out.run()
    assert [data for data, _ in sent] == [
        *(b"\x00", b"lead", b"lead", b"confirm", b"\x01", b"confirm", b"\x02", b"confirm")
    ]
    assert (out.messages, out.operations, out.bytes) == (0, 0, 0)
    out.say(b"lead", "B", once=("lead", 1))
    assert out.messages == 1, "it may wait again"


async def test_operations_that_wait_are_sent_together_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = [encode(Op(1, n, "put", [bytes(n)], 0.0, 1, [], "")) for n in range(1, 8)]
    size = sum(map(len, ops[:4]))
    monkeypatch.setattr("jgroups_py.livebackup.outgoing.TOGETHER_BYTES", size)
    sent: list[bytes] = []
    freed: list[int] = []

    async def send(data: bytes, to: Any) -> None:
        sent.append(data)
        if len(sent) == 4:
            scope.cancel()

    out: Outgoing[str] = Outgoing(
        send, lambda: freed.append(out.operations), partial(send, to=None)
    )
    for n, op in enumerate(ops):
        out.operation(op)
        if n == 5:
            out.say(b"lead")
    with trio.CancelScope() as scope:
        await out.run()
    assert [_numbers(data) for data in sent] == [[1, 2, 3, 4], [5, 6], "lead", [7]]
    assert freed == [3, 1, 0] and (out.bytes, out.messages) == (0, 0)
    assert sent[3] == ops[6], "one alone is as it is"


def _numbers(data: bytes) -> Any:
    if data == b"lead":
        return "lead"
    found = decode(data)
    return [op.number for op in (found.operations if isinstance(found, Ops) else [found])]  # type: ignore[union-attr]


# --- missing methods


@pytest.mark.parametrize("alone", [False, True])
async def test_a_call_of_a_method_that_is_not_there_makes_no_object(alone: bool) -> None:
    space = Space(Catalogue.of(KINDS, OPERATIONS))
    work: Work = AloneWork("test", 0.0, 1, space) if alone else live_work(space)

    async def operation(work: Work) -> None:
        await work.get(Queue, "a").no_such()

    with pytest.raises(BadOperation, match="Queue/a has no public method no_such"):
        await work.run(operation, ())
    assert len(space) == 0


async def wrong(work: Work) -> None:
    await work.get(Queue, "a").no_such()


async def test_a_call_of_a_method_that_is_not_there_makes_no_object_on_the_backup(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        group.also(operations=(wrong,))
        live, backup = await group.start("AB")
        with pytest.raises(BadOperation, match="no public method"):
            await live.run(wrong)
        assert await group.equal() == {}
        assert backup.counts["diverged"] == 0


# --- methods that are cancelled half-way


class Slow(Stateful):
    def __init__(self) -> None:
        self.steps: list[int] = []

    @undone_by("unmake")
    async def make(self, step: int) -> int:
        self.steps.append(step)
        await trio.sleep(100)
        self.steps.append(step)
        return step

    def unmake(self, value: int, step: int) -> None:
        del self.steps[-2:]


@pytest.mark.seed("P13")
async def test_a_method_that_is_cancelled_half_way_is_reversed_though_another_method_undoes_it(
    autojump_clock: Any,
) -> None:
    found = Object("Slow/s", Slow())
    with trio.move_on_after(1):
        await found.call_undoable("make", (1,))
    assert vars(found.state) == {"steps": []}
    outcome, undo = await found.call_undoable("make", (2,))
    assert outcome.value == 2 and vars(found.state) == {"steps": [2, 2]}
    undo()
    assert vars(found.state) == {"steps": []}


# --- the list travels


@pytest.mark.seed("P10")
async def test_the_list_of_numbers_travels_with_the_operation(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        sent: list[Any] = []
        usual = live.channel.send

        async def note(payload: Any, to: Any = None, **options: Any) -> None:
            sent.append(decode(payload))
            await usual(payload, to, **options)

        monkeypatch.setattr(live.channel, "send", note)
        await live.run(put, "a", 1)
        await live.run(put_both, "a", "b", 2, 0.0)
        assert [op.record for op in sent if isinstance(op, Op)] == [
            [("Queue/a", 1)],
            [("Queue/a", 2), ("Queue/b", 1)],
        ]
        assert len(encode(sent[0])) < 100
