"""Calls between members on a network in memory, on a clock that waits for nobody."""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from jgroups_py import (
    UUID,
    Answer,
    Batch,
    Channel,
    ChannelClosed,
    Expelled,
    LocalProtocolError,
    Message,
    NoAnswer,
    Raised,
    Refused,
    RemoteError,
    ReplyLost,
    Rpc,
    Suspected,
    Unreachable,
    View,
    ViewId,
    open_rpc,
)
from jgroups_py.rpc import Methods, RpcLimits, with_caller
from jgroups_py.rpc.correlator import GROUP_IDS
from jgroups_py.values.events import Exclude, ViewChange
from jgroups_py.values.header import Header
from jgroups_py.values.message import MessageType
from jgroups_py.wire.headers import CorrelatorHeader, CorrelatorType, FcHeader, FcType

Open = Callable[..., AbstractAsyncContextManager[Channel]]


class Target:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.running = 0
        self.most = 0
        self.pace = 0.0

    def add(self, a: int, b: int) -> int:
        return a + b

    def note(self, value: Any) -> None:
        self.seen.append(value)

    async def at_own_pace(self) -> float:
        await trio.sleep(self.pace)
        return self.pace

    async def slowly(self, seconds: float, value: Any = None) -> Any:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(seconds)
        finally:
            self.running -= 1
        return value

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def unsayable(self) -> object:
        return object()

    @with_caller
    def caller(self, caller: UUID) -> bytes:
        return bytes(caller)

    def _private(self) -> None:
        raise AssertionError("called")

    @property
    def looked_at(self) -> Any:
        raise AssertionError("looked at")


@dataclass
class Node:
    channel: Channel
    rpc: Rpc
    target: Any

    @property
    def address(self) -> UUID:
        return self.channel.address

    @property
    def counters(self) -> Any:
        return self.rpc.statistics().counters


@asynccontextmanager
async def nodes(open_sim: Open, names: str = "AB", **options: Any) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as blocks:
        found = []
        for name in names:
            channel = await blocks.enter_async_context(open_sim(name=name))
            target = Target()
            rpc = await blocks.enter_async_context(open_rpc(channel, target, **options))
            found.append(Node(channel, rpc, target))
        while any(len(node.rpc.view) < len(names) for node in found):  # noqa: ASYNC110
            await trio.sleep(0.1)
        yield found


async def replies(rpc: Rpc, *what: Any, **options: Any) -> dict[str, Any]:
    name_of = rpc.channel.name_of
    return {name_of(r.member): r async for r in rpc.call_all(*what, **options)}


async def test_a_call_gives_the_value_also_from_oneself(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, b):
        assert await a.rpc.call(b.address, "add", 1, 2) == 3
        assert await a.rpc.call(a.address, "add", 1, 2) == 3
        assert await a.rpc.call(b.address, "slowly", 5, {"k": [b"v"]}) == {"k": [b"v"]}
        assert await a.rpc.call(b.address, "caller") == a.address


async def test_values_larger_than_a_datagram_arrive(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim) as (a, b):
        large = bytes(range(256)) * 2000
        assert await a.rpc.call(b.address, "slowly", 0, large) == large
        found = await replies(a.rpc, "slowly", 0, large)
        assert [r.value == large for r in found.values()] == [True, True]


async def test_an_error_of_the_method_is_raised_at_the_caller(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, b):
        with pytest.raises(RemoteError, match="ValueError: no good") as caught:
            await a.rpc.call(b.address, "fail", "no good")
        error = caught.value
        assert (error.type, error.text, error.member) == ("ValueError", "no good", b.address)
        with pytest.raises(RemoteError, match="TypeError"):
            await a.rpc.call(b.address, "add", 1)
        with pytest.raises(RemoteError, match="cannot be encoded"):
            await a.rpc.call(b.address, "unsayable")


@pytest.mark.parametrize("method", ["missing", "_private", "__init__", "looked_at", "seen"])
async def test_a_call_of_no_public_method_is_refused_and_certainly_did_not_run(
    open_sim: Open, autojump_clock: Any, method: str
) -> None:
    async with nodes(open_sim) as (a, b):
        with pytest.raises(Refused, match=f"no method '{method}'") as caught:
            await a.rpc.call(b.address, method)
        assert caught.value.definite and caught.value.member == b.address
        assert b.counters.refused == 1


