"""Sessions in three processes' caches (here: three members in one process), each with one buddy.

The member that creates a session owns it; one other member keeps a copy. When the owner dies, the next member that is
asked for the session finds its copy and becomes the owner. No member keeps all sessions.

    python examples/buddy_cache.py
"""

from __future__ import annotations

import trio

from jgroups_py.cache import TreeCache, open_tree_cache

CACHES: dict[str, TreeCache] = {}


async def member(name: str, scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    with scope:
        async with open_tree_cache("buddy.xml", cluster="sessions", name=name) as CACHES[name]:
            task_status.started()
            await trio.sleep_forever()


async def until_protected(members: int) -> None:
    """Wait until all copies are made: then any one member may crash."""
    for cache in CACHES.values():
        await cache.wait_protected(members)


def copies() -> str:
    return ", ".join(
        f"{name} owns {cache.statistics().nodes}, keeps {cache.statistics().counters['backup_nodes']}"
        for name, cache in sorted(CACHES.items())
    )


async def main() -> None:
    scopes = {name: trio.CancelScope() for name in "ABC"}
    async with trio.open_nursery() as nursery:
        for name, scope in scopes.items():
            await nursery.start(member, name, scope)
        await until_protected(3)
        for number in range(10):
            await CACHES["A"].put(f"/session/{number}", "user", f"user {number}")
        print(copies())

        scopes["A"].cancel()  # no hand-over: for the others this is a crash
        del CACHES["A"]
        await until_protected(2)
        print("A is gone:", copies())
        print("C is asked:", await CACHES["C"].get("/session/7", "user"))
        await until_protected(2)
        print("C has it now:", copies())
        nursery.cancel_scope.cancel()


trio.run(main)
