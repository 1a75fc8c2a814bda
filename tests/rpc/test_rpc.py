"""Calls between members on a network in memory, in virtual time."""

from __future__ import annotations

import gc
import logging
from typing import Any

import pytest
import trio
from rpc_nodes import Open, nodes, replies

from jgroups_py import (
    UUID,
    Answer,
    Batch,
    NoAnswer,
    Raised,
    Refused,
    RemoteError,
    ReplyLost,
    Suspected,
    Unreachable,
)
from jgroups_py.rpc import RpcLimits


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
        assert a.counters.late == 2  # the two later answers


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

        c = channel.address  # its RPC is not open, so it does not answer
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


async def test_requests_that_wait_for_their_turn_give_their_credit_back(
    open_sim: Open, autojump_clock: Any
) -> None:
    """Requests go to the reading task when no more methods may run. The others are served before it."""
    async with nodes(open_sim, limits=RpcLimits(handlers_max=1)) as (a, b):
        with trio.fail_after(60):
            for _ in range(60):
                await a.rpc.cast("slowly", 0.001, bytes(200_000), dests=b.address)
                await a.rpc.cast("slowly", 0.001, bytes(200_000), exclude=a.address)
            await a.rpc.call(b.address, "add", 1, 2)
        assert b.counters.waits_handlers > 60


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
    """Replies may exceed a destination's credit, up to a limit of their own."""
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