async def test_a_member_outside_the_view_is_unreachable(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, b):
        stranger = UUID(b"stranger of ours")
        with pytest.raises(Unreachable) as caught:
            await a.rpc.call(stranger, "add", 1, 2)
        assert caught.value.definite
        got = [r async for r in a.rpc.call_all("add", 1, 2, dests=[stranger, b.address])]
        match got:
            case [Unreachable(member), Answer(other, 3)]:
                assert (member, other) == (stranger, b.address)
            case _:
                raise AssertionError(got)
        await a.rpc.cast("note", 1, dests=[stranger, b.address])
        await trio.sleep(1)
        assert b.target.seen == [1]


async def test_call_all_exclude_and_dests(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim, "ABC") as (a, b, c):
        assert sorted(await replies(a.rpc, "add", 1, 2)) == ["A", "B", "C"]
        assert sorted(await replies(a.rpc, "add", 1, 2, exclude=b.address)) == ["A", "C"]
        assert sorted(await replies(a.rpc, "add", 1, 2, dests=[b.address, c.address])) == ["B", "C"]
        both = [b.address, c.address]
        assert sorted(await replies(a.rpc, "add", 1, 2, dests=both, exclude=both[:1])) == ["C"]
        assert await replies(a.rpc, "add", 1, 2, dests=[]) == {}
        assert await replies(a.rpc, "add", 1, 2, exclude=a.channel.view) == {}
        assert b.counters.excluded == 1
        assert a.rpc.statistics().pending == 0


async def test_a_call_of_all_is_one_multicast(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim, "ABC") as (a, _, _):
        sent = a.channel.statistics().sent
        await replies(a.rpc, "add", 1, 2)
        assert a.channel.statistics().sent == sent + 2  # and its reply to itself


async def test_one_of_many_raises_and_the_others_answer(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, _):
        found = await replies(a.rpc, "fail", "x")
        assert all(isinstance(r, Raised) and "ValueError" in str(r.error) for r in found.values())
        with pytest.raises(NoAnswer, match="ValueError: x") as caught:
            await a.rpc.call_first("fail", "x")
        assert len(caught.value.replies) == 2 and not caught.value.definite
        with pytest.raises(NoAnswer, match="no method") as caught:
            await a.rpc.call_first("missing")
        assert caught.value.definite
        with pytest.raises(NoAnswer, match="nobody was called"):
            await a.rpc.call_first("add", 1, 2, dests=())


async def test_call_first_gives_the_first_and_forgets_the_others(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim, "ABC") as (a, b, c):
        for node, seconds in ((a, 9), (b, 1), (c, 5)):
            node.target.pace = seconds
        assert await a.rpc.call_first("at_own_pace") == Answer(b.address, 1)
        assert a.rpc.statistics().pending == 0
        await trio.sleep(20)
        assert a.counters.late == 2  # the two that came after it


async def test_a_caller_that_stops_early_keeps_its_replies_and_leaves_nothing(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim, "ABC") as (a, _, _):
        async for reply in a.rpc.call_all("add", 1, 2):
            assert reply.value == 3  # type: ignore[union-attr]
            break
        gc.collect()
        assert a.rpc.statistics().pending == 0
        never = a.rpc.call_all("add", 1, 2)
        assert a.counters.calls == 1
        never.close()
        assert [r async for r in never] == []


async def test_a_time_limit_is_the_callers_scope(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim) as (a, b):
        with trio.move_on_after(1) as scope:
            await a.rpc.call(b.address, "slowly", 10)
        assert scope.cancelled_caught and a.rpc.statistics().pending == 0
        await trio.sleep(20)
        assert a.counters.late == 1
        assert await a.rpc.call(b.address, "add", 1, 2) == 3


