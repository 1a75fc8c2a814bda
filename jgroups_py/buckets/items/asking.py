"""Asking: adds time and stamp to requests of clients and runs them at a store. Each request ends with an outcome or
StoreUnavailable."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import trio

from jgroups_py.buckets.items.requests import ItemRequest, Outcome, Stamped
from jgroups_py.buckets.items.store import ItemStore, StoreUnavailable


class Asking:
    """``clock`` tells the Unix time. ``failed`` gets each exception that a store should not raise."""

    def __init__(
        self,
        store: ItemStore,
        timeout: float,
        failed: Callable[[Exception], None],
        *,
        clock: Callable[[], float] = time.time,
        draw: random.Random | None = None,
    ) -> None:
        self.clock = clock
        self._store = store
        self._timeout = timeout
        self._failed = failed
        self._draw = draw or random.SystemRandom()

    async def ask(self, request: ItemRequest, stamp: int | None = None) -> Outcome:
        """Run one request. ``stamp``: the same for all repeats of it; None draws one.

        Raises:
            StoreUnavailable: there is no outcome.
        """
        asked = Stamped(request, stamp or self._draw.randrange(1, 2**63), self.clock())
        try:
            with trio.fail_after(self._timeout):
                return await self._store.perform(asked)
        except trio.TooSlowError:
            raise StoreUnavailable(f"no answer within {self._timeout:g} s") from None
        except StoreUnavailable:
            raise
        except Exception as error:
            self._failed(error)
            raise StoreUnavailable("the request failed") from error
