"""The application of a drill of live and backup: logs that operations append to, and clients that start operations.

An operation appends one entry, ``[origin, number]``, to several logs, one after the other. It returns the place of each
entry and the one before it. The logs therefore show later whether the client's answer still holds, and whether an
operation is there by half. Clients at a node that is not live are refused, as behind a load balancer that has not
noticed a change.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

import trio

from jgroups_py.drill.file.live_keys import LiveLoad
from jgroups_py.drill.run.user import Log, User
from jgroups_py.livebackup import (
    LiveBackupError,
    LiveBackupNode,
    NotLive,
    OutcomeUnknown,
    Stateful,
    Work,
)

LOOK_SECONDS: Final = 0.005
"""Seconds between two looks at the node's role."""


class DrillLog(Stateful):
    """Entries, in the order in which operations appended them."""

    def __init__(self) -> None:
        self.entries: list[list[Any]] = []

    def append(self, origin: str, number: int) -> list[Any]:
        """Append an entry. Return its place, from 0, and the entry before it (None: it is the first)."""
        before = self.entries[-1] if self.entries else None
        self.entries = [*self.entries, [origin, number]]
        return [len(self.entries) - 1, before]


async def append_to(work: Work, origin: str, number: int, logs: list[int], step: float) -> Any:
    """Append an entry to each of the logs. ``step``: seconds for each."""
    found = []
    for log in logs:
        found.append(await work.get(DrillLog, str(log)).append(origin, number))
        if step:
            await trio.sleep(step)
    return found


KINDS: Final = (DrillLog,)
OPERATIONS: Final = (append_to,)


class Append(NamedTuple):
    """A request: an entry for these logs."""

    logs: list[int]


class LiveUser(User[LiveLoad, Append]):
    """One node's clients."""

    settled: ClassVar[tuple[str, ...]] = ("live", "backup")

    def __init__(
        self, node: LiveBackupNode, site: str, origin: str, chance: random.Random, log: Log
    ) -> None:
        super().__init__(site, origin, chance, log)
        self._node = node
        self.role = "joining"
        """The last logged role. Clients are served while it is live."""

    def source(self, load: LiveLoad) -> Callable[[], Append]:
        chance = self._chance
        width = min(load.width, load.objects)
        return lambda: Append(chance.sample(range(load.objects), width))

    def refuse(self, request: Append, why: str) -> None:
        self._log("failed", keys=request.logs, why=why, definite=True)

    async def do(self, request: Append, load: LiveLoad) -> None:
        if self.role != "live" or self._node.role != "live":
            self._log("failed", keys=request.logs, why="not live", definite=True)
            return
        self._seqno += 1
        seqno, logs = self._seqno, request.logs
        self._log("put", self._origin, seqno, keys=logs)
        try:
            at = await self._node.run(append_to, self._origin, seqno, logs, load.step)
        except (NotLive, OutcomeUnknown, LiveBackupError) as error:
            definite, why = isinstance(error, NotLive), str(error)
            self._log("failed", self._origin, seqno, keys=logs, why=why, definite=definite)
        else:
            self._log("acked", self._origin, seqno, keys=logs, at=at)

    async def watch(self) -> None:
        """Log the node's role when it changes. The contents of a new live node are logged before it serves a client."""
        while True:
            role = self._node.role
            if role != self.role:
                if role == "live":
                    await self.census(first=True)
                self.role = role
                self._log("role", role=role, term=self._node.term)
            await trio.sleep(LOOK_SECONDS)

    async def census(self, **more: Any) -> None:
        """Log all that this node has."""
        owned: dict[str, list[list[Any]]] = {}
        for key, state in (await self._node.space.saved()).items():
            owned[key.partition("/")[2]] = [list(entry) for entry in state["entries"]]
        self._log("census", owned=owned, role=self._node.role, **more)
