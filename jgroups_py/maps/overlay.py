"""Overlay: by key, the joined records of inboxes that the snapshot of this process lacks.

The caller holds the lock of the map's file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from jgroups_py.maps.control import SLOTS, Control
from jgroups_py.maps.entry import MapEntry, decode_entry
from jgroups_py.maps.inbox import CHANGE, ENTRY, InboxFiles, split_keyed
from jgroups_py.maps.rules import ConflictRule, LastWriter, merged
from jgroups_py.maps.stamp import HybridClock
from jgroups_py.maps.store import MapStore

CATCH_UPS: Final = 10
"""The most times that one call reads the inboxes again after merges in between."""
PRUNED_AT_ONCE: Final = 500
"""Merged records that one call forgets. The next calls forget the rest, so that no put waits for all."""


@dataclass(slots=True)
class _Waiting:
    """The joined records of a key."""

    entry: MapEntry
    slot: int
    end: int


class Overlay:
    """``changed`` is called once with each change that is read or noted. ``observed``: the clock, if it is hybrid."""

    def __init__(
        self,
        store: MapStore,
        control: Control,
        inboxes: InboxFiles,
        rule: ConflictRule,
        observed: HybridClock | None,
        changed: Callable[[bytes, MapEntry], None],
    ) -> None:
        self._store = store
        self._control = control
        self._inboxes = inboxes
        self._rule = rule
        self._last_writer = isinstance(rule, LastWriter)
        self._observed = observed
        self._changed = changed
        self.waiting: dict[bytes, _Waiting] = {}
        """The joined records by key. Other modules may only test for a key."""
        self._pending: dict[int, deque[tuple[int, bytes]]] = {}
        self._read_to = [0] * SLOTS
        self._merged_to = [0] * SLOTS
        self._behind = False
        self.mark = b""
        """While ``Control.mark`` equals it, there is no change since the last look. Empty: the next look reads all
        records."""
        self._generation = -1

    def __len__(self) -> int:
        return len(self.waiting)

    def __contains__(self, key: bytes) -> bool:
        return key in self.waiting

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.waiting)

    def entry(self, key: bytes, base: bytes | None) -> MapEntry | None:
        """Return the entry of a key whose entry in the snapshot is ``base``."""
        waiting = self.waiting.get(key)
        if waiting is None or waiting.end <= self._merged_to[waiting.slot]:
            # Merged but not forgotten here yet: the snapshot has the result.
            return None if base is None else decode_entry(base)
        return waiting.entry if base is None else self._joined(decode_entry(base), waiting.entry)

    def between(self, after: bytes, last: bytes | None) -> list[bytes]:
        """Return the keys above ``after`` and up to ``last``. None: to the end."""
        return [key for key in self.waiting if key > after and (last is None or key <= last)]

    # --- news

    def begin_anew(self) -> None:
        """Begin anew: the snapshot has ended, and the next look takes another one."""
        self._generation, self.mark = -1, b""

    def rest(self) -> None:
        """End the snapshot. The next look takes another snapshot."""
        self._store.suspend()
        self.begin_anew()

    def look(self) -> None:
        """Read news from the inboxes and the file. Needed when ``mark`` differs from the control file's."""
        if self._control.mark() != self.mark:
            self._catch_up()

    def note(self, key: bytes, entry: MapEntry, slot: int, end: int) -> None:
        """Note a record of an inbox, up to ``end``."""
        if self._observed is not None:
            self._observed.observe(entry.stamp.time)
        waiting = self.waiting.get(key)
        pending = self._pending.get(slot)
        if pending is None:
            pending = self._pending[slot] = deque()
        pending.append((end, key))
        if waiting is None:
            self.waiting[key] = _Waiting(entry, slot, end)
        else:
            joined = self._joined(waiting.entry, entry)
            if joined is not waiting.entry:
                self.waiting[key] = _Waiting(joined, slot, end)
        self._changed(key, entry)

    def wrote(self, slot: int, end: int) -> None:
        """Note an own record up to ``end``, which need not be read."""
        self._read_to[slot] = end
        if self.mark:
            # The mark lacks the writes of others since the last look, so the next look sees them.
            self.mark = self._control.marked(self.mark, slot, end)

    def _catch_up(self) -> None:
        """Read others' writes, and forget merged records."""
        control = self._control
        for _ in range(CATCH_UPS):
            mark = control.mark_anew()
            if self._behind or control.generation() != self._generation:
                self._behind = False
                self._generation = control.generation()
                # read before the snapshot, which then has all these records
                self._merged_to = control.all_merged()
                self._store.refresh()
                if self._observed is not None:
                    # A change of this host may have got a later time when it was merged.
                    self._observed.observe(self._store.last_time())
            complete = self._prune()
            read_to, merged_to = self._read_to, self._merged_to
            for slot, written in enumerate(control.all_written()):
                if read_to[slot] >= written or merged_to[slot] >= written:
                    continue
                begin = max(read_to[slot], merged_to[slot])
                read_to[slot] = self._read(slot, begin, written)
                complete = complete and read_to[slot] >= written
            self.mark = mark if complete else b""
            if not self._behind:
                return

    def _prune(self) -> bool:
        """Forget records that the snapshot has. Return whether none is left."""
        left = PRUNED_AT_ONCE
        for slot, pending in self._pending.items():
            merged_to = self._merged_to[slot]
            while pending and pending[0][0] <= merged_to:
                if left <= 0:
                    return False
                left -= 1
                end, key = pending.popleft()
                waiting = self.waiting.get(key)
                if waiting is not None and (waiting.slot, waiting.end) == (slot, end):
                    del self.waiting[key]
        return True

    def _read(self, slot: int, begin: int, written: int) -> int:
        for end, kind, data in self._inboxes.of(slot).records(begin, written):
            if self._control.merged(slot) > begin:
                break
            begin = end
            if kind in (CHANGE, ENTRY):
                key, encoded = split_keyed(data)
                self.note(key, decode_entry(encoded), slot, end)
        if self._control.merged(slot) > begin:
            self._behind = True  # the record is in the file, and may be overwritten here
        return begin

    def _joined(self, base: MapEntry, new: MapEntry) -> MapEntry:
        if new.life > base.life:
            return new
        if self._last_writer:
            return new if new.stamp.is_newer(base.stamp) or new.stamp == base.stamp else base
        if base.life > new.life:
            return base
        if base.value is None or new.value is None:
            return base if new.value is None else new
        newer = new if new.stamp.is_newer(base.stamp) else base
        return MapEntry(
            merged(self._rule, base.value, new.value)[0],
            newer.stamp,
            base.dots,
            max(base.expires, new.expires),
            base.life,
        )
