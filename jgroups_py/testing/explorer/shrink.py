"""Shrinking: it removes parts of a case as long as the same check fails.

Delta debugging removes large parts of a list, then smaller ones, down to single items; then the back end's proposals
follow. The passes repeat until a round changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final, Generic, TypeVar

import msgspec

RUNS_MAX: Final = 150
"""The most runs that shrinking one case may take."""
SECONDS_MAX: Final = 60.0
"""Real time after which no further run is begun."""

C = TypeVar("C")
T = TypeVar("T")


class Shrinker(Generic[C]):
    """``best``: the smallest case so far. ``left``: runs that may still be made."""

    def __init__(
        self, case: C, fails: Callable[[C], bool], runs: int, seconds: float = SECONDS_MAX
    ) -> None:
        self.best = case
        self.left = runs
        self._fails = fails
        self._until = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return self.left <= 0 or time.monotonic() > self._until

    def take(self, candidate: C) -> bool:
        """Keep ``candidate`` if it fails the same way."""
        if self.is_over or candidate == self.best:
            return False
        self.left -= 1
        if self._fails(candidate):
            self.best = candidate
            return True
        return False

    def cut(
        self,
        get: Callable[[C], Sequence[T]],
        put: Callable[[C, Sequence[T]], C],
        *,
        whole: bool = True,
    ) -> None:
        """Remove ever smaller parts of a list. ``whole``: try first to remove all of it."""
        size = len(get(self.best))
        if not whole:
            size //= 2
        while size >= 1 and not self.is_over:
            at = 0
            while at < len(items := get(self.best)) and not self.is_over:
                if not self.take(put(self.best, without(items, at, size))):
                    at += size
            size //= 2

    def offer(self, proposals: Callable[[C], Iterable[C]]) -> None:
        """Keep proposals for the smallest case that fail the same way."""
        at = 0
        while not self.is_over:
            candidate = next(islice(iter(proposals(self.best)), at, None), None)
            if candidate is None:
                return
            if not self.take(candidate):
                at += 1


Pass = Callable[[Shrinker[C]], None]


def shrink(
    case: C,
    fails: Callable[[C], bool],
    passes: Sequence[Pass[C]],
    *,
    before: Sequence[Pass[C]] = (),
    runs: int = RUNS_MAX,
    seconds: float | None = None,
) -> C:
    """Return a failing case that is no larger. ``before``: passes that are tried first, once."""
    shrinker = Shrinker(case, fails, runs, SECONDS_MAX if seconds is None else seconds)
    for one in before:
        one(shrinker)
    former = None
    while former != shrinker.best and not shrinker.is_over:
        former = shrinker.best
        for one in passes:
            one(shrinker)
    return shrinker.best


def parts(name: str) -> Pass[Any]:
    """Return a pass that cuts the tuple ``name`` of a struct."""

    def put(case: Any, items: Sequence[Any]) -> Any:
        return msgspec.structs.replace(case, **{name: tuple(items)})

    return lambda shrinker: shrinker.cut(lambda case: getattr(case, name), put)


def proposed(proposals: Callable[[C], Iterable[C]]) -> Pass[C]:
    return lambda shrinker: shrinker.offer(proposals)


def without(items: Sequence[T], at: int, size: int) -> Sequence[T]:
    """Return the items without ``size`` of them from ``at`` on."""
    return [*items[:at], *items[at + size :]]
