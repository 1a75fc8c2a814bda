"""A member in a process of its own, as an outsider writes it: a state provider, a loop that prints.

Arguments: stack file, name, "join" (fetch the state) or "first", how the provider begins. Lines on standard
input: ``say TEXT``, ``provide HOW``, ``end``. Lines on standard output: ``state TEXT``, ``view N``, ``NAME: TEXT``,
``error CLASS: TEXT``. The log goes to standard error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator

import trio

from jgroups_py import Channel, Message, State, StateTransferError, View, open_channel

how = "works"


async def provide() -> AsyncIterator[bytes]:
    if how == "raises":
        raise ValueError("no state today")
    yield b"the "
    if how == "raises-late":
        raise KeyError("half of it")
    if how == "no-bytes":
        yield 5  # type: ignore[misc]
    if how == "group":
        raise ExceptionGroup("several", [ValueError("one"), OSError("two")])
    if how == "hangs":
        await trio.sleep_forever()
    yield b"state"


async def read(channel: Channel) -> None:
    async for item in channel:
        match item:
            case View():
                print("view", len(item), flush=True)
            case State():
                print("state", item.payload.decode(), flush=True)
            case Message():
                print(f"{channel.name_of(item.sender)}: {item.payload.decode()}", flush=True)


async def main(stack: str, name: str, begin: str) -> None:
    global how
    try:
        async with (
            open_channel(
                stack, cluster="state", name=name, state=provide, get_state=begin == "join"
            ) as channel,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(read, channel)
            while True:
                line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
                word, _, rest = line.strip().partition(" ")
                if word == "say":
                    await channel.send(rest.encode())
                elif word == "provide":
                    how = rest
                    print("provides", how, flush=True)
                else:
                    break
            nursery.cancel_scope.cancel()
    except StateTransferError as error:
        print(f"error {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    stack, name, begin, how = sys.argv[1:]
    trio.run(main, stack, name, begin)
