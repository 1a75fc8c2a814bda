"""Feed: the changes of a file since the last look.

It reads the index of the file, as replication does, from a number for each origin. A slow reader therefore costs no
memory, and of several changes of one key only the latest is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.maps.codecs import Codec, decoded
from jgroups_py.maps.errors import MapError
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import TICKS_PER_S

CHANGES_AT_ONCE: Final = 1000
LISTEN_INTERVAL: Final = 0.005
"""Seconds between looks of a listener."""


@dataclass(frozen=True, slots=True)
class MapChange:
    """A key has a new value or was removed. Of several changes at once only the latest is reported."""

    key: Any
    value: Any
    """None if the key was removed."""
    removed: bool
    host: int
    """Identifier of the host that made the change."""
    local: bool
    """Did a process of this host make the change?"""
    time: float
    """Seconds since 1970, by the clock of that host."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Changes are missing at this place; ``reason`` gives the cause. Removals were forgotten before this
    listener read them, or this host began anew: read the map anew. Or the codec cannot read a key or value of
    another writer."""

    reason: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """``count`` least recently used entries were evicted at a limit. A map with evict="remove" reports their removals,
    too."""

    count: int


Heard = MapChange | Skipped | Evicted
"""The items of a listener."""


class Feed:
    """The changes from now on, perhaps with some made a moment earlier."""

    def __init__(self, file: SharedFile, key: Codec[Any], value: Codec[Any]) -> None:
        self._file = file
        self._key, self._value = key, value
        self._seen = file.vector()
        self._forgotten = dict(file.forgotten)
        self._evicted = file.evicted()
        self._generation = -1

    def take(self) -> list[Heard]:
        """Return new items, at most CHANGES_AT_ONCE changes of each host."""
        file = self._file
        generation = file.generation()
        if generation == self._generation:
            return []
        found: list[Heard] = []
        vector = file.vector()
        forgotten = file.forgotten
        seen = self._seen
        if any(vector.get(origin, 0) < number for origin, number in seen.items()):
            found.append(Skipped("this host was away for too long and began anew"))
            self._seen = seen = {o: min(n, vector.get(o, 0)) for o, n in seen.items()}
        elif any(
            number > max(seen.get(origin, 0), self._forgotten.get(origin, 0))
            for origin, number in forgotten.items()
        ):
            found.append(Skipped("removals were forgotten before this listener read them"))
        self._forgotten = dict(forgotten)
        complete = True
        for origin, to in vector.items():
            after = seen.get(origin, 0)
            if after >= to:
                continue
            changes = list(file.changes(origin, after, to, CHANGES_AT_ONCE))
            found += [self._heard(key, entry) for _, key, entry in changes]
            full = len(changes) == CHANGES_AT_ONCE
            seen[origin] = changes[-1][0] if full else to
            complete = complete and not full
        evicted = file.evicted()
        if evicted > self._evicted:
            found.append(Evicted(evicted - self._evicted))
            self._evicted = evicted
        if complete:
            self._generation = generation
        return found

    def _heard(self, key: bytes, entry: Any) -> Heard:
        try:
            return self._change(key, entry)
        except MapError as error:
            # The listener continues. Otherwise one bad value would end all listeners of all hosts.
            return Skipped(f"a change of host {entry.stamp.node}: {error} (key {key[:40]!r})")

    def _change(self, key: bytes, entry: Any) -> MapChange:
        removed = entry.value is None or entry.is_over(self._file.clock.wall_time())
        return MapChange(
            decoded(self._key, key, "key"),
            None if removed else decoded(self._value, entry.value, "value"),
            removed,
            entry.stamp.node,
            entry.stamp.node == self._file.identifier,
            entry.stamp.time / TICKS_PER_S,
        )
