"""The waits of a call that is made inside a batch which runs again: not for that batch.

Such a batch has a turn on what it has read until it has ended. A call for the same nodes, made by the batch's own
function, would wait for that turn: the one waits for the other. The function's context (of its task or
thread, and of tasks it starts) says in which batches it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from jgroups_py.cache.locks import Scope
from jgroups_py.errors import CacheRefused


class HeldTurn(Protocol):
    """A turn, as far as it matters here (turns.py has it)."""

    @property
    def turns(self) -> object:
        """Of which cache."""

    def meets(self, scope: Scope) -> bool:
        """Would a call for ``scope`` wait for it?"""


class TurnHolder(Protocol):
    """A batch that runs again."""

    @property
    def turn(self) -> HeldTurn | None:
        """The turn that it holds now."""


_around: ContextVar[tuple[TurnHolder, ...]] = ContextVar("jgroups_py.cache.nested", default=())


@contextmanager
def inside(holder: TurnHolder) -> Iterator[None]:
    """For as long as its function may run."""
    token = _around.set((*_around.get(), holder))
    try:
        yield
    finally:
        _around.reset(token)


def refuse_nested(turns: object, wanted: Sequence[Scope]) -> None:
    """CacheRefused: a batch around this call has the turn that it would wait for."""
    for holder in _around.get():
        turn = holder.turn
        if turn is None or turn.turns is not turns:
            continue
        for scope in wanted:
            if turn.meets(scope):
                raise CacheRefused(
                    f"this call for {scope.path} is made inside a batch with retries that has the turn on it, and would"
                    " wait for that: read and write with the batch (batch.get, batch.put), or call after it"
                )


def carried(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """``function``, to be called in another thread, as if it were called here."""
    around = _around.get()
    if not around:
        return function

    async def call(*args: Any, **options: Any) -> Any:
        _around.set(around)  # of a task of its own
        return await function(*args, **options)

    return call
