"""A cache with buddies in a process of its own. Argument: the cache file. Each line of its input is a
call as JSON, [method, arguments, options]; each line of its output the result. The method "protected"
waits until its nodes are protected; "site" is below."""

from __future__ import annotations

import json
import sys

import trio

from jgroups_py.cache import TreeCache, open_tree_cache

LIFETIME = 300.0  # seconds


async def site(cache: TreeCache, what: str, other: str) -> list[str]:
    """``linked``, ``sent``: wait for that state. ``unsent``: paths. ``promote``: waits for the promotion."""
    sites = cache.buddies.sites
    if what == "linked":
        while other not in sites.status.reachable:  # noqa: ASYNC110
            await trio.sleep(0.02)
    elif what == "sent":
        while sites.unsent(other):  # noqa: ASYNC110
            await trio.sleep(0.02)
    elif what == "promote":
        sites.promote()
        while not sites.status.epoch:  # noqa: ASYNC110
            await trio.sleep(0.02)
    return sorted(map(str, sites.unsent(other)))


async def main(file: str, name: str) -> None:
    with trio.move_on_after(LIFETIME):
        async with open_tree_cache(file, name=name) as cache:
            async for line in trio.wrap_file(sys.stdin):
                method, arguments, options = json.loads(line)
                if method == "protected":
                    (members,) = arguments
                    while not (  # noqa: ASYNC110
                        len(cache.buddies.members) == members and cache.buddies.protected
                    ):
                        await trio.sleep(0.02)
                    result = [group.name.partition("-")[0] for group in cache.buddies.groups]
                elif method == "site":
                    result = await site(cache, *arguments)
                else:
                    result = await getattr(cache, method)(*arguments, **options)
                print(json.dumps(result), flush=True)


trio.run(main, sys.argv[1], sys.argv[2])
