"""A run of trio in virtual time repeats exactly for the same seed, wherever its tasks lie in memory."""

import json
import random
import subprocess
import sys
from typing import Final

import trio

from jgroups_py.drill.run import virtual_trio

MEMORIES: Final = 6


def order_of(seed: int, memory: int) -> list[int]:
    """Return the order in which thirty tasks go on after waiting for one event. ``memory``: each number gives the
    tasks other places."""
    order: list[int] = []
    dust: list[bytes | None] = [bytes(size) for size in range(16, 480, 16) for _ in range(60)]
    chance = random.Random(memory)
    for hole in chance.sample(range(len(dust)), len(dust) // 2):
        dust[hole] = None

    async def main() -> None:
        event = trio.Event()

        async def wait(number: int) -> None:
            await event.wait()
            order.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(wait, number)
            await trio.sleep(1)
            event.set()

    virtual_trio.run(main, seed)
    return order


def test_the_order_of_tasks_does_not_depend_on_their_places_in_memory() -> None:
    """The test has a process of its own: under pytest Hypothesis makes trio sort its tasks, which does not happen in a
    user's process."""
    command = [sys.executable, __file__]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    orders = json.loads(told.stdout)
    assert len(orders) == MEMORIES
    assert all(order == orders[0] for order in orders)


def test_another_seed_gives_another_order() -> None:
    assert order_of(7, 0) != order_of(8, 0)


if __name__ == "__main__":
    print(json.dumps([order_of(7, memory) for memory in range(MEMORIES)]))
