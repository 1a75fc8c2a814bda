"""Calls inside a batch that runs again: they must not wait for that batch.

Such a batch has a turn on its nodes until it ends. A call for the same nodes by the batch's own function would wait for
that turn: a deadlock. The function's context (its task or thread, and tasks it starts) names its batches.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from jgroups_py.cache.locks import Scope
from jgroups_py.errors import CacheRefused


class HeldTurn(Protocol):
    """A turn of turns.py, as far as this module needs it."""

    @property
    def turns(self) -> object:
        """Return the turns of its cache."""

    def meets(self, scope: Scope) -> bool:
        """Would a call for ``scope`` wait for it?"""


class TurnHolder(Protocol):
    """A batch that runs again."""

    @property
    def turn(self) -> HeldTurn | None:
        """Return the turn that it holds now."""


_around: ContextVar[tuple[TurnHolder, ...]] = ContextVar("jgroups_py.cache.nested", default=())


@contextmanager
def inside(holder: TurnHolder) -> Iterator[None]:
    """Mark the context as inside ``holder`` while its function runs."""
    token = _around.set((*_around.get(), holder))
    try:
        yield
    finally:
        _around.reset(token)


def refuse_nested(turns: object, wanted: Sequence[Scope]) -> None:
    """Raise CacheRefused if a batch around this call has the turn that the call would wait for."""
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


def turns_around() -> list[HeldTurn]:
    """Return the turns of the batches around this call."""
    return [holder.turn for holder in _around.get() if holder.turn is not None]


def carried(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Return ``function`` bound to this context, to be called in another thread."""
    around = _around.get()
    if not around:
        return function

    async def call(*args: Any, **options: Any) -> Any:
        _around.set(around)  # it has the context of a task of its own
        return await function(*args, **options)

    return call
