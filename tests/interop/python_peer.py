"""A Python member in a process of its own: lines on standard input become multicasts, and items are printed as
Peer.java prints them. It ends with its input, or after a time."""

from __future__ import annotations

import json
import sys
import zlib
from typing import Any

import trio
from names import names_known

from jgroups_py import Channel, MergeView, Message, View, open_channel

LIFETIME = 300.0  # seconds


async def main() -> None:
    stack, name, cluster, attributes = json.loads(sys.argv[1])
    with trio.move_on_after(LIFETIME):
        async with (
            open_channel(
                stack, cluster=cluster, name=name, bind_addr="127.0.0.1", attributes=attributes
            ) as channel,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(read, channel)
            async for lines in trio.lowlevel.FdStream(sys.stdin.fileno()):
                for line in lines.splitlines():
                    await channel.send(line)
            nursery.cancel_scope.cancel()


async def read(channel: Channel) -> None:
    name_of = channel.name_of
    async for item in channel:
        match item:
            case View(view_id=view_id, members=members):
                await names_known(channel, members)
                show(
                    "view",
                    number=view_id.id,
                    creator=view_id.creator.hex(),
                    members=[name_of(member) for member in members],
                    ids=[member.hex() for member in members],
                    merge=isinstance(item, MergeView),
                )
            case Message(sender=sender, payload=payload):
                await names_known(channel, [sender])
                show(
                    "message",
                    **{"from": name_of(sender)},
                    multicast=item.multicast,
                    size=len(payload),
                    crc=zlib.crc32(payload),
                    text=payload[:200].decode(errors="replace"),
                )


def show(event: str, **values: Any) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


trio.run(main)
