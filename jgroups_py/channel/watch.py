"""Watch: tasks wait until a condition holds.

The owner calls ``changed`` when it may hold; the waiting tasks look again. So no task polls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import trio

from jgroups_py.errors import WaitTimeout

WAIT_SECONDS: Final = 60.0
"""The default time limit of the ``wait_`` functions."""


class Watch:
    """See the module. Used in one trio run."""

    def __init__(self) -> None:
        self._waiting = trio.lowlevel.ParkingLot()
        self.count = 0
        """The number of tasks that wait."""

    def __bool__(self) -> bool:
        """True when a task waits."""
        return self.count > 0

    def changed(self) -> None:
        """Let all waiting tasks look again."""
        self._waiting.unpark_all()

    async def until(
        self, holds: Callable[[], bool], timeout: float | None, missing: Callable[[], str]
    ) -> None:
        """Return when ``holds()`` is true. An exception that it raises comes out.

        Args:
            timeout: seconds; None waits without a limit.
            missing: returns the missing part as text; it is called when the time is over.

        Raises:
            WaitTimeout: the time is over.
        """
        if holds():
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(math.inf if timeout is None else timeout):
            self.count += 1
            try:
                while not holds():
                    await self._waiting.park()
            finally:
                self.count -= 1
            return
        if holds():  # it came true in the step in which the time ended
            return
        raise WaitTimeout(f"{missing()} (waited {timeout:g} s)")
