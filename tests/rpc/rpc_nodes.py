"""Members that can be called, on a network in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import trio
import trio.lowlevel

from jgroups_py import (
    UUID,
    Channel,
    Rpc,
    open_rpc,
)
from jgroups_py.rpc import with_caller

Open = Callable[..., AbstractAsyncContextManager[Channel]]


class Target:
    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.running = 0
        self.most = 0
        self.pace = 0.0

    def add(self, a: int, b: int) -> int:
        return a + b

    def at_once(self, size: int) -> bytes:
        return bytes(size)

    async def later(self, size: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return bytes(size)

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
