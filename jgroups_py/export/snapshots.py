"""Snapshots that a port keeps for its clients, which read them piece by piece."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jgroups_py.errors import StoreError
from jgroups_py.export.errors import Busy, UnknownSnapshot
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.source import Frozen, Source

_log = logging.getLogger("jgroups_py.export")


@dataclass(slots=True)
class KeptSnapshot:
    source: Source
    frozen: Frozen
    used: float


class Snapshots:
    """Snapshots by id. ``now`` is the time of the caller's clock, in seconds."""

    def __init__(self, limits: ExportLimits) -> None:
        self._limits = limits
        self._kept: dict[str, KeptSnapshot] = {}
        self._opening = 0

    async def open(
        self, source: Source, under: Sequence[str], clock: Callable[[], float]
    ) -> tuple[str, Frozen]:
        """Open a snapshot and return its id and its content. Raise Busy if too many are open or being opened. Errors of
        ``freeze`` come out."""
        await self._make_room(clock())
        self._opening += 1
        try:
            frozen = await source.freeze(under)
        finally:
            self._opening -= 1
        id = secrets.token_hex(16)
        self._kept[id] = KeptSnapshot(source, frozen, clock())
        return id, frozen

    async def _make_room(self, now: float) -> None:
        await self.expire(now)
        if self._kept and len(self) >= self._limits.snapshots_max:
            oldest = min(self._kept, key=lambda id: self._kept[id].used)
            if now - self._kept[oldest].used > self._limits.snapshot_min:
                await self.close(oldest)
        if len(self) >= self._limits.snapshots_max:
            raise Busy(f"{len(self)} snapshots are open (snapshots_max); close one, or wait")

    def get(self, id: str, now: float) -> KeptSnapshot:
        """Return a snapshot. Raise UnknownSnapshot if it was closed."""
        kept = self._kept.get(id)
        if kept is None:
            raise UnknownSnapshot(
                f"snapshot {id[:8]} is not open here: closed, not read for "
                f"{self._limits.snapshot_ttl:g} s (snapshot_ttl), or another member's"
            )
        kept.used = now
        return kept

    async def close(self, id: str) -> None:
        kept = self._kept.pop(id, None)
        if kept is not None:
            try:
                await kept.frozen.aclose()
            except StoreError as error:  # the snapshot is closed here, and the port serves others
                _log.warning("closing a snapshot: %s", error)

    async def expire(self, now: float) -> None:
        for id in [i for i, k in self._kept.items() if now - k.used > self._limits.snapshot_ttl]:
            await self.close(id)

    async def close_all(self) -> None:
        for id in [*self._kept]:
            await self.close(id)

    def __contains__(self, id: str) -> bool:
        return id in self._kept

    def __len__(self) -> int:
        """Return the number of snapshots that are open or being opened."""
        return len(self._kept) + self._opening
