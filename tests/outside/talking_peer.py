"""A member that talks, in a process of its own, as an outsider writes it.

Arguments: stack, name, members to wait for, attributes as JSON. Every 50 ms it sends one numbered multicast.
It prints a JSON line for each accepted ``send``, message, view, and exclusion. After "stop" on standard input it sends
no more, and says so; at the end of input it leaves.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import trio

from jgroups_py import Channel, Excluded, MergeView, Message, View, open_channel

EVERY = 0.05


def say(what: str, **details: Any) -> None:
    print(json.dumps({"at": time.monotonic(), "what": what, **details}), flush=True)


async def talk(channel: Channel, members: int) -> None:
    await channel.wait_members(members, timeout=None)
    number = 0
    while True:
        number += 1
        await channel.send(b"%d" % number)
        say("accepted", number=number)
        await trio.sleep(EVERY)


async def listen(channel: Channel) -> None:
    async for item in channel:
        match item:
            case Message(sender, payload):
                say("came", sender=channel.name_of(sender), number=int(payload))
            case View(members=members):
                merged = isinstance(item, MergeView)
                say("view", members=[channel.name_of(m) for m in members], merged=merged)
            case Excluded(view=view, lost=lost, certain=certain):
                named = [[*pair] for part in lost if part.to is None for pair in part.ranges]
                without = [channel.name_of(m) for m in view]
                say("excluded", without=without, lost=named, certain=certain)


async def main(stack: str, name: str, members: str, attributes: str) -> None:
    async with (
        open_channel(
            stack, cluster="talk", name=name, attributes=json.loads(attributes)
        ) as channel,
        trio.open_nursery() as nursery,
    ):
        talking, stopped = trio.CancelScope(), trio.Event()

        async def until_stopped() -> None:
            with talking:
                await talk(channel, int(members))
            stopped.set()

        nursery.start_soon(until_stopped)
        nursery.start_soon(listen, channel)
        while await trio.to_thread.run_sync(sys.stdin.readline):
            talking.cancel()
            await stopped.wait()
            say("stopped")
        say("end", statistics=channel.statistics().excluded)
        nursery.cancel_scope.cancel()


stack, name, members, attributes = sys.argv[1:]
trio.run(main, stack, name, members, attributes)
