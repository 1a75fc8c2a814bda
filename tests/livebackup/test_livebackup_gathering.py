"""Messages wait for others of their kind before they are sent: tests of the waiting times."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from livebackup_group import livebackup_group, put, slow, slow_put

from jgroups_py.livebackup.gathering import (
    CROWD_FROM,
    GATHER_FROM,
    GATHER_MANY,
    GATHER_SECONDS,
    Gathering,
)
from jgroups_py.livebackup.messages import Confirm, Op, Ops, decode, encode
from jgroups_py.livebackup.outgoing import TOGETHER_BYTES, Crowd, Outgoing

SOON = GATHER_SECONDS / 10


async def test_no_message_waits_while_few_operations_are_under_way(autojump_clock: Any) -> None:
    began = trio.current_time()
    await Gathering().rest(GATHER_FROM - 1)
    await Gathering().rest(GATHER_FROM, gains=False)
    assert trio.current_time() == began
    await Gathering().rest(GATHER_FROM)
    assert trio.current_time() == pytest.approx(began + GATHER_SECONDS)


async def test_a_gathering_wait_can_be_cut_short_and_is_full_the_next_time(
    autojump_clock: Any,
) -> None:
    gathering = Gathering()
    gathering.hurry()  # no operation waits
    for waited in (SOON, GATHER_SECONDS):
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(gathering.rest, GATHER_FROM)
            await trio.sleep(SOON)
            if waited == SOON:
                gathering.hurry()
        assert trio.current_time() == pytest.approx(began + waited)


class Sent:
    """An Outgoing, its sent messages and their times."""

    def __init__(self, under_way: int, in_line: int) -> None:
        self.under_way, self.in_line = under_way, in_line
        self.sizes: list[int] = []
        self.times: list[float] = []
        self.out: Outgoing[str] = Outgoing(
            self.send,
            lambda: None,
            partial(self.send, to=None),
            lambda: Crowd(self.under_way + self.out.operations, self.in_line),
        )

    async def send(self, data: bytes, to: Any) -> None:
        found = decode(data)
        self.sizes.append(len(found.operations) if isinstance(found, Ops) else 1)
        self.times.append(trio.current_time())

    def operation(self, size: int = 1) -> None:
        self.out.operation(encode(Op(1, 1, "put", [bytes(size)], 0.0, 1, [], "")))


@asynccontextmanager
async def outgoing(under_way: int, in_line: int = GATHER_FROM) -> AsyncIterator[Sent]:
    sent = Sent(under_way, in_line)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sent.out.run)
        await trio.testing.wait_all_tasks_blocked()
        yield sent
        await trio.sleep(1)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("under_way", [GATHER_FROM, GATHER_FROM - 1])
@pytest.mark.parametrize("in_line", [GATHER_FROM, GATHER_FROM - 1])
async def test_operations_that_come_within_a_millisecond_are_one_message_when_many_are_under_way(
    under_way: int, in_line: int, autojump_clock: Any
) -> None:
    """They are one message even when other operations wait for objects."""
    many = 7 + 1  # in a millisecond and at its end
    sizes = [many, 2] if under_way + in_line == 2 * GATHER_FROM else [1] * 10
    async with outgoing(under_way, in_line) as sent:
        for _ in range(10):
            sent.operation()
            await trio.sleep(GATHER_SECONDS / 7.5)
    assert sent.sizes == sizes


async def test_operations_that_wait_to_be_sent_are_not_under_way(autojump_clock: Any) -> None:
    async with outgoing(0) as sent:
        began = trio.current_time()
        for _ in range(2 * GATHER_FROM):
            sent.operation()
    assert sent.sizes == [2 * GATHER_FROM] and sent.times == [began]


async def _turns(number: int) -> None:
    """Keep the loop busy for some turns."""
    for _ in range(number):
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("under_way", "busy", "sizes"),
    [
        (CROWD_FROM, True, [3]),
        (CROWD_FROM, False, [1, 1, 1]),
        (CROWD_FROM - 1, True, [1, 1, 1]),
    ],
)
async def test_a_crowd_gathers_while_the_node_is_busy_though_nobody_waits_for_objects(
    under_way: int, busy: bool, sizes: list[int], autojump_clock: Any
) -> None:
    async with outgoing(under_way, in_line=0) as sent:
        for _ in range(3):
            sent.operation()
            if busy:
                await _turns(5)
            else:
                await trio.sleep(SOON)
    assert sent.sizes == sizes


async def test_a_busy_node_with_a_crowd_sends_after_a_millisecond(autojump_clock: Any) -> None:
    async with outgoing(CROWD_FROM, in_line=0) as sent:
        sent.operation()
        await _turns(5)
        autojump_clock.jump(GATHER_SECONDS / 2)
        await _turns(5)
        assert sent.sizes == []
        autojump_clock.jump(GATHER_SECONDS)
        await _turns(5)
        assert sent.sizes == [1]


async def test_many_operations_do_not_overtake_a_message_that_is_on_its_way(
    autojump_clock: Any,
) -> None:
    async with outgoing(GATHER_FROM) as sent:
        gate, usual = trio.Event(), sent.out._send

        def overtaking(*given: Any) -> bool:
            sent.sizes.append(99)
            return True

        sent.out._at_once = overtaking

        async def stuck(data: bytes, to: Any) -> None:
            await gate.wait()
            await usual(data, to)

        sent.out._send = stuck
        sent.out.say(encode(Confirm(1, [1])), "B")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(GATHER_MANY):
            sent.operation()
        await trio.sleep(1)
        assert sent.sizes == []
        gate.set()
    assert sent.sizes == [1, GATHER_MANY]


@pytest.mark.parametrize("blocked", [False, True])
async def test_many_operations_leave_in_the_step_in_which_the_last_of_them_ends(
    blocked: bool, autojump_clock: Any
) -> None:
    """They do not wait for a turn of the loop, unless the channel has no room or another message is before them."""
    async with outgoing(GATHER_FROM) as sent:
        at_once: list[int] = []

        def send(data: bytes, to: Any, to_others: bool) -> bool:
            assert to is None and to_others
            if not blocked:
                found = decode(data)
                assert isinstance(found, Ops)
                at_once.append(len(found.operations))
            return not blocked

        sent.out._at_once = send
        for _ in range(GATHER_MANY - 1):
            sent.operation()
        assert at_once == []
        sent.operation()
        assert at_once == [GATHER_MANY] * (not blocked)
        assert (sent.out.operations, sent.out.messages) == (
            (GATHER_MANY, GATHER_MANY) if blocked else (0, 0)
        )
        await trio.sleep(1)
        assert sent.sizes == [GATHER_MANY] * blocked
        sent.out._at_once = lambda *given: False
        sent.out.say(encode(Confirm(1, [1])), "B")
        sent.out._at_once = send
        for _ in range(GATHER_MANY):
            sent.operation()
        assert len(at_once) == (not blocked), "the message before them is not overtaken"
    assert sent.sizes == [GATHER_MANY] * blocked + [1, GATHER_MANY]


async def test_the_wait_of_operations_begins_anew_when_others_have_left(
    autojump_clock: Any,
) -> None:
    async with outgoing(GATHER_FROM) as sent:
        sent.out._at_once = lambda *given: True
        began = trio.current_time()
        sent.operation()
        await trio.sleep(GATHER_SECONDS / 2)
        for _ in range(GATHER_MANY):
            sent.operation()
        await trio.sleep(1)
        assert sent.sizes == [1]
        assert sent.times[0] == pytest.approx(began + 1.5 * GATHER_SECONDS)


async def test_many_operations_do_not_wait_for_more(autojump_clock: Any) -> None:
    async with outgoing(GATHER_FROM) as sent:
        began = trio.current_time()
        for _ in range(GATHER_MANY):
            sent.operation()
        await trio.sleep(1)
        again = trio.current_time()
        for _ in range(GATHER_MANY):
            sent.operation()
            await trio.sleep(SOON / GATHER_MANY)
    assert sent.sizes == [GATHER_MANY] * 2
    assert sent.times[0] == began and sent.times[1] < again + SOON


@pytest.mark.parametrize("what", ["another message", "many bytes", "it is told to hurry"])
async def test_operations_wait_no_longer_for(what: str, autojump_clock: Any) -> None:
    async with outgoing(GATHER_FROM) as sent:
        sent.operation(TOGETHER_BYTES)
        await trio.testing.wait_all_tasks_blocked()
        assert sent.sizes == [1], "a message that is full does not wait at all"
        began = trio.current_time()
        sent.operation()
        await trio.sleep(SOON)
        if what == "another message":
            sent.out.say(encode(Confirm(1, [1])), "B")
        elif what == "many bytes":
            sent.operation(TOGETHER_BYTES)
        else:
            sent.out.hurry()
    assert sent.times[1] == pytest.approx(began + SOON)


async def test_operations_that_come_while_others_are_sent_wait_for_more(
    autojump_clock: Any,
) -> None:
    async with outgoing(GATHER_FROM) as sent:
        slow = sent.send

        async def send(data: bytes) -> None:
            if len(sent.sizes) < 9:
                sent.operation()
            await trio.lowlevel.checkpoint()
            await slow(data, None)

        sent.out._send_to_others = send
        sent.operation()
        sent.operation()
        await trio.sleep(GATHER_SECONDS * 4.5)
    assert sent.sizes[:4] == [2, 1, 1, 1]
    assert sent.times[3] - sent.times[0] == pytest.approx(3 * GATHER_SECONDS)


def _counted(node: Any) -> list[bytes]:
    """Return a list that gets the messages that the node sends from now on."""
    sent: list[bytes] = []
    usual, usual_to_others = node.out._send, node.out._send_to_others

    async def send(data: bytes, to: Any) -> None:
        sent.append(data)
        await usual(data, to)

    async def send_to_others(data: bytes) -> None:
        sent.append(data)
        await usual_to_others(data)

    def at_once(data: bytes, to: Any, to_others: bool) -> bool:
        was_sent: bool = usual_at_once(data, to, to_others)
        if was_sent:
            sent.append(data)
        return was_sent

    usual_at_once = node.out._at_once
    node.out._send, node.out._send_to_others = send, send_to_others
    node.out._at_once = at_once
    return sent


async def test_clients_that_wait_for_objects_make_few_messages_and_few_confirmations(
    autojump_clock: Any,
) -> None:
    async with livebackup_group(lag_aim=0.0) as group:
        live, backup = await group.start("AB")
        operations, confirmations = _counted(live), _counted(backup)

        async def client(number: int) -> None:
            for _ in range(5):
                await live.run(slow_put, f"q{number % 10}", "m", 0.002 + number / 100_000)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(client, number)
        assert len(operations) <= 100 >= len(confirmations), "of 200 operations"


async def _time_of(live: Any, queue: str, seconds: float) -> float:
    began = trio.current_time()
    await live.run(slow_put, queue, "m", seconds)
    return trio.current_time() - began


async def _operations(live: Any, nursery: trio.Nursery, *seconds: float) -> list[float]:
    """Start operations, each at an object of its own. Return the times to their answers, after all have come."""
    times: list[float] = []

    async def client(number: int) -> None:
        times.append(await _time_of(live, f"q{number}", seconds[number]))

    for number in range(len(seconds)):
        nursery.start_soon(client, number)
    return times


async def _waiting(live: Any, nursery: trio.Nursery) -> None:
    """Start clients that wait for an object for a long time."""
    for _ in range(1 + GATHER_FROM):
        nursery.start_soon(live.run, slow_put, "long", "m", 60.0)
    await trio.testing.wait_all_tasks_blocked()


async def test_clients_that_need_not_wait_for_objects_have_their_answers_at_once(
    autojump_clock: Any,
) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        async with trio.open_nursery() as nursery:
            times = await _operations(
                live, nursery, *(0.01 + SOON * n for n in range(2 * GATHER_FROM))
            )
    for number, time in enumerate(times):
        assert time == pytest.approx(2 * (0.01 + SOON * number), abs=SOON / 2)


async def test_a_backup_that_has_nothing_left_confirms_at_once(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        async with trio.open_nursery() as nursery:
            await _waiting(live, nursery)
            several = [0.01 + SOON] * GATHER_FROM
            times = await _operations(live, nursery, 0.01 + SOON / 2, *several)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert max(times) < 0.02 + 5 * SOON, "the first one waits for the others, and no longer"
    assert times[0] == pytest.approx(times[-1], abs=SOON)


async def test_a_backup_whose_operations_have_all_ended_confirms_at_once(
    autojump_clock: Any,
) -> None:
    """The wait for more confirmations began while others waited for the object."""
    async with livebackup_group(lag_aim=0.0) as group:
        live, backup = await group.start("AB")
        slow(backup, SOON)
        began, times = trio.current_time(), list[float]()

        async def client(number: int) -> None:
            await live.run(put, "q", number)
            times.append(trio.current_time() - began)

        async with trio.open_nursery() as nursery:
            for number in range(2 + GATHER_FROM):
                nursery.start_soon(client, number)
    assert max(times) == pytest.approx(SOON * (2 + GATHER_FROM), abs=SOON / 2)


@pytest.mark.parametrize("in_line", [True, False])
async def test_a_backup_with_a_crowd_confirms_many_together_and_no_later(
    in_line: bool, autojump_clock: Any
) -> None:
    """Operations of a crowd end one by one, all within a tenth of the time that a confirmation may wait. If no operation
    waits for an object, the backup has nothing to do between these ends, and sends each confirmation alone."""
    async with livebackup_group(lag_aim=0.0) as group:
        live, backup = await group.start("AB")
        async with trio.open_nursery() as nursery:
            if in_line:
                slow(backup, 1_000.0)
                for number in range(2 + GATHER_FROM):
                    nursery.start_soon(live.run, put, "q", number)
            for number in range(CROWD_FROM):
                nursery.start_soon(live.run, slow_put, f"long{number}", "m", 6.0)
            await trio.sleep(9)  # on the backup they run three seconds longer
            confirmations = _counted(backup)
            step = SOON / GATHER_MANY
            times = await _operations(
                live, nursery, *(0.01 + step * number for number in range(GATHER_MANY))
            )
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    assert len(times) == GATHER_MANY and max(times) < 0.02 + 5 * SOON
    assert len(confirmations) == (1 if in_line else GATHER_MANY)


async def test_operations_are_sent_when_those_under_way_are_confirmed(autojump_clock: Any) -> None:
    async with livebackup_group() as group:
        live, _ = await group.start("AB")
        async with trio.open_nursery() as nursery:
            await _waiting(live, nursery)
            await _operations(live, nursery, *[0.01] * GATHER_FROM)
            await trio.sleep(0.02 - SOON)
            assert await _time_of(live, "q", 0.0) == pytest.approx(SOON, rel=0.5)
            nursery.cancel_scope.cancel()
