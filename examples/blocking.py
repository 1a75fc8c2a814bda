"""Threads and scripts: a channel, calls and a tree cache without ``async``.

python examples/blocking.py
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from jgroups_py import Message, blocking


class Calculator:
    """Others may call its methods. They run in threads of their own, so they may block."""

    def add(self, a: int, b: int) -> int:
        time.sleep(0.01)
        return a + b


def main() -> None:
    with (
        blocking.open_channel("udp.xml", cluster="threads", name="A", timeout=30) as a,
        blocking.open_channel("udp.xml", cluster="threads", name="B", timeout=30) as b,
    ):
        a.wait_members(2, timeout=60)
        a.send_many([b"hello", b"everyone"])
        for item in b:
            if isinstance(item, Message):
                print("B received", item.payload.decode())
                if item.payload == b"everyone":
                    break

        with (
            blocking.open_rpc(a) as caller,
            blocking.open_rpc(b, Calculator()),
            ThreadPoolExecutor(8) as threads,
        ):
            sums = threads.map(lambda n: caller.call(b.address, "add", n, n, timeout=10), range(20))
            print("eight threads called:", sum(sums))

    with blocking.open_tree_cache("local.xml") as cache:
        cache.put_many({f"/squares/{n}": {"is": n * n} for n in range(1000)})
        print("the cache has", len(cache.children("/squares")), "squares, 30 is", end=" ")
        print(cache.get("/squares/30", "is"))


main()
