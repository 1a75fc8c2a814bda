"""The channel on the full stack of sim.xml, on a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import trio
from test_channel_stream import take

from jgroups_py import Batch, Channel, MemoryNetwork, Message, State, View, open_channel


@pytest.fixture
def open_sim() -> Any:
    return partial(open_channel, "sim.xml", cluster="test", transport=MemoryNetwork())


async def test_members_join_talk_and_leave(open_sim: Any, autojump_clock: Any) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        async with open_sim(name="C") as c:
            await c.send(b"from c")
            await a.send(b"to b", to=b.address)
            assert await take(b, 2) in (
                [["A", "B", "C"], ("C", b"from c")],
                [["A", "B", "C"], ("A", b"to b")],
            )
        await trio.sleep(1)
        assert [a.name_of(m) for m in a.view] == ["A", "B"]
        assert a.view == b.view


async def test_messages_larger_than_a_datagram_arrive(open_sim: Any, autojump_clock: Any) -> None:
    large = bytes(range(256)) * 2000
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        await a.send(large)
        await a.send(large[1:], to=b.address)
        got = {payload for _, payload in (await take(b, 3))[1:]}
        assert got == {large, large[1:]}


async def test_a_reader_that_does_not_read_stops_its_senders(
    open_sim: Any, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while True:
                await a.send(bytes(10_000))
                sent += 1

        async def read(channel: Channel) -> None:
            async for _ in channel.batches():
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, a)
            with trio.move_on_after(20):
                await flood()
            # 4 MB of credit, and the messages on their way when it ran out
            assert 300 <= sent <= 700
            assert b.statistics().waiting <= sent
            nursery.start_soon(read, b)
            with trio.fail_after(10):
                for _ in range(2000):
                    await a.send(bytes(10_000))
            nursery.cancel_scope.cancel()


async def test_ones_own_unread_messages_count_too(
    open_sim: Any, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_sim(name="A") as a:
        with trio.move_on_after(20):
            for _ in range(2000):
                await a.send(bytes(10_000))
            pytest.fail("nothing stopped us")
        assert a.statistics().waiting < 700
        assert "this member's own reader" in caplog.text


async def test_the_state_comes_first_and_later_messages_follow(
    open_sim: Any, autojump_clock: Any
) -> None:
    total = 0

    async def state() -> AsyncIterator[bytes]:
        yield str(total).encode()

    async def count(channel: Channel) -> None:
        nonlocal total
        async for item in channel.batches():
            if isinstance(item, Batch):
                total += len(item)

    async with open_sim(name="A", state=state) as a, trio.open_nursery() as nursery:
        nursery.start_soon(count, a)
        for _ in range(100):
            await a.send(b"x")
        await trio.sleep(0.1)

        async def go_on() -> None:
            while True:
                await a.send(b"y")
                await trio.sleep(0.001)

        nursery.start_soon(go_on)
        async with open_sim(name="B", get_state=True) as b:
            first = await anext(b)
            assert isinstance(first, State)
            assert first.provider == a.address
            seen = int(first.payload)
            assert seen >= 100
            with trio.move_on_after(0.5):
                async for item in b:
                    if isinstance(item, Message):
                        seen += 1
            assert abs(seen - total) <= 2
        nursery.cancel_scope.cancel()


async def test_the_first_member_has_no_state_to_wait_for(
    open_sim: Any, autojump_clock: Any
) -> None:
    async with open_sim(name="A", get_state=True) as a:
        assert isinstance(await anext(a), View)


async def test_a_member_whose_process_stops_is_expelled(open_sim: Any, autojump_clock: Any) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        await trio.sleep(0.1)
        assert len(a.view) == 2
        b.driver.close_all()  # a crash: without a goodbye
        await trio.sleep(100)
        assert a.view.members == (a.address,)


async def test_twenty_members_live_in_one_process(open_sim: Any, autojump_clock: Any) -> None:
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:
        members = [await stack.enter_async_context(open_sim(name=f"M{n}")) for n in range(20)]
        await trio.sleep(1)
        assert {len(member.view) for member in members} == {20}
        await members[7].send(b"to all")
        for member in members:
            assert (await take(member, 2))[-1] == ("M7", b"to all")