async def test_a_member_that_leaves_is_suspected_also_by_calls_of_several(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, b), open_sim(name="C") as channel:
        found: dict[str, Any] = {}

        async def one() -> None:
            try:
                await a.rpc.call(channel.address, "add", 1, 2)
            except Suspected as error:
                found["one"] = error

        async def many() -> None:
            found["many"] = await replies(a.rpc, "add", 1, 2)

        c = channel.address  # its RPC is not open: it answers nothing
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(many)
            await trio.sleep(1)
            assert not found
            await channel._leave()
        assert found["one"].member == c and not found["one"].definite
        assert found["many"]["A"] == Answer(a.address, 3)
        assert found["many"]["B"] == Answer(b.address, 3)
        suspected = [r for r in found["many"].values() if isinstance(r, Suspected)]
        assert [s.member for s in suspected] == [c]
        assert a.rpc.statistics().pending == 0


async def test_casts_arrive_in_order_with_calls_and_messages(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim) as (a, b):
        for i in range(100):
            await a.rpc.cast("note", i, dests=b.address)
            if i == 50:
                assert await a.rpc.call(b.address, "add", 1, 2) == 3
                assert b.target.seen == list(range(51))
        await trio.sleep(1)
        assert b.target.seen == list(range(100))
        assert a.counters.casts == 100 and a.rpc.statistics().pending == 0
        await a.rpc.cast("note", "all", exclude=b.address)
        await trio.sleep(1)
        assert a.target.seen == ["all"] and b.target.seen == list(range(100))


