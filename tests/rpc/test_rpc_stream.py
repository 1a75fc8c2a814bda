"""Calls beside views, messages and states: one stream, in order, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from rpc_nodes import Open, Target, nodes

from jgroups_py import (
    Batch,
    ChannelClosed,
    Expelled,
    LocalProtocolError,
    Message,
    ReplyLost,
    Rpc,
    open_rpc,
)
from jgroups_py.rpc import Methods


async def test_views_and_messages_still_come_and_calls_do_not_wait_for_them(
    open_sim: Open,
    autojump_clock: Any,
) -> None:
    async with nodes(open_sim) as (a, b):
        await a.channel.send(b"one")
        assert await a.rpc.call(b.address, "add", 1, 2) == 3
        await a.channel.send(b"two")
        got: list[Any] = []
        async for item in b.rpc:
            got.append(item.payload if isinstance(item, Message) else item)
            if got[-1] == b"two":
                break
        assert got == [b.channel.view, b"one", b"two"]
        with pytest.raises(LocalProtocolError, match="read by the RPC"):
            await b.channel.next_batch()
        with pytest.raises(LocalProtocolError, match="read by the RPC"):
            await anext(b.channel)
        await a.channel.send(b"three")
        batch = await b.rpc.next_batch()
        assert isinstance(batch, Batch) and bytes(batch.payloads[0]) == b"three"


async def test_unread_messages_stop_their_senders_and_calls_go_on(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, b):
        sent = 0
        with trio.move_on_after(5) as scope:
            while True:
                await a.channel.send(bytes(50_000), loopback=False)
                sent += 1
        assert scope.cancelled_caught
        assert await b.rpc.call(a.address, "add", 1, 2) == 3
        assert await a.rpc.call(b.address, "add", 1, 2) == 3
        got = 0
        while got < sent:
            got += isinstance(await anext(b.rpc), Message)
        with trio.fail_after(1):
            await a.channel.send(b"again")


async def test_in_order_a_request_waits_for_the_reader(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim) as (a, _), open_sim(name="C") as channel:
        target = Target()
        async with open_rpc(channel, target, in_order=True) as rpc:
            await a.channel.send(b"before", channel.address)
            await a.rpc.cast("note", 1, dests=channel.address)
            await trio.sleep(1)
            assert target.seen == []
            seen_at = []
            with trio.move_on_after(5):
                async for item in rpc:
                    await trio.sleep(1)  # still running
                    if isinstance(item, Message):
                        seen_at.append(list(target.seen))
            assert seen_at == [[]] and target.seen == [1]


async def test_a_request_is_served_in_the_view_it_came_in(
    open_sim: Open, autojump_clock: Any
) -> None:
    class Sees(Target):
        rpc: Rpc

        def size(self) -> int:
            return len(self.rpc.view)

    async with open_sim(name="A") as a, open_sim(name="B") as b:
        target = Sees()
        async with open_rpc(a) as rpc, open_rpc(b, target) as target.rpc:
            await a.wait_members(2)
            assert await rpc.call(b.address, "size") == 2
            async with open_sim(name="C"):
                await a.wait_members(3)
                assert await rpc.call(b.address, "size") == 3


async def test_unread_items_come_from_the_channel_after_the_block(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        async with open_rpc(b):
            await a.send(b"one", b.address)
            await a.send(b"two", b.address)
            await trio.sleep(1)
        await a.send(b"three", b.address)
        got = []
        async for item in b:
            if isinstance(item, Message):
                got.append(item.payload)
                if len(got) == 3:
                    break
        assert got == [b"one", b"two", b"three"]


async def test_the_state_is_made_between_requests(open_sim: Open, autojump_clock: Any) -> None:
    """A joiner that fetches the state and then counts casts gets each cast exactly once."""
    total = {"A": 0, "B": 0}

    async def state() -> AsyncIterator[bytes]:
        yield str(total["A"]).encode()

    def counter(name: str) -> Methods:
        def count(n: int) -> None:
            total[name] += n

        return Methods({"count": count})

    async with open_sim(name="A", state=state) as a, open_rpc(a, counter("A")) as rpc:

        async def cast() -> None:
            for _ in range(300):
                await rpc.cast("count", 1)
                await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cast)
            await trio.sleep(0.5)
            async with open_sim(name="B") as b, open_rpc(b, counter("B")):
                await trio.sleep(0.3)
                got = b"".join([part async for part in b.fetch_state()])
                total["B"] = int(got)
                await trio.sleep(10)
                assert total == {"A": 300, "B": 300}


async def test_messages_in_a_fetched_state_are_not_read_after_it(
    open_sim: Open, autojump_clock: Any
) -> None:
    async def state() -> AsyncIterator[bytes]:
        yield b"state"

    async with (
        open_sim(name="A", state=state) as a,
        open_rpc(a),
        open_sim(name="B") as b,
        open_rpc(b) as rpc,
    ):
        await a.send(b"in the state")
        await a.send(b"to one", b.address)
        await trio.sleep(1)
        assert [part async for part in b.fetch_state()] == [b"state"]
        await a.send(b"after it")
        got = []
        async for item in rpc:
            if isinstance(item, Message):
                got.append(item.payload)
                if len(got) == 2:
                    break
        assert got == [b"to one", b"after it"]


# --- ends


async def test_leaving_the_block_ends_calls_and_handlers(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:
        target = Target()
        async with open_rpc(b, target):
            async with trio.open_nursery() as nursery:
                lost: list[Exception] = []

                async def call(rpc: Rpc) -> None:
                    try:
                        await rpc.call(b.address, "slowly", 50)
                    except ReplyLost as error:
                        lost.append(error)

                async with open_rpc(a) as rpc:
                    nursery.start_soon(call, rpc)
                    await trio.sleep(1)
                    assert target.running == 1
            assert len(lost) == 1 and "the RPC is closed before B answered" in str(lost[0])
            with pytest.raises(ChannelClosed):
                await rpc.call(b.address, "add", 1, 2)
            with pytest.raises(ChannelClosed):
                await anext(rpc)
        assert target.running == 0
        async with open_rpc(a) as again:
            assert again.channel is a


async def test_calls_end_with_the_channel(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim) as (a, b):
        caught: list[ReplyLost] = []

        async def call() -> None:
            try:
                await a.rpc.call(b.address, "slowly", 50)
            except ReplyLost as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.sleep(1)
            a.channel.abandon("a test")
        assert len(caught) == 1 and not caught[0].definite
        assert isinstance(caught[0].__cause__, Expelled)
        with pytest.raises(Expelled):
            await a.rpc.call(b.address, "add", 1, 2)


async def test_a_channel_takes_only_one_rpc(open_sim: Open, autojump_clock: Any) -> None:
    async with open_sim(name="A") as a, open_rpc(a):
        with pytest.raises(LocalProtocolError, match="open on this channel already"):
            async with open_rpc(a):
                pass


async def test_targets_of_a_call_are_checked(open_sim: Open, autojump_clock: Any) -> None:
    methods = Methods()

    @methods.add
    def plain() -> str:
        return "plain"

    @methods.add("named-so")
    async def other() -> str:
        return "other"

    with pytest.raises(LocalProtocolError, match="already"):
        methods.add("plain")(other)
    with pytest.raises(LocalProtocolError, match="1 to 255"):
        methods.add("x" * 256)(other)
    async with open_sim(name="A") as a:
        async with open_rpc(a, methods) as rpc:
            assert await rpc.call(a.address, "plain") == "plain"
            assert await rpc.call(a.address, "named-so") == "other"
        with pytest.raises(LocalProtocolError, match="cannot be called"):
            async with open_rpc(a, {"five": 5}):
                pass


async def test_a_codec_of_ones_own(open_sim: Open, autojump_clock: Any) -> None:
    class Repr:
        def encode(self, value: Any) -> bytes:
            return ",".join(value if isinstance(value, tuple) else [value]).encode()

        def decode(self, data: bytes | memoryview) -> Any:
            return bytes(data).decode().split(",")

    target = {"join": lambda x, y: x + y}
    async with open_sim(name="A") as a, open_rpc(a, target, codec=Repr()) as rpc:
        assert await rpc.call(a.address, "join", "a", "b") == ["ab"]
        with pytest.raises(LocalProtocolError, match="cannot be encoded"):
            await rpc.call(a.address, "join", 1, 2)
