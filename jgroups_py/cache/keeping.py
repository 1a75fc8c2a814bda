"""Keeping: with buddies, a caller with a turn keeps its nodes from its read to its write.

Otherwise members that change the same node would take it from each other in between, and all but one would work in
vain. A member that claims a kept node waits, at most ``KEEP_TIME``, and gets it next: claims have an order. While a caller waits for
other nodes itself it keeps none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from jgroups_py.buddy.values import Path
from jgroups_py.cache.turns import Turn

KEEP_TIME: Final = 0.25
"""Seconds that other members wait for a turn here to end."""


class RoomKeeping:
    """``over()`` is called when kept nodes may move."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._due: dict[Turn, float | None] = {}
        """The time when a turn stops keeping; None: no other member has asked for its nodes yet."""
        self._asked = trio.Event()
        self.kept = 0
        """Turns that others waited for."""
        self.too_long = 0
        """Turns among them that took more than ``KEEP_TIME``."""

    def begin(self, turn: Turn) -> None:
        """Begin to keep, or begin anew for another attempt."""
        self._due.setdefault(turn, None)

    def end(self, turn: Turn) -> None:
        """End keeping: the turn has written or given up."""
        if self._due.pop(turn, None) is not None:
            self._over()

    @contextmanager
    def paused(self, turns: Iterable[object]) -> Iterator[None]:
        """Let nodes of these turns move while their callers wait for other nodes. Two callers that keep one node each and wait for
        the other's would only wait for ``KEEP_TIME``."""
        mine = [turn for turn in self._due if any(turn is one for one in turns)]
        for turn in mine:
            self.end(turn)
        try:
            yield
        finally:
            for turn in mine:
                self.begin(turn)

    def keeps(self, path: Path) -> bool:
        """Return whether this node, which another member asks for, is kept."""
        found = False
        for turn, due in self._due.items():
            if any(_is_in(path, scope.path, scope.deep) for scope in turn.scopes):
                found = True
                if due is None:
                    self._due[turn] = trio.current_time() + KEEP_TIME
                    self.kept += 1
                    self._asked.set()
        return found

    async def run(self) -> None:
        """End turns that keep their nodes for too long. Runs until cancelled."""
        while True:
            due = [at for at in self._due.values() if at is not None]
            if not due:
                self._asked = trio.Event()
                await self._asked.wait()
                continue
            await trio.sleep_until(min(due))
            late = [
                t for t, at in self._due.items() if at is not None and at <= trio.current_time()
            ]
            for turn in late:
                del self._due[turn]
            if late:
                self.too_long += len(late)
                self._over()


def _is_in(path: Path, root: Path, deep: bool) -> bool:
    return path == root or (deep and path[: len(root)] == root)
