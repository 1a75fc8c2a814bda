"""Room: a put that finds the inbox of its process full waits for the merger, for a bounded time.

    there is room                            the put goes on
    the merger works                         the put waits ``full_timeout`` seconds, then MapFull: the merger is behind
    no merger works for STALLED_TIMEOUT      MapFull; further puts get it at once, until a merger works again
    the file is full, or cannot be written   MapFull at once

Puts that outrun the merger slow down to its speed. With a stopped merger only the first put waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from jgroups_py.maps.control import Control
from jgroups_py.maps.errors import MapFull
from jgroups_py.maps.inbox import Inbox
from jgroups_py.maps.store import MapStore

STALLED_TIMEOUT: Final = 1.0
"""Seconds without any work of a merger after which a put gives up."""
PAUSE: Final = 0.001
"""Seconds between looks for room."""
STEP_MAX: Final = 0.1
"""The most seconds that count between two looks. A process that was stopped would otherwise give up before the merger, perhaps a thread
of its own, has had time to go on."""
FULL_SHARE: Final = 0.9
"""The share of ``max_bytes`` from which the file counts as full if no records are merged."""


class Room:
    """``alone``: a block that keeps the files open. ``problem``: why this process cannot merge; None: it can, or another process
    does. ``timeout``: seconds."""

    def __init__(
        self,
        folder: Path,
        inbox: Inbox,
        control: Control,
        store: MapStore,
        alone: Callable[[], AbstractContextManager[Any]],
        problem: Callable[[], Exception | None],
        timeout: float,
    ) -> None:
        self._folder = folder
        self._inbox = inbox
        self._control = control
        self._store = store
        self._alone = alone
        self._problem = problem
        self._timeout = timeout
        self._idle = -1
        """The merger's work counter when a put gave up because the merger stood still. -1: none did."""
        self.waits = 0
        """Puts that have waited."""

    def wait(self, need: int) -> None:
        """Wait until ``need`` bytes fit. The lock of the file must not be held. Raises MapFull, MapClosed."""
        begin = last = time.monotonic()
        worked, idle = -1, 0.0
        self.waits += 1
        while True:
            with self._alone():
                if self._inbox.has_room(need):
                    return
                now, work = time.monotonic(), self._control.work()
                idle = 0.0 if work != worked else idle + min(now - last, STEP_MAX)
                worked, last = work, now
                is_idle = work == self._idle or idle >= STALLED_TIMEOUT
                if is_idle or now - begin >= self._timeout or self._problem() is not None:
                    self._idle = work if is_idle else -1
                    raise MapFull(self._reason(is_idle))
            time.sleep(PAUSE)

    def _reason(self, is_idle: bool) -> str:
        used, most = self._store.used()
        problem = self._problem()
        if isinstance(problem, MapFull) or (is_idle and used >= most * FULL_SHARE):
            return (
                f"{self._folder} is full: {used:,} of {most:,} bytes (max_bytes) are used, and the inbox of this process, too. Open it anywhere with a "
                "larger max_bytes: all processes take that over"
            )
        full = f"the inbox of this process is full ({self._inbox.size:,} bytes, inbox_bytes)"
        if problem is not None:
            return f"{full}, and cannot be merged: {problem}"
        if is_idle:
            return f"{full}, and nobody has merged anything for {STALLED_TIMEOUT:g} s: is the process that merges stopped? If it runs, its log says why it cannot write"
        waiting = sum(self._control.all_written()) - sum(self._control.all_merged())
        return (
            f"{full}, and had no room within {self._timeout:g} s (full_timeout): the process that merges works, but {waiting:,} bytes of all "
            "processes wait for it. Put less at once, or make the map with larger inbox_bytes"
        )
