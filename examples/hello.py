"""Join, greet, read views and one greeting, leave.

python examples/hello.py
"""

import trio

from jgroups_py import Message, View, open_channel


async def main() -> None:
    async with open_channel("udp.xml", cluster="demo", name="A") as channel:
        await channel.send(b"hello everyone")
        async for item in channel:
            match item:
                case View(members=members):
                    print("now", [channel.name_of(m) for m in members])
                case Message(sender=sender, payload=payload):
                    print(channel.name_of(sender), "says", payload.decode())
                    break


trio.run(main)
