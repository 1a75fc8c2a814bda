"""Desk: carries requests to directories, each in a thread, those of one kind in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import trio

from jgroups_py.driver.directories.asking import KINDS, Directory, answer_of
from jgroups_py.stack.ports import Consult, Consulted, In


class Desk:
    """``take`` gets the answers. ``limiter``: the most threads; one whose request took too long counts until it ends.
    The end of the driver does not wait for the threads."""

    def __init__(
        self,
        directory: Directory,
        take: Callable[[Sequence[In]], None],
        limiter: trio.CapacityLimiter,
        waiting_max: int,
    ) -> None:
        self._directory = directory
        self._take = take
        self._limiter = limiter
        self._waiting_max = waiting_max
        self._waiting: dict[str, deque[Consult]] = {}
        """The waiting requests by kind; the first one of each kind is under way."""

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def submit(self, out: Consult, nursery: trio.Nursery) -> Consulted | None:
        """Put ``out`` into its row. If the row is full, answer at once."""
        kind = KINDS[type(out.request)]
        row = self._waiting.get(kind)
        if row is None:
            self._waiting[kind] = deque([out])
            nursery.start_soon(self._run, kind)
        elif len(row) >= self._waiting_max:
            return Consulted(out.handle, None, f"{len(row)} requests wait already")
        else:
            row.append(out)
        return None

    async def _run(self, kind: str) -> None:
        row = self._waiting[kind]
        while row:
            found = await self._answer(row[0])
            row.popleft()
            if not row:
                del self._waiting[
                    kind
                ]  # before the answer is handed in, because that may ask again
            self._take([found])
            if kind not in self._waiting or self._waiting[kind] is not row:
                return

    async def _answer(self, out: Consult) -> Consulted:
        found: Consulted | None = None
        with trio.move_on_after(out.timeout):
            found = await trio.to_thread.run_sync(
                partial(answer_of, self._directory, out),
                abandon_on_cancel=True,
                limiter=self._limiter,
            )
        return found or Consulted(out.handle, None, f"no answer within {out.timeout:g} s")
