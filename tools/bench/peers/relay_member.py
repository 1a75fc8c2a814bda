"""A member of ours in one of two sites that RELAY connects (relays.py): ``python -m`` this module with an argument, which is JSON.

One member sends probes until it gets the order ``begin``; a probe shows the others that its messages reach them. Then
it sends one message after the other with a pause between them, and then as many as it can. The others report the first
probe, and their figures.
"""

from __future__ import annotations

import gc
import json
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from jgroups_py import Batch, Channel, open_channel
from jgroups_py.tools.child_side import forward_lines, run_child, say

HEAD: Final = struct.Struct(">BQd")
"""Phase, number within it, time of sending."""
PROBE, PACED, FAST = range(3)
"""Phases."""
PROBE_SECONDS: Final = 0.05
PACE_SECONDS: Final = 0.005
CHUNK: Final = 50
"""Messages that are sent between two looks at the clock."""
LAST_WAIT: Final = 10.0
"""Seconds without progress after which missing messages count as lost."""


@dataclass(frozen=True, slots=True)
class RelayPlan:
    """The measurements of the members of two sites. ``sites`` has a name for each member, ``sender`` is the number of the one that sends.
    ``probing``: seconds between the first probe that all have heard and the measurement."""

    stack: str
    sites: tuple[str, ...]
    sender: int
    size: int
    seconds: float
    warm_up: float
    cluster: str
    properties: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)
    """Site -> attributes."""
    probing: float = 0.0


class ArrivalListener:
    """Notes the sender's messages."""

    def __init__(self) -> None:
        self.heard = trio.Event()
        self.next = {PACED: 0, FAST: 0}
        self.wrong = 0
        """Messages that were lost, came twice or in the wrong order."""
        self.took: list[float] = []

    def take(self, payload: Any, now: float) -> None:
        phase, number, at = HEAD.unpack_from(payload)
        if phase == PROBE:
            self.heard.set()
            return
        self.wrong += number != self.next[phase]
        self.next[phase] = number + 1
        if phase == PACED:
            self.took.append(now - at)


async def _member(plan: RelayPlan, number: int) -> None:
    site = plan.sites[number]
    told, words = trio.open_memory_channel[dict[str, Any]](10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forward_lines, told, nursery.cancel_scope)
        async with open_channel(
            plan.stack,
            cluster=f"{plan.cluster}-{site}",
            name=f"M{number + 1}",
            bind_addr="127.0.0.1",
            attributes=plan.attributes[site],
            properties={**plan.properties, "relay.site": site},
        ) as channel:
            listener = ArrivalListener()
            nursery.start_soon(_read, channel, listener)
            say(event="joined")
            if number == plan.sender:
                await _send(plan, channel, words)
            else:
                await listener.heard.wait()
                say(event="ready")
                await _measure(plan, listener, words)
            await words.receive()


async def _send(
    plan: RelayPlan, channel: Channel, words: trio.MemoryReceiveChannel[dict[str, Any]]
) -> None:
    rest = bytes(plan.size - HEAD.size)
    clock = time.monotonic
    begin = None
    while begin is None:
        await channel.send(HEAD.pack(PROBE, 0, 0.0) + rest)
        with trio.move_on_after(PROBE_SECONDS):
            begin = (await words.receive())["begin"]
    paced = 0
    while clock() < begin + plan.seconds:
        await channel.send(HEAD.pack(PACED, paced, clock()) + rest)
        paced += 1
        await trio.sleep(PACE_SECONDS)
    gc.freeze()
    fast = 0
    end = begin + 2 * plan.seconds + plan.warm_up
    while clock() < end:
        numbers = range(fast, fast + CHUNK)
        await channel.send_many([HEAD.pack(FAST, one, 0.0) + rest for one in numbers])
        fast += CHUNK
    say(event="sent", paced=paced, fast=fast)


async def _measure(
    plan: RelayPlan, listener: ArrivalListener, words: trio.MemoryReceiveChannel[dict[str, Any]]
) -> None:
    begin = (await words.receive())["begin"]
    window = begin + plan.seconds + plan.warm_up
    await trio.sleep(window - time.monotonic())
    first, began = listener.next[FAST], time.monotonic()
    await trio.sleep(plan.seconds)
    rate = (listener.next[FAST] - first) / (time.monotonic() - began)
    sent = await words.receive()
    seen, since = -1, time.monotonic()
    while listener.next[FAST] < sent["fast"] and time.monotonic() - since < LAST_WAIT:
        if listener.next[FAST] != seen:
            seen, since = listener.next[FAST], time.monotonic()
        await trio.sleep(0.02)
    lost = sent["fast"] - listener.next[FAST] + sent["paced"] - listener.next[PACED]
    took = sorted(listener.took) or [0.0]
    say(
        event="measured",
        per_s=rate,
        p50_us=round(took[len(took) // 2] * 1e6),
        p99_us=round(took[int(len(took) * 0.99)] * 1e6),
        wrong=listener.wrong + lost,
    )


async def _read(channel: Channel, listener: ArrivalListener) -> None:
    async for item in channel.batches():
        if isinstance(item, Batch):
            now = time.monotonic()
            for payload in item.payloads:
                listener.take(payload, now)


def main(text: str) -> None:
    """Entry point of a member's process."""
    arguments = json.loads(text)
    run_child(_member, RelayPlan(**arguments["plan"]), arguments["number"])


if __name__ == "__main__":
    main(sys.argv[1])
