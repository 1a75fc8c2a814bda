"""MapAdmission: decides which changes of its peers a replica takes. An unchecked peer (no TLS) may send any message.

an identifier      above those that are configured: nothing of that host is taken
an origin          beyond ``origins_max``: nothing of it is taken. Each life of a file is an origin, and stays in memory
a time             further ahead than ``max_ahead``: the change and all later ones of its origin wait until this host's clock has come
                   near. So it cannot win over writes made until then, hosts end equal, and no clock follows it
an entry           that does not name its own change: its link ends
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from jgroups_py.maps.entry import KEY_MAX, MapEntry, decode_entry, node_of
from jgroups_py.maps.fields import latest_field
from jgroups_py.maps.messages import BadMessage, OriginChanges
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.rules import PerField
from jgroups_py.maps.stamp import TICKS_PER_S
from jgroups_py.maps.table import Vector

Entries = Sequence[tuple[bytes, MapEntry]]


class MapAdmission:
    """``known``: origins that the table has. ``wall`` gives the ticks of this host's clock."""

    def __init__(
        self, settings: ReplicaSettings, known: Iterable[int], wall: Callable[[], int]
    ) -> None:
        self._identifier_max = settings.identifier_max
        self._origins_max = settings.origins_max
        self._ahead = int(settings.max_ahead * TICKS_PER_S)
        self._by_fields = settings.rule == PerField.name
        self._wall = wall
        self.known = {settings.origin, *known}
        """Origins of which something was taken."""

    # --- identifiers and origins

    def is_identifier(self, node: int) -> bool:
        return 0 < node <= self._identifier_max

    def refusal(self, origin: int) -> str:
        """Return why changes of an origin are not taken, as a counter's name. Empty: they are taken."""
        if origin in self.known:
            return ""
        if not self.is_identifier(node_of(origin)):
            return "identifiers_refused"
        return "origins_refused" if len(self.known) >= self._origins_max else ""

    def vector(self, pairs: Iterable[tuple[int, int]]) -> Vector:
        """Return the part of a peer's numbers that is kept: those that this host could take."""
        vector = {}
        room = self._origins_max
        for origin, number in pairs:
            if origin in self.known:
                vector[origin] = number
            elif room > 0 and self.is_identifier(node_of(origin)):
                vector[origin] = number
                room -= 1
        return vector

    # --- changes

    def read(self, changes: OriginChanges) -> Entries:
        """Return the entries of a message. BadMessage, DamagedEntry: no honest host sends such a message."""
        entries = [(key, decode_entry(data)) for key, data in changes.entries]
        origin, last = changes.origin, changes.after
        for key, entry in entries:
            if not 0 < len(key) <= KEY_MAX:
                raise BadMessage(f"a key of {len(key)} bytes, 1 to {KEY_MAX} are possible")
            number = entry.dots.get(origin, 0)
            if not last < number <= changes.to:
                raise BadMessage(
                    f"an entry that is change {number} of its origin, where {last + 1} to {changes.to} are possible"
                )
            last = number
            if not self.is_identifier(entry.stamp.node):
                raise BadMessage(
                    f"a stamp of host {entry.stamp.node}, 1 to {self._identifier_max} are possible"
                )
        return entries

    def take(self, origin: int, entries: Entries) -> str:
        """Remember the origins of changes. Return the reason for a refusal, as ``refusal`` does. Origins of refused
        changes are not remembered."""
        known = self.known
        new = {} if origin in known else {origin: None}
        for _, entry in entries:
            for other in entry.dots:
                if other not in known:
                    new[other] = None
        if not new:
            return ""
        if not all(self.is_identifier(node_of(other)) for other in new):
            return "identifiers_refused"
        if len(known) + len(new) > self._origins_max:
            return "origins_refused"
        known.update(new)
        return ""

    def ready(self, entries: Entries) -> tuple[int, int]:
        """Return the number of entries, from the first one, that are not too far ahead, and the time of the next one, 0
        if these are all."""
        limit = self._wall() + self._ahead
        for count, (_, entry) in enumerate(entries):
            time = self.latest(entry)
            if time > limit:
                return count, time
        return len(entries), 0

    def latest(self, entry: MapEntry) -> int:
        """Return the latest time that an entry names."""
        time = max(entry.stamp.time, entry.life)
        if self._by_fields and entry.value is not None:
            time = max(time, latest_field(entry.value))
        return time

    def is_ahead(self, time: int) -> bool:
        """Return whether a change of this time must wait, or a clock with this time must not be followed."""
        return time > self._wall() + self._ahead

    def is_ahead_of(self, clock: int, time: int) -> bool:
        """Return whether a host whose clock has ``clock`` makes a change of ``time`` wait, if it has the same
        ``max_ahead``."""
        return time > clock + self._ahead
