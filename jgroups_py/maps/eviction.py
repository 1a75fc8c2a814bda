"""Eviction: at a limit (``max_entries``, ``max_live_bytes``) the least recently used entries leave the map.

    a write        is a use: at the time of its stamp
    a read         goes into the reader's inbox, for each key at most once in USE_INTERVAL, and only while that inbox is
                   less than half full. A reader does not wait, and an unreported use makes an entry look older
    the merger     removes the oldest entries at the end of the transaction that reaches a limit

``evict`` selects how. "forget": as if the entry had never been written; for maps without other hosts. "remove": as
``del`` does, at all hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from jgroups_py.maps.errors import MapError

FORGET: Final = "forget"
REMOVE: Final = "remove"
WAYS: Final = (FORGET, REMOVE)
EVICTED_AT_ONCE: Final = 10_000
"""The most entries that one transaction evicts; the rest follows with the next one."""
USE_INTERVAL: Final = 1.0
"""Seconds between two reports of a key's use by one process."""
TOLD_MAX: Final = 10_000
"""The most keys whose last report a process remembers. Beyond that it forgets all and reports them again."""
EVICTION_SLOT: Final = 255
"""The slot in the stamps of evictions: no process has it."""

_LIMITS: Final = Struct("<QQB")
_TIME: Final = Struct(">Q")
TIME: Final = Struct("<Q")
"""The time in a record of a use."""


@dataclass(frozen=True, slots=True)
class MapLimits:
    """Limits of a map; 0: no limit. ``max_live_bytes``: keys and values of present entries."""

    max_entries: int = 0
    max_live_bytes: int = 0
    evict: str = FORGET

    def __post_init__(self) -> None:
        for name in ("max_entries", "max_live_bytes"):
            if getattr(self, name) < 0:
                raise MapError(
                    f"{name} must be at least 1, or 0 for no limit, got {getattr(self, name)}"
                )
        if self.evict not in WAYS:
            raise MapError(f'evict must be {" or ".join(WAYS)}, got "{self.evict}"')

    def __bool__(self) -> bool:
        return bool(self.max_entries or self.max_live_bytes)

    def encode(self) -> bytes:
        return _LIMITS.pack(self.max_entries, self.max_live_bytes, WAYS.index(self.evict))


def limits_of(data: bytes | None) -> MapLimits:
    """Read limits. ``data``: the fact of a file; None: the file has no limits."""
    if data is None:
        return MapLimits()
    entries, size, way = _LIMITS.unpack(data)
    return MapLimits(entries, size, WAYS[way])


class Uses:
    """The last use of each entry, within one transaction. ``times``: time in ticks, big-endian, and key. ``keys``: key
    -> time."""

    def __init__(self, txn: Any, times: Any, keys: Any) -> None:
        self._txn, self._times, self._keys = txn, times, keys

    def set(self, key: bytes, time: int) -> None:
        """Note a use. An earlier one than the known one is ignored."""
        txn, now = self._txn, _TIME.pack(time)
        before = txn.get(key, db=self._keys)
        if before is not None:
            if before >= now:
                return
            txn.delete(before + key, db=self._times)
        txn.put(key, now, db=self._keys)
        txn.put(now + key, b"", db=self._times)

    def drop(self, key: bytes) -> None:
        before = self._txn.pop(key, db=self._keys)
        if before is not None:
            self._txn.delete(before + key, db=self._times)

    def knows(self, key: bytes) -> bool:
        return self._txn.get(key, db=self._keys) is not None

    def clear(self) -> None:
        for db in (self._times, self._keys):
            self._txn.drop(db, delete=False)

    def oldest(self) -> Iterator[bytes]:
        """Yield keys, least recently used first. No writes may come meanwhile."""
        with self._txn.cursor(db=self._times) as cursor:
            for row in cursor.iternext(values=False):
                yield row[_TIME.size :]


class Readings:
    """The uses that this process has reported."""

    def __init__(self) -> None:
        self._told: dict[bytes, float] = {}

    def is_due(self, key: bytes, now: float) -> bool:
        """Is a report of the key's use due? A due report counts as made. ``now``: seconds."""
        last = self._told.get(key)
        if last is not None and now - last < USE_INTERVAL:
            return False
        if len(self._told) >= TOLD_MAX:
            self._told.clear()
        self._told[key] = now
        return True
