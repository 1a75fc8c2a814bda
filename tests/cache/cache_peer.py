"""A cache with buddies in a process of its own. Argument: the cache file. Each line of its input is a
call as JSON, [method, arguments, options]; each line of its output the result. The method "protected"
waits until its nodes are."""

from __future__ import annotations

import json
import sys

import trio

from jgroups_py.cache import open_tree_cache

LIFETIME = 60.0  # seconds


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
                else:
                    result = await getattr(cache, method)(*arguments, **options)
                print(json.dumps(result), flush=True)


trio.run(main, sys.argv[1], sys.argv[2])
