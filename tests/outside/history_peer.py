"""A member with callers, in a process of its own; it writes down each call and each return.

Arguments: cache file, name, members, callers, steps of each, seed, file to write. It prints "ready" when all members
are present, waits for a line, calls, prints "done", waits for a line, reads all nodes once more, prints "read" and
the values that merges have discarded, and waits for a line.

A line of the file is a call or a return, in JSON: the time of the machine's monotonic clock, which all
processes share, the number of the call, and the call or its result. So a process that is killed leaves
calls without returns.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import trio
from call_log import CallLog

from jgroups_py.cache import TreeCache, open_tree_cache
from jgroups_py.errors import CacheError

PATHS = ("/a", "/b", "/c")
PAUSE = 0.002


class Log(CallLog):
    def call(self, caller: int | str, do: str, path: str, **more: Any) -> int:
        self.number += 1
        self.write(number=self.number, caller=f"{self.name}/{caller}", do=do, path=path, **more)
        return self.number

    def back(self, number: int, result: Any = None, **more: Any) -> None:
        self.write(number=number, result=result, **more)


async def one(cache: TreeCache, log: Log, caller: int, value: str, chance: random.Random) -> None:
    path, other = chance.sample(PATHS, 2)
    do = chance.choice(
        ("node", "put", "batch", "batch", "pair", "add", "cas", "remove", "tree", "move")
    )
    number = 0
    try:
        match do:
            case "node":
                number = log.call(caller, do, path)
                log.back(number, await cache.get_node(path))
            case "put":
                number = log.call(caller, do, path, value=value)
                await cache.put(path, "v", value)
                log.back(number)
            case "batch" | "pair":
                paths = (path, other) if do == "pair" else (path,)
                number = log.call(caller, "batch", path, paths=paths, value=value)
                async with cache.batch() as batch:
                    seen = [await batch.get_node(p) for p in paths]
                    for p in paths:
                        batch.put(p, "v", value)
                log.back(number, seen=seen)
            case "add":
                number = log.call(caller, do, path)
                log.back(number, await cache.increment(path, "n"))
            case "cas":
                number = log.call(caller, "node", path)
                node = await cache.get_node(path)
                log.back(number, node)
                expected = (node or {}).get("v")
                number = log.call(caller, do, path, expected=expected, value=value)
                log.back(number, await cache.compare_and_set(path, "v", expected, value))
            case "remove":
                number = log.call(caller, do, path)
                log.back(number, await cache.remove_node(path))
            case "tree":
                number = log.call(caller, do, path)
                log.back(number, await cache.remove_tree(path))
            case "move":
                number = log.call(caller, do, path, to=other)
                log.back(number, await cache.move(path, other))
    except CacheError as error:
        log.back(number, failed=str(error), definite=error.definite)


async def main(
    file: str, name: str, members: int, callers: int, steps: int, seed: str, out: str
) -> None:
    log = Log(out, name)

    async def calls(cache: TreeCache, caller: int) -> None:
        chance = random.Random(f"{seed}/{name}/{caller}")
        for step in range(steps):
            await one(cache, log, caller, f"{name}/{caller}.{step}", chance)
            await trio.sleep(chance.random() * PAUSE)

    async def line() -> None:
        await trio.to_thread.run_sync(sys.stdin.readline)

    async with open_tree_cache(file, name=name) as cache:
        await cache.wait_members(members, timeout=90)
        print("ready", flush=True)
        await line()
        async with trio.open_nursery() as nursery:
            for caller in range(callers):
                nursery.start_soon(calls, cache, caller)
        print("done", flush=True)
        await line()
        for path in PATHS:
            number = log.call("last", "node", path)
            log.back(number, await cache.get_node(path))
        print("read", len(cache.discarded), flush=True)
        await line()


if __name__ == "__main__":
    file, name, members, callers, steps, seed, out = sys.argv[1:]
    trio.run(main, file, name, int(members), int(callers), int(steps), seed, out)
