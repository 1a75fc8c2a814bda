"""Reading: one ordered stream of views and messages; taking gives credit back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from toy import TOY

from jgroups_py import Batch, Channel, ChannelLimits, Expelled, Message, View
from jgroups_py.values.batch import Credit
from jgroups_py.values.events import Event, Expel


async def take(channel: Channel, count: int) -> list[Any]:
    """Items, views as lists of names and messages as (sender's name, payload)."""
    items: list[Any] = []
    with trio.fail_after(30):
        async for item in channel:
            if isinstance(item, Message):
                items.append((channel.name_of(item.sender), item.payload))
            elif isinstance(item, View):
                items.append([channel.name_of(member) for member in item])
            if len(items) == count:
                break
    return items


def toy_of(channel: Channel) -> TOY:
    toy = channel.stack.find(TOY)
    assert toy is not None
    return toy


def from_below(channel: Channel, *what: Event | Batch) -> None:
    """Let the stack hand up these items."""
    toy = toy_of(channel)
    toy.machine.enter()
    for one in what:
        if isinstance(one, Batch):
            toy.pass_up(one)
        else:
            toy.pass_event_up(one)
    toy.machine.leave()


async def test_views_and_messages_come_in_one_order(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        await a.send(b"alone")
        await trio.sleep(0.1)
        async with open_toy(name="B") as b:
            await trio.sleep(0.1)
            await b.send(b"hello")
            await trio.sleep(0.1)
        assert await take(a, 5) == [
            ["A"],
            ("A", b"alone"),
            ["A", "B"],
            ("B", b"hello"),
            ["A"],
        ]


async def test_views_with_nothing_between_them_merge_into_the_newest(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        async with open_toy(name="B"), open_toy(name="C"):
            await trio.sleep(0.1)
        await trio.sleep(0.1)
        await a.send(b"end")
        assert await take(a, 2) == [["A"], ("A", b"end")]
        assert a.statistics().merged_views == 4


async def test_a_unicast_reaches_only_its_destination(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a, open_toy(name="B") as b:
        await trio.sleep(0.1)
        await a.send(b"for b", to=b.address)
        await a.send(b"for all")
        await trio.sleep(0.1)
        assert await take(a, 2) == [["A", "B"], ("A", b"for all")]
        assert await take(b, 3) == [["A", "B"], ("A", b"for b"), ("A", b"for all")]


async def test_batches_give_whole_runs_and_go_on_where_messages_stopped(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        assert await take(a, 1) == [["A"]]
        from_below(a, Batch(None, (b"1", b"2", b"3"), {}, a.address))
        assert await take(a, 1) == [("A", b"1")]
        rest = await anext(a.batches())
        assert isinstance(rest, Batch)
        assert list(rest.payloads) == [b"2", b"3"]


async def test_credit_goes_back_when_the_last_message_of_a_run_is_taken(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        toy = toy_of(a)
        run = Batch(None, (b"12", b"34"), {}, a.address, credits=(Credit(a.address, True, 4),))
        from_below(a, run)
        await take(a, 2)  # the view and the first message
        await trio.sleep(0.1)
        assert toy.consumed == 0
        await take(a, 1)
        await trio.sleep(0.1)
        assert toy.consumed == 4
        from_below(a, run)
        await anext(a.batches())
        await trio.sleep(0.1)
        assert toy.consumed == 8


async def test_a_second_reader_is_refused(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a, trio.open_nursery() as nursery:
        await take(a, 1)
        nursery.start_soon(anext, a)
        await trio.sleep(0.1)
        with pytest.raises(trio.BusyResourceError):
            await anext(a)
        await a.send(b"x")


async def test_an_expelled_member_reads_earlier_items_and_then_the_error(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        from_below(a, Batch(None, (b"last",), {}, a.address), Expel(None, "they forgot us"))
        assert await take(a, 2) == [["A"], ("A", b"last")]
        with pytest.raises(Expelled, match="they forgot us"):
            await anext(a)
        with pytest.raises(Expelled, match="they forgot us"):
            await a.send(b"x")


async def test_a_reader_that_never_reads_leaves_after_slow_reader_timeout(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_toy(name="A") as a, open_toy(name="B", slow_reader_timeout=10) as b:
        started = trio.current_time()
        await a.send(b"unread")
        with pytest.raises(Expelled, match="reader took nothing"):  # noqa: PT012
            while True:
                await trio.sleep(0.5)
                b.send_nowait(b"still here")
        assert 10 <= trio.current_time() - started <= 13
        await trio.sleep(0.1)
        assert a.view.members == (a.address,)
    assert "leaving the group" in caplog.text


async def test_a_slow_reader_waits_for_ever_by_default(open_toy: Any, autojump_clock: Any) -> None:
    async with open_toy(name="A") as a:
        await a.send(b"unread")
        await trio.sleep(1000)
        assert await take(a, 2) == [["A"], ("A", b"unread")]


async def test_without_flow_control_a_full_stream_makes_the_member_leave(
    open_toy: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ChannelLimits(receive_buffer_max=1000)
    async with open_toy(name="A") as a, open_toy(name="B", limits=limits) as b:
        await trio.sleep(0.1)
        for _ in range(11):
            await a.send(bytes(100))
            await trio.sleep(0.1)
        with pytest.raises(Expelled, match="did not keep up"):
            b.send_nowait(b"x")
        assert a.view.members == (a.address,)
    assert "receive_buffer_max" in caplog.text


async def test_bytes_under_flow_control_do_not_count_against_that_limit(
    open_toy: Any, autojump_clock: Any
) -> None:
    limits = ChannelLimits(receive_buffer_max=1000)
    async with open_toy(name="A", limits=limits) as a:
        toy_of(a).credited = True
        for _ in range(30):
            await a.send(bytes(100))
        await trio.sleep(0.1)
        assert len(await take(a, 31)) == 31


class Reader:
    """A block on top, whose application has taken seven messages; three more wait."""

    def reading(self) -> tuple[object, int]:
        return "seven", 3

    def ended(self, error: Exception) -> None:
        pass


async def test_the_position_of_a_reader_is_asked_of_the_block_that_reads_for_the_application(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        from_below(a, Batch(None, (b"1", b"2"), {}, a.address))
        own = a.reading()
        assert own[1] == 2
        reader: Any = Reader()
        a.attach(reader)
        assert a.reading() == ("seven", 3 + 2)
        a.detach([])
        assert a.reading() == own


@pytest.mark.parametrize("method", ["__anext__", "next_batch"])
async def test_reading_after_the_end_says_so(
    open_toy: Any, autojump_clock: Any, method: str
) -> None:
    from jgroups_py import ChannelClosed

    async with open_toy(name="A") as a:
        read: Callable[[], Any] = getattr(a, method)
    with pytest.raises(ChannelClosed):
        await read()
    with pytest.raises(trio.ClosedResourceError):
        await a.send(b"x")


async def test_a_member_that_is_given_up_twice_leaves_once(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        down: list[int] = []
        disconnect = a.stack.disconnect

        def noted() -> None:
            down.append(1)
            disconnect()

        a.stack.disconnect = noted
        a.abandon("the reader is slow")
        a._disconnect()
        await trio.sleep(1)
        assert down == [1]


async def test_a_block_takes_messages_in_the_step_in_which_they_arrive_while_the_reader_waits(
    open_toy: Any, autojump_clock: Any
) -> None:
    async with open_toy(name="A") as a:
        toy, taken = toy_of(a), list[bytes]()

        def take_at_once(batch: Batch) -> bool:
            taken.extend(batch.payloads)
            return batch.payloads != (b"for the reader",)

        def arrives(payload: bytes) -> None:
            credit = (Credit(a.address, True, len(payload)),)
            from_below(a, Batch(None, (payload,), {}, a.address, credits=credit))

        a.take_at_once(take_at_once)
        arrives(b"before the reader waits")
        assert taken == []
        read = list[Any]()
        async with trio.open_nursery() as nursery:

            async def reader() -> None:
                read.extend(await take(a, 3))

            nursery.start_soon(reader)
            await trio.testing.wait_all_tasks_blocked()
            arrives(b"at once")
            assert taken == [b"at once"]
            await trio.sleep(0.1)
            assert toy.consumed == len(b"before the reader waits" + b"at once")
            arrives(b"for the reader")
            arrives(b"after it")  # the reader has an item and does not wait
            assert taken == [b"at once", b"for the reader"]
        assert [payload for _, payload in read[1:]] == [
            b"before the reader waits",
            b"for the reader",
        ]
