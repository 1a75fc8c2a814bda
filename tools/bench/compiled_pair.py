"""A process that measures what this installation's messages and calls cost: ``python -m`` this module with an argument, which is JSON.

Two members in this process talk over real sockets. A figure is the CPU time of the process, so both members and the loop are in
it, and other work of the machine changes it little. Nobody looks for an answer in a loop (``DriverLimits.watch``).
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import trio

from jgroups_py import Batch, Channel, Rpc, open_channel, open_rpc
from jgroups_py.channel.open import configure
from jgroups_py.driver.base import DriverLimits
from jgroups_py.driver.sockets import SocketTransport
from jgroups_py.tools.child_side import run_child, say
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.commands.rpcperf_run import Echo
from jgroups_py.values.native import compiled_modules

NAMES: Final = ("M1", "M2")
CHUNK: Final = 100
"""Messages of one ``send_many``."""
CALL_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class PairPlan:
    """The measurements: for each of ``sizes`` so many multicasts of each member, for each of ``callers`` so many calls."""

    stack: str
    sizes: tuple[int, ...]
    callers: tuple[int, ...]
    messages: int
    calls: int
    cluster: str


async def measured(plan: PairPlan) -> dict[str, float]:
    """Return microseconds of CPU time: of a delivery of each size, of a call with each number of callers."""
    config, host = configure(plan.stack, None, {}, {})
    attributes = private_attributes(config, len(NAMES), host)
    transport = SocketTransport(DriverLimits(watch=0.0))

    def member(name: str) -> Any:
        return open_channel(
            plan.stack,
            cluster=plan.cluster,
            name=name,
            attributes=attributes,
            bind_addr=host,
            transport=transport,
        )

    found: dict[str, float] = {}
    async with member(NAMES[0]) as a, member(NAMES[1]) as b:
        for channel in (a, b):
            await channel.wait_members(NAMES)
        for size in plan.sizes:
            await _exchange((a, b), plan.messages // 5, size)  # one-time costs
            spent = await _cpu(lambda size=size: _exchange((a, b), plan.messages, size))  # type: ignore[misc]
            found[delivery(size)] = spent / (len(NAMES) ** 2 * plan.messages)
        async with open_rpc(a) as rpc, open_rpc(b, Echo()):
            for count in plan.callers:
                await _call(rpc, b, count, plan.calls // 5)
                spent = await _cpu(lambda count=count: _call(rpc, b, count, plan.calls))  # type: ignore[misc]
                found[calls_of(count)] = spent / (plan.calls // count * count)
    return {figure: round(1e6 * seconds, 4) for figure, seconds in found.items()}


def delivery(size: int) -> str:
    """Return the name of the figure."""
    return f"delivery of {size} B"


def calls_of(callers: int) -> str:
    """Return the name of the figure."""
    return f"call, {callers} callers"


async def _cpu(work: Callable[[], Awaitable[None]]) -> float:
    gc.collect()
    began = time.process_time()
    await work()
    return time.process_time() - began


async def _exchange(channels: Sequence[Channel], messages: int, size: int) -> None:
    """Let each member send so many multicasts, and all members read all of them."""

    async def send(channel: Channel) -> None:
        payload = bytes(size)
        for first in range(0, messages, CHUNK):
            await channel.send_many([payload] * min(CHUNK, messages - first))

    async def read(channel: Channel) -> None:
        left = messages * len(channels)  # a sender gets its own messages, too
        async for item in channel.batches():
            if isinstance(item, Batch):
                left -= len(item.payloads)
            if left <= 0:
                return

    async with trio.open_nursery() as nursery:
        for channel in channels:
            nursery.start_soon(send, channel)
            nursery.start_soon(read, channel)


async def _call(rpc: Rpc, called: Channel, callers: int, calls: int) -> None:
    """Let so many tasks call, one call after the other each, until all have made ``calls`` together."""
    dest = called.address

    async def again() -> None:
        data = bytes(CALL_SIZE)
        for _ in range(calls // callers):
            await rpc.call(dest, "echo", data)

    async with trio.open_nursery() as nursery:
        for _ in range(callers):
            nursery.start_soon(again)


async def _main(plan: PairPlan) -> None:
    say(event="measured", compiled=compiled_modules(), figures=await measured(plan))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    run_child(_main, PairPlan(**given))
