"""A call or reply without waiting predecessors goes to the stack at once. It keeps its place, and counts like
any other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from jgroups_py import Batch, Channel, Message, Rpc, open_rpc

Open = Callable[..., AbstractAsyncContextManager[Channel]]


class Echo:
    def echo(self, value: Any) -> Any:
        return value


@asynccontextmanager
async def _pair(open_sim: Open) -> AsyncIterator[tuple[Channel, Channel, Rpc, Rpc]]:
    """Two members. The first has called the second, so its next call counts as a single one."""
    async with (
        open_sim(name="A") as a,
        open_sim(name="B") as b,
        open_rpc(a, Echo()) as rpc,
        open_rpc(b, Echo()) as other,
    ):
        await a.wait_members(2)
        for value in range(3):
            assert await rpc.call(b.address, "echo", value) == value
        yield a, b, rpc, other


async def test_a_call_does_not_overtake_messages_that_wait(
    open_sim: Open, autojump_clock: Any
) -> None:
    async with _pair(open_sim) as (a, b, rpc, other):
        order: list[object] = []
        deliver = other.deliver

        def noting(batch: Batch) -> bool:
            order.append("call" if batch.headers.get(200) else bytes(batch.payloads[0]))
            return deliver(batch)

        other.deliver = noting  # type: ignore[method-assign]
        a.send_nowait(b"before", b.address)
        await rpc.call(b.address, "echo", 1)
        assert order == [b"before", "call"]
        async for item in other:
            if isinstance(item, Message):
                assert item.payload == b"before"
                break


async def test_calls_that_leave_at_once_count_as_sent(open_sim: Open, autojump_clock: Any) -> None:
    async with _pair(open_sim) as (a, b, rpc, _):
        before = a.outbox.sent, a.outbox.sent_bytes, b.outbox.sent
        for value in range(10):
            await rpc.call(b.address, "echo", value)
        after = a.outbox.sent, a.outbox.sent_bytes, b.outbox.sent
        assert [new - old for new, old in zip(after, before, strict=True)] == [10, 10 * 7, 10]


async def test_a_call_after_a_pause_finds_the_time_of_now(
    open_sim: Open, autojump_clock: Any
) -> None:
    """Otherwise timers of sent messages would begin in the past, and fire too early."""
    async with _pair(open_sim) as (a, b, rpc, _):
        stack, times = a.stack, []
        send = stack.send

        def noting(batch: Batch) -> None:
            times.append(stack.machine.now)
            send(batch)

        stack.send = noting  # type: ignore[method-assign]
        await trio.sleep(0.1)
        began = trio.current_time()
        await rpc.call(b.address, "echo", 1)
        assert times == [began]


async def test_a_protocol_that_raises_at_a_call_ends_the_channel(
    open_sim: Open, autojump_clock: Any
) -> None:
    def broken(batch: Batch) -> None:
        raise ZeroDivisionError("a test")

    async def call() -> None:
        async with _pair(open_sim) as (a, b, rpc, _):
            a.stack.send = broken  # type: ignore[method-assign]
            with trio.move_on_after(5), suppress(ZeroDivisionError):
                await rpc.call(b.address, "echo", 1)
            await trio.sleep(5)

    with pytest.raises(ZeroDivisionError):
        await call()
