"""Join, greet the group whenever it changes, leave after another member's greeting.

In two terminals: python examples/hello.py Ada, python examples/hello.py Bob
"""

import sys

import trio

from jgroups_py import Message, View, open_channel


async def main(name: str | None) -> None:
    async with open_channel("udp.xml", cluster="hello", name=name) as channel:
        async for item in channel:
            match item:
                case View():
                    print("now", item)
                    await channel.send(b"hello everyone")
                case Message(sender=sender, payload=payload) if sender != channel.address:
                    print(channel.name_of(sender), "says", payload.decode())
                    break


trio.run(main, sys.argv[1] if len(sys.argv) > 1 else None)