async def test_a_cast_that_raises_is_logged_once(
    open_sim: Open, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with nodes(open_sim) as (a, b):
        with caplog.at_level(logging.WARNING, "jgroups_py.rpc"):
            for _ in range(3):
                await a.rpc.cast("fail", "x", dests=b.address)
                await a.rpc.cast("missing", dests=b.address)
            await trio.sleep(1)
        assert [r.message for r in caplog.records] == [
            "B: the method fail, cast by A, raised ValueError: x"
        ]
        assert (b.counters.raised, b.counters.refused) == (3, 3)
        assert (a.counters.late, a.counters.malformed) == (0, 0)  # no answers came


async def test_requests_give_their_credit_back(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim) as (a, b):
        with trio.fail_after(60):
            for _ in range(60):
                await a.rpc.cast("note", bytes(200_000), dests=b.address)
                await a.rpc.cast("note", bytes(200_000), exclude=a.address)
            await a.rpc.call(b.address, "add", 1, 2)
        await trio.sleep(5)
        assert len(b.target.seen) == 120


# --- bundling, limits


async def test_calls_of_one_turn_and_their_replies_travel_as_runs(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with nodes(open_sim, "ABC") as (a, b, c):
        runs: dict[str, list[int]] = {"B": [], "C": [], "A": []}
        for node in (a, b, c):
            deliver = node.rpc.deliver

            def watch(batch: Batch, name: str = node.channel.name, inner: Any = deliver) -> bool:
                if 200 in batch.headers:
                    runs[name].append(len(batch))
                return inner(batch)  # type: ignore[no-any-return]

            node.rpc.deliver = watch  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                for node in (b, c):
                    nursery.start_soon(a.rpc.call, node.address, "add", 1, 2)
        assert runs == {"B": [20], "C": [20], "A": [20, 20]}


async def test_handlers_are_bounded_and_reading_goes_on_when_one_ends(
    open_sim: Open, autojump_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with nodes(open_sim, limits=RpcLimits(handlers_max=3)) as (a, b):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(a.rpc.call, b.address, "slowly", 10)
            await trio.sleep(1)
            assert b.rpc.statistics().handlers == 3
        assert b.target.most == 3 and b.target.running == 0
        assert b.counters.waits_handlers > 0
        assert "waiting: 3 handlers run (handlers_max)" in caplog.text


async def test_calls_under_way_are_bounded(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim, limits=RpcLimits(pending_max=3)) as (a, b):
        done = 0

        async def call() -> None:
            nonlocal done
            await a.rpc.call(b.address, "slowly", 1)
            done += 1

        with trio.fail_after(4):  # in threes; none waits longer than it must
            async with trio.open_nursery() as nursery:
                for _ in range(9):
                    nursery.start_soon(call)
                await trio.sleep(0.5)
                assert a.rpc.statistics().pending == 3
        assert b.target.most == 3 and done == 9
        assert a.counters.waits_pending >= 6
        # A waiting call that is cancelled, and one given up, make room as well.
        with trio.move_on_after(1):
            async with trio.open_nursery() as nursery:
                for _ in range(9):
                    nursery.start_soon(a.rpc.call, b.address, "slowly", 50)
        assert a.rpc.statistics().pending == 0
        assert await a.rpc.call(b.address, "add", 1, 2) == 3


async def test_replies_that_nobody_takes_are_bounded(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim, "ABC", limits=RpcLimits(replies_max=100)) as (a, _, _):
        found = []
        async for reply in a.rpc.call_all("slowly", 0, bytes(80)):
            found.append(reply)
            await trio.sleep(5)
        lost = [r.error for r in found if isinstance(r, Raised)]
        assert len(found) == 3 and lost and all(isinstance(e, ReplyLost) for e in lost)
        assert a.counters.lost == len(lost) and a.rpc.statistics().held_bytes == 0


async def test_a_caller_without_credit_does_not_stop_the_others(
    open_sim: Open, autojump_clock: Any
) -> None:
    """Replies go up to a bound of their own beyond what a destination may get."""
    async with nodes(open_sim, "ABC") as (a, b, c):
        b.channel.outbox.blocked[a.address] = {"UFC": None}  # type: ignore[dict-item]
        with trio.move_on_after(1) as scope:
            await a.rpc.call(b.address, "add", 1, 2)
        assert scope.cancelled_caught
        assert await c.rpc.call(b.address, "add", 1, 2) == 3
        del b.channel.outbox.blocked[a.address]
        b.channel.driver.wake()


async def test_at_reply_buffer_max_reading_stops(open_sim: Open, autojump_clock: Any) -> None:
    async with nodes(open_sim, limits=RpcLimits(reply_buffer_max=1)) as (a, b):
        b.channel.outbox.blocked[a.address] = {"UFC": None}  # type: ignore[dict-item]
        size = b.channel.limits.send_buffer_max
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(a.rpc.call, b.address, "slowly", 0, bytes(size // 3))
            await trio.sleep(1)
            assert b.counters.waits_replies >= 1
            assert b.channel.outbox.buffered <= size + 1
            b.channel.outbox.on_opened("UFC", a.address)
            b.channel.driver.wake()


# --- what else comes


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
                    await trio.sleep(1)  # still at it
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
    """A joiner that fetches the state and then counts casts has all of them, and each once."""
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


async def test_when_the_channel_ends_calls_do(open_sim: Open, autojump_clock: Any) -> None:
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


# --- hostile


async def test_bytes_that_are_no_call_are_counted_and_dropped(
    open_sim: Open, autojump_clock: Any
) -> None:
    traced: list[str] = []

    def trace(now: float, member: str, protocol: str, what: str, details: Any) -> None:
        if protocol == "RPC":
            traced.append(what)

    async with open_sim(name="A") as a, open_sim(name="B", trace=trace) as b:
        target = Target()
        async with open_rpc(b, target) as rpc:

            def send(header: Header, payload: Any = b"\xc1garbage", type: int = 0) -> None:
                a.stack.send(Batch(b.address, (payload,), {200: header}, type=type))
                a.driver.wake()

            header = CorrelatorHeader
            req, rsp, error = CorrelatorType.REQ, CorrelatorType.RSP, CorrelatorType.EXC_RSP
            for one in (
                header(req, 0),
                header(req, 1),
                header(rsp, 0),
                header(rsp, -5),
                header(req, -5),
                header(req, (1 << 63) - 1),
                header(req, 1, 77),
                FcHeader(FcType.REPLENISH),
            ):
                send(one)
            send(header(req, 1), None)
            send(header(req, 1), b"")
            send(header(req, 1), b"\3add")
            send(header(req, 1), b"\3add\x91\xff\xff")
            send(header(req, 1), None, 2)
            send(header(req, 1), 5, 4)
            send(header(rsp, 1), b"nobody asked")
            send(header(error, GROUP_IDS + 1), b"nobody asked")
            send(header(req, 0, 77), b"\4note\x91\xa2no")
            send(header(req, 0), b"\4note\x91\xa3yes")
            await trio.sleep(1)
            counters = rpc.statistics().counters
            assert target.seen == ["yes"]
            assert counters.malformed == 15 and counters.late == 2
            assert traced.count("malformed") == 15


async def test_a_reply_that_cannot_be_read_is_lost_not_awaited(
    open_sim: Open, autojump_clock: Any
) -> None:
    class Odd:
        def encode(self, value: Any) -> bytes:
            return b"\xc1"

        def decode(self, data: bytes | memoryview) -> Any:
            return []

    async with (
        open_sim(name="A") as a,
        open_sim(name="B") as b,
        open_rpc(a) as rpc,
        open_rpc(b, {"odd": lambda: 1}, codec=Odd()),
    ):
        with pytest.raises(ReplyLost, match="cannot be read"):
            await rpc.call(b.address, "odd")


async def test_a_reply_of_a_type_that_carries_none_is_lost_not_awaited(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with open_sim(name="A") as a, open_sim(name="B") as b:

        async def odd() -> None:
            header = CorrelatorHeader(CorrelatorType.RSP, 1)
            b.stack.send(Batch(a.address, (None,), {200: header}, type=MessageType.EMPTY))
            b.driver.wake()
            await trio.sleep(5)

        async with open_rpc(a) as rpc, open_rpc(b, {"odd": odd}):
            with pytest.raises(ReplyLost, match="a message of type 2 is no reply"):
                await rpc.call(b.address, "odd")
            assert rpc.statistics().counters.malformed == 1


@pytest.mark.parametrize("how", ["cast", "call_all"])
async def test_a_member_that_joins_while_a_request_waits_decides_its_form(
    open_sim: Open, how: str, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(open_sim) as (a, _b):
        rpc, waited, sent = a.rpc, 0, []
        room, send = rpc._room, rpc._send

        async def waits(dest: Any, size: int) -> None:
            nonlocal waited
            waited += 1
            rpc._all_ours = False  # as if the view had a Java member now
            await room(dest, size)

        def noted(dest: Any, header: Any, encoded: Any, flags: int, **more: Any) -> None:
            sent.append(encoded.type)
            send(dest, header, encoded, flags, **more)

        monkeypatch.setattr(rpc, "_room", waits)
        monkeypatch.setattr(rpc, "_send", noted)
        if how == "cast":
            await rpc.cast("add", 1, 2)
        else:
            await replies(rpc, "add", 1, 2)
        assert waited == 2 and sent == [MessageType.OBJECT]


async def test_each_view_decides_anew_whether_a_member_in_java_must_read_what_all_are_told(
    open_sim: Open, autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(open_sim) as (a, b):
        sent: list[int] = []

        def noted(dest: Any, header: Any, encoded: Any, flags: int, **more: Any) -> None:
            sent.append(encoded.type)

        monkeypatch.setattr(a.rpc, "_send", noted)
        ours = (a.address, b.address)
        for number, members in ((50, ours), (51, (*ours, UUID(bytes(16)))), (52, ours)):
            a.channel.notify(ViewChange(View(ViewId(b.address, number), members), a.channel.view))
            await a.rpc.cast("add", 1, 2)
            await a.rpc.cast("add", 1, 2)
        assert sent == [MessageType.BYTES] * 2 + [MessageType.OBJECT] * 2 + [MessageType.BYTES] * 2


async def test_when_the_group_goes_on_without_us_calls_under_way_end_and_may_have_run(
    open_sim: Open, autojump_clock: Any
) -> None:
    """The answer may have been dropped with the connection, and the merge view has all members: nothing
    else would end the call."""
    async with nodes(open_sim) as (a, b):
        caught: list[Suspected] = []

        async def call() -> None:
            try:
                await a.rpc.call(b.address, "slowly", 50)
            except Suspected as error:
                caught.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.sleep(1)
            others = View(ViewId(b.address, 99), (b.address,))
            a.channel.notify(Exclude(others, b.address, (), certain=True))
        assert [error.member for error in caught] == [b.address]
        assert not caught[0].definite
        assert await a.rpc.call(b.address, "add", 1, 2) == 3
