"""Loop: the one trio loop of the facade, in a background thread.

``use`` starts it for the first user, ``release`` ends it after the last one. Any thread may post functions that run
in the loop's thread.

The thread is a daemon, so that it cannot hold up the end of the process for ever. Before the interpreter ends, open
blocks are closed within ``EXIT_TIMEOUT``.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable

import trio

_log = logging.getLogger("jgroups_py.blocking")

EXIT_TIMEOUT = 10.0
"""Seconds in which open blocks are closed when the process ends."""

THREAD_NAME = "jgroups_py.blocking"


class Loop:
    """See the module. ``use`` makes it. All methods but ``post`` and ``join`` are for the loop's own thread."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.users = 0
        self.nursery: trio.Nursery
        self.closing: dict[Callable[[], None], None] = {}
        """Functions that ask open blocks to close; called in the loop when the process ends."""
        self._over = False
        self._token: trio.lowlevel.TrioToken
        self._end: trio.Event
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name=THREAD_NAME, daemon=True
        )
        self._thread.start()
        ready.wait()

    @property
    def is_here(self) -> bool:
        """Return whether this is the loop's own thread. (After the end of that thread another thread may get
        its number.)"""
        return threading.get_ident() == self._thread.ident and not self._over

    def post(self, function: Callable[[], None]) -> None:
        """Run ``function`` soon in the loop's thread, in order, or here if the loop has ended. The function must not raise.
        Finalizers and interrupted threads may post, because no lock is taken that they could hold."""
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            function()

    def stop(self) -> None:
        """End the loop, because the last user has gone."""
        self._end.set()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _run(self, ready: threading.Event) -> None:
        try:
            trio.run(self._main, ready)
        except BaseException:
            _log.critical("the loop of the blocking API crashed", exc_info=True)
        finally:
            self._over = True
            ready.set()

    async def _main(self, ready: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._end = trio.Event()
        async with trio.open_nursery() as self.nursery:
            ready.set()
            await self._end.wait()


_lock = threading.Lock()
_current: Loop | None = None


def use() -> Loop:
    """Return the loop, with one more user."""
    global _current
    with _lock:
        if _current is None:
            _current = Loop()
        _current.users += 1
        return _current


def release(loop: Loop) -> None:
    """Count one user less, in the loop's thread. The last user ends the loop; a later user starts a new loop."""
    global _current
    with _lock:
        loop.users -= 1
        if loop.users:
            return
        if _current is loop:
            _current = None
    loop.stop()


def _close_all() -> None:
    loop = _current
    if loop is None or loop.pid != os.getpid():
        return

    def ask() -> None:
        for close in tuple(loop.closing):
            close()

    loop.post(ask)
    loop.join(EXIT_TIMEOUT)


def _forget() -> None:
    """Forget the loop in a forked child. A fork copies neither the loop's thread nor the thread that
    held the lock."""
    global _current, _lock
    _current = None
    _lock = threading.Lock()


# This runs before the interpreter waits for other threads: a thread that reads a channel ends only when the channel is
# closed. Later no thread can be started, and stores need one. (concurrent.futures does the same.)
getattr(threading, "_register_atexit", atexit.register)(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
