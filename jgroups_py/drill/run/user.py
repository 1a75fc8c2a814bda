"""The application of a drill's member: it makes requests at a rate, for any workload."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

import trio

UNDER_WAY_MAX: Final = 1000
"""The most unanswered requests of one member; further ones count as failed."""

L = TypeVar("L")
R = TypeVar("R")


class Log(Protocol):
    """Writes a record with the time of the call."""

    def __call__(
        self, event: str, origin: str | None = None, seqno: int | None = None, **detail: Any
    ) -> None: ...


class User(ABC, Generic[L, R]):
    """One member's requests. ``L``: a line of traffic. ``R``: a request. ``origin``: ``NAME#incarnation``. ``awake``:
    is the process running?"""

    def __init__(self, site: str, origin: str, chance: random.Random, log: Log) -> None:
        self._site = site
        self._origin = origin
        self._name = origin.partition("#")[0]
        self._chance = chance
        self._log = log
        self._seqno = 0
        self._under_way = 0
        self.awake = True

    @abstractmethod
    def source(self, load: L) -> Callable[[], R]:
        """Return a source of requests for a line of traffic, one at each call."""

    @abstractmethod
    async def do(self, request: R, load: L) -> None:
        """Make a request and log its result."""

    @abstractmethod
    def refuse(self, request: R, why: str) -> None:
        """Log a request that was not made."""

    @abstractmethod
    async def watch(self) -> None:
        """Run beside the requests, until cancelled."""

    def last_words(self) -> None:
        """Log the facts of a member that is about to fall or was expelled."""

    async def requests(self, load: L, rate: float, start: float, stop: float, zero: float) -> None:
        """Make ``rate`` requests a second from ``start`` to ``stop``, on trio's clock from ``zero`` on. Return when all are answered."""
        following = self.source(load)
        due = max(start, trio.current_time() - zero)
        async with trio.open_nursery() as nursery:
            while due < stop:
                await trio.sleep_until(zero + due)
                due += 1 / rate
                if not self.awake:  # a paused member makes no requests
                    continue
                request = following()
                if self._under_way >= UNDER_WAY_MAX:
                    self.refuse(request, "too many requests under way")
                else:
                    nursery.start_soon(self._one, request, load)

    async def _one(self, request: R, load: L) -> None:
        self._under_way += 1
        try:
            await self.do(request, load)
        finally:
            self._under_way -= 1
