"""A server of a door in a thread of its own, for clients that block."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import trio

from jgroups_py.driver.http_port import open_port, place_of

Serve = Callable[[list[trio.SocketListener]], Awaitable[None]]


@contextmanager
def served(make: Callable[[], Serve], where: str = "127.0.0.1:0") -> Iterator[tuple[str, int]]:
    """Run what ``make`` returns until the block ends. ``make`` is called inside the loop. Yield host and port."""
    ready = threading.Event()
    found: list[tuple[str, int]] = []
    ends: list[Callable[[], None]] = []

    async def main() -> None:
        token = trio.lowlevel.current_trio_token()
        listener = open_port("where", where)
        found.append(place_of(listener))
        async with trio.open_nursery() as nursery:
            ends.append(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))
            ready.set()
            await make()([listener])

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    try:
        assert ready.wait(10)
        yield found[0]
    finally:
        ends[0]()
        thread.join(10)
        assert not thread.is_alive()
