"""Calls between members: to one, to all, to the first that answers; errors; a member that leaves.

python examples/rpc.py
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import trio

from jgroups_py import Answer, Raised, RemoteError, Rpc, Suspected, open_channel, open_rpc


class Shop:
    """Others may call every public method, sync or async."""

    def __init__(self, name: str, stock: dict[str, int]) -> None:
        self._name = name
        self._stock = stock

    def count(self, thing: str) -> int:
        return self._stock[thing]

    async def deliver(self, thing: str) -> str:
        await trio.sleep(0.1)
        return f"{thing} from {self._name}"


STOCKS = {"A": {"tea": 3}, "B": {"tea": 5, "milk": 1}, "C": {"tea": 0}}


async def main() -> None:
    rpcs: dict[str, Rpc] = {}
    async with AsyncExitStack() as blocks:
        for name, stock in STOCKS.items():
            channel = await blocks.enter_async_context(
                open_channel("udp.xml", cluster="shops", name=name)
            )
            rpc = open_rpc(channel, Shop(name, stock))
            rpcs[name] = await blocks.enter_async_context(rpc)
        a, b = rpcs["A"], rpcs["B"]
        await a.channel.wait_members(STOCKS, timeout=60)

        print("B has", await a.call(b.channel.address, "count", "tea"), "teas")
        total = 0
        async for reply in a.call_all("count", "tea"):
            match reply:
                case Answer(_, value):
                    total += value
                case Raised(member, error):
                    print(a.channel.name_of(member), "raised", error)
                case Suspected(member):
                    print(a.channel.name_of(member), "went away")
        print("together", total)

        try:
            await a.call(rpcs["C"].channel.address, "count", "milk")
        except RemoteError as error:
            print("C says", error)
        with trio.move_on_after(5):  # a time limit is a scope
            answer = await a.call_first("deliver", "tea")
            print("the first to deliver:", answer.value[:3])


trio.run(main)
