"""A tree cache in one process: nodes by path, batches, listening, and a store behind it.

The second cache keeps three nodes in memory; the others wait in a SQLite file until they are used.

    python examples/tree_cache.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import trio

from jgroups_py.cache import NodeChanged, open_tree_cache


async def accounts() -> None:
    async with open_tree_cache("local.xml") as cache, cache.listen("/accounts") as changes:
        await cache.put_node("/accounts/ada", {"balance": 100, "city": "London"})
        await cache.put_node("/accounts/alan", {"balance": 0, "city": "Wilmslow"})
        async with cache.batch() as batch:  # both or none; serial with all other calls
            balance = await batch.get("/accounts/ada", "balance")
            batch.put("/accounts/ada", "balance", balance - 30)
            batch.put("/accounts/alan", "balance", 30)
        print(await cache.children("/accounts"), await cache.get("/accounts/ada", "balance"))
        for _ in range(4):
            change = await anext(changes)
            assert isinstance(change, NodeChanged)
            print(" ", change.kind.value, change.path, *sorted(change.keys))


async def larger_than_memory(file: Path) -> None:
    settings = {"cache.file": str(file), "cache.max_nodes": "3"}
    async with open_tree_cache("passivation.xml", properties=settings) as cache:
        for number in range(100):
            await cache.put(f"/numbers/{number}", "square", number * number)
        print(await cache.get("/numbers/7", "square"), "of", cache.statistics().nodes, "in memory")
    async with open_tree_cache("passivation.xml", properties=settings) as cache:
        print("after a restart there are", len(await cache.children("/numbers")))


async def main() -> None:
    await accounts()
    with tempfile.TemporaryDirectory() as folder:
        await larger_than_memory(Path(folder) / "numbers.db")


trio.run(main)
