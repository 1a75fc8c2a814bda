"""A server of a door in a thread of its own, for clients that block."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import trio

from jgroups_py.driver.http_port import open_port, place_of

PATIENCE: Final = 60.0
"""Seconds that a busy machine may need for anything that is waited for."""
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
        assert ready.wait(PATIENCE), "the server has not begun"
        yield found[0]
    finally:
        for end in ends:
            with suppress(trio.RunFinishedError):  # the server has failed, and its thread tells why
                end()
        thread.join(PATIENCE)
        assert not thread.is_alive()
