"""A batch that runs again when it lost a race.

It takes a function, because the block of a ``with`` cannot run twice. A block that ends with ``return`` before a
conflict shows would report a write that never happened.

Batches that read the same nodes queue. At one member they queue by the first node that each reads. A caller that lost a
race waits for a turn before it runs again. The turn holds at all members, for everything that it read and wrote: first
come, first served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from jgroups_py.cache.batch import CacheBatch
from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.locks import Scope
from jgroups_py.cache.nested import inside
from jgroups_py.cache.turns import Turn
from jgroups_py.errors import BatchConflict, CacheRefused

P = ParamSpec("P")
R = TypeVar("R")
NO_BLOCK = (
    "a block cannot run again: give batch(retries=...) a function (as a decorator, or with run),"
    " or leave retries out"
)

NO_RETRIES = (
    "a batch without retries is a block (with ... as batch): for a function say batch(retries=10)"
)


def refuse_function(given: tuple[object, ...]) -> None:
    """Raise CacheRefused for a decorator without parentheses: it gets the function itself."""
    if given:
        raise CacheRefused(f"batch is used as batch(retries=10), got {given[0]!r:.80}")


class OneBatch:
    """A batch that runs once, at the end of the block."""

    def __init__(
        self, new: Callable[[], CacheBatch], end: Callable[[CacheBatch], Awaitable[None]]
    ) -> None:
        self._new, self._end = new, end
        self._batch: CacheBatch

    async def __aenter__(self) -> CacheBatch:
        self._batch = self._new()
        return self._batch

    async def __aexit__(self, kind: object, *_: object) -> None:
        """BatchConflict: nothing was changed."""
        self._batch.end()
        if kind is None:
            await self._end(self._batch)

    def __call__(self, function: object) -> NoReturn:
        raise CacheRefused(NO_RETRIES)


class Retried:
    """A batch that runs again when it lost a race.

        @cache.batch(retries=10)
        async def transfer(batch, amount):
            balance = await batch.get("/accounts/7", "balance")
            batch.put("/accounts/7", "balance", balance - amount)

        await transfer(10)                              or, without the decorator:
        await cache.batch(retries=10).run(transfer, 10)

    ``function(batch, ...)`` may run up to ``retries`` times more, side effects included. If it raises, the caller gets the
    exception, and no node is changed. Inside, read and write with the batch: a call of the cache that would wait for
    this one's turn (``increment`` of a node it has read) is refused.

    Raises:
        BatchConflict: others were first each time; nothing was changed.
        LockTimeout: others were in front for too long; nothing was changed.
    """

    def __init__(self, attempts: Callable[[], Attempts]) -> None:
        attempts().close()  # a wrong option raises CacheRefused now, not when the batch runs
        self._attempts = attempts

    def __call__(
        self, function: Callable[Concatenate[CacheBatch, P], Awaitable[R]]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """Return a function that runs ``function`` in such a batch."""

        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await self._run(lambda batch: function(batch, *args, **kwargs))

        return call

    async def run(
        self,
        function: Callable[Concatenate[CacheBatch, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Call ``await function(batch, ...)`` until its batch succeeds. Return its result."""
        return await self._run(lambda batch: function(batch, *args, **kwargs))

    async def _run(self, function: Callable[[CacheBatch], Awaitable[R]]) -> R:
        attempts = self._attempts()
        try:
            while True:
                batch = await attempts.begin()
                with inside(attempts):
                    result = await function(batch)
                if await attempts.finish():
                    return result
        finally:
            attempts.close()

    async def __aenter__(self) -> NoReturn:
        raise CacheRefused(NO_BLOCK)

    async def __aexit__(self, *_: object) -> None:
        """Do nothing. It exists so that ``__aenter__`` can report the mistake."""

    def __aiter__(self) -> NoReturn:
        raise CacheRefused(NO_BLOCK)


class Attempts:
    """Yield one batch after the other, each with a turn on the nodes of the one before. Call ``begin``, then
    ``finish``, until that returns True; call ``close`` in any case."""

    def __init__(
        self,
        retries: int,
        new: Callable[[], CacheBatch],
        end: Callable[[CacheBatch, Turn | None], Awaitable[None]],
        take: Callable[[Sequence[Scope]], Awaitable[Turn]],
        come_up: Callable[[Turn], Awaitable[None]],
        give: Callable[[Turn], None],
    ) -> None:
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise CacheRefused(f"retries is a number >= 0, got {retries!r}")
        self._left = retries
        self._tries = 0
        self._new, self._end = new, end
        self._take, self._come_up, self._give = take, come_up, give
        self._scopes: dict[Scope, None] = {}
        self._turn: Turn | None = None
        self._batch: CacheBatch

    @property
    def turn(self) -> Turn | None:
        """The turn that it holds now."""
        return self._turn

    async def begin(self) -> CacheBatch:
        """Begin a batch. LockTimeout: its turn did not come."""
        self._tries += 1
        self._batch = batch = self._new()
        if self._tries == 1:
            batch.first_read = self._queue
            return batch
        if self._turn is None:
            self._turn = await self._take(list(self._scopes))
        self._turn.lost = True
        await self._come_up(self._turn)
        return batch

    async def finish(self) -> bool:
        """Apply the batch. False: run it again. BatchConflict: nothing was changed."""
        batch = self._batch
        batch.end()
        try:
            await self._end(batch, self._turn)
        except BatchConflict as error:
            if not self._left:
                raise BatchConflict(f"{error}; it was tried {self._tries} times") from error
            self._left -= 1
            self._learn(batch)
            return False
        return True

    def close(self) -> None:
        """Give the turn to others."""
        if self._tries:
            self._batch.end()
        turn, self._turn = self._turn, None
        if turn is not None:
            self._give(turn)

    async def _queue(self, path: Fqn) -> None:
        """Queue before the first read of a first attempt. Its other nodes are not known yet, so it waits for one node
        only."""
        self._turn = await self._take([Scope(path)])
        await self._come_up(self._turn)

    def _learn(self, batch: CacheBatch) -> None:
        """Note the nodes for the next run. Its turn covers all of them: a caller with a turn waits for no other."""
        self._scopes.update(dict.fromkeys(batch.scopes()))
        if self._turn is not None and not self._turn.covers(self._scopes):
            self._give(self._turn)
            self._turn = None
