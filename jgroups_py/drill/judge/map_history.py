"""The history of a map's keys: puts by host and time, and each host's values over time.

    before(v, w)   v is surely older than w: one host put v before w, or v was acknowledged before w began, at another host

All hosts of a drill share a clock, so the last write wins. Puts that overlap in time, or are closer than
``CLOCK_MARGIN``, may win in any order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jgroups_py.drill.judge.evidence import Evidence, who_of
from jgroups_py.drill.judge.rules import NEVER, Who
from jgroups_py.drill.log import DrillRecord

CLOCK_MARGIN: Final = 0.002
"""The most seconds between a put's stamp and the logged times around it."""

Version = tuple[str, str, int]
"""The writer of a value: site, ``NAME#incarnation``, and its number of that writer."""


@dataclass
class Put:
    """A put, or a removal."""

    who: Who
    seqno: int
    began: float
    removed: bool = False
    acked: float = NEVER

    @property
    def version(self) -> Version:
        return (self.who.site, self.who.origin, self.seqno)

    @property
    def life(self) -> tuple[int, int]:
        """Return its place among the puts of its host."""
        return (self.who.incarnation, self.seqno)


class Step(NamedTuple):
    """A host had this value from ``t`` on. None: the host had no value."""

    t: float
    version: Version | None


class Read(NamedTuple):
    """A value that a host found, or its ``own`` put."""

    t: float
    version: Version | None
    own: bool = False


@dataclass
class KeyHistory:
    """``steps``: of each incarnation, by time. ``reads``: of each host (``SITE.NAME``), in the order of its log, own
    puts and events included."""

    puts: dict[Version, Put] = field(default_factory=dict)
    steps: dict[Who, list[Step]] = field(default_factory=dict)
    reads: dict[str, list[Read]] = field(default_factory=dict)
    ends: dict[Who, Version | None] = field(default_factory=dict)
    """The value of each host at the end. A host without one is in ``Histories.asked`` only."""

    def before(self, version: Version, other: Version) -> bool:
        """Is ``version`` surely older than ``other``?"""
        one, two = self.puts.get(version), self.puts.get(other)
        if one is None or two is None:
            return False
        if one.who.place == two.who.place:
            return one.life < two.life
        return one.acked + CLOCK_MARGIN < two.began

    def outdated(self, found: Version | None, among: Iterable[Version], by: float) -> list[Version]:
        """Return those ``among`` which are surely later than the value ``found`` at that time. All, if no host put that value."""
        wanted = list(among)
        if found is not None:
            if found not in self.puts:
                return wanted
            return [version for version in wanted if self.before(found, version)]
        if not wanted:
            return []
        # Either nothing was put yet, or a possible removal has taken effect.
        choices = [wanted] + [
            [version for version in wanted if self.before(removal, version)]
            for removal, put in self.puts.items()
            if put.removed and put.began <= by
        ]
        return min(choices, key=len)

    def reached(self, who: Who, put: Put) -> float | None:
        """Return when a host first had ``put``, or something that surely replaced it. None: never, or another put
        won."""
        steps = self.steps.get(who, [])
        for step in steps[bisect_left(steps, put.began, key=lambda one: one.t) :]:
            if not self.outdated(step.version, [put.version], step.t):
                newer = step.version is None or self.before(put.version, step.version)
                return step.t if step.version == put.version or newer else None
        return None


class Histories:
    """The histories of all keys."""

    def __init__(self, evidence: Evidence) -> None:
        self.keys: dict[int, KeyHistory] = {}
        self.began: dict[Who, float] = {}
        """The time when an incarnation had opened its map and reported its contents."""
        self.asked: dict[Who, None] = {}
        """The hosts that reported their contents at the end."""
        for record in evidence.marks:
            if record.event == "census":
                self._census(record)
            elif record.event in ("put", "acked", "failed", "got", "seen"):
                key = self.keys.setdefault((record.detail or {})["key"], KeyHistory())
                _add(key, record, record.detail or {})

    def _census(self, record: DrillRecord) -> None:
        detail, who = record.detail or {}, who_of(record)
        if detail.get("first"):
            self.began[who] = record.t
        else:
            self.asked[who] = None
        owned = {int(key): version_of(value) for key, value in detail["owned"].items()}
        for number in owned:
            self.keys.setdefault(number, KeyHistory())
        for number, key in self.keys.items():
            version = owned.get(number)
            if number in owned or not detail.get("first"):
                _step(key, who, record.t, version)
            if not detail.get("first"):
                key.ends[who] = version


def _add(key: KeyHistory, record: DrillRecord, detail: dict[str, Any]) -> None:
    who, version = who_of(record), None
    if record.origin is not None and record.seqno is not None:
        version = (detail.get("from", who.site), record.origin, record.seqno)
    match record.event:
        case "put":
            assert version is not None
            key.puts[version] = Put(who, version[2], record.t, bool(detail.get("removed")))
        case "acked":
            assert version is not None
            if detail.get("nothing"):  # the put changed nothing, but counts as a read
                del key.puts[version]
                key.reads.setdefault(who.place, []).append(Read(record.t, None))
            else:
                put = key.puts[version]
                put.acked = record.t
                key.reads.setdefault(who.place, []).append(Read(record.t, version, own=True))
                _step(key, who, record.t, None if put.removed else version, put=version)
        case "failed":
            if version is not None:
                key.puts.pop(version, None)
        case "got":
            key.reads.setdefault(who.place, []).append(Read(record.t, version))
        case "seen":
            _step(key, who, record.t, version)


def _step(
    key: KeyHistory, who: Who, t: float, version: Version | None, *, put: Version | None = None
) -> None:
    """Note a host's new value. ``put``: the own put or removal that made it."""
    steps = key.steps.setdefault(who, [])
    if put is None:
        key.reads.setdefault(who.place, []).append(Read(t, version))
    if not steps or steps[-1].version != version or put is not None:
        steps.append(Step(t, version))


def version_of(owned: Sequence[Any]) -> Version:
    """Read a version of a census: origin, number, site."""
    return (str(owned[2]), str(owned[0]), int(owned[1]))


def text_of(version: Version | None) -> str | None:
    """Return ``NYC.A#1/17``."""
    return None if version is None else f"{version[0]}.{version[1]}/{version[2]}"


# --- differences and their durations


class KeyDifference(NamedTuple):
    """A key with different values at hosts. ``end`` ``NEVER``: to the end."""

    key: int
    start: float
    end: float


class _Change(NamedTuple):
    t: float
    order: int
    who: Who
    what: str
    """``set`` (a key has a value), ``up`` or ``down`` (a host)."""
    key: int = 0
    version: Version | None = None


def differences(histories: Histories, evidence: Evidence) -> list[KeyDifference]:
    """Return the differences between running hosts: from the drill's zero, or a host's start, until the key is equal at
    all."""
    has: dict[Who, dict[int, Version | None]] = {}
    up: dict[Who, None] = {}
    since: dict[int, float] = {}
    found: list[KeyDifference] = []

    def compare(number: int, t: float) -> None:
        values = {has[who].get(number) for who in up}
        if len(values) > 1:
            since.setdefault(number, max(t, 0.0))
        elif number in since:
            start = since.pop(number)
            if t > start:
                found.append(KeyDifference(number, start, t))

    changes = sorted(_changes(histories, evidence), key=lambda one: (one.t, one.order))
    place = 0
    while place < len(changes):
        t, touched = changes[place].t, dict[int, None]()
        while place < len(changes) and changes[place].t == t:
            change = changes[place]
            place += 1
            own = has.setdefault(change.who, {})
            if change.what == "set":
                own[change.key] = change.version
                touched[change.key] = None
            else:
                if change.what == "up":
                    up[change.who] = None
                else:
                    up.pop(change.who, None)
                touched.update(dict.fromkeys(histories.keys))
        for number in touched:
            compare(number, t)
    return found + [KeyDifference(number, start, NEVER) for number, start in since.items()]


def _changes(histories: Histories, evidence: Evidence) -> Iterator[_Change]:
    for number, key in histories.keys.items():
        for who, steps in key.steps.items():
            for step in steps:
                yield _Change(step.t, 0, who, "set", number, step.version)
    for who, t in histories.began.items():
        yield _Change(t, 1, who, "up")
        if evidence.ended(who) < NEVER:
            yield _Change(evidence.ended(who), 2, who, "down")
    for fault in evidence.faults:
        if fault.who is not None and fault.event in ("pause", "resume"):
            if fault.t < evidence.ended(fault.who):
                what = "down" if fault.event == "pause" else "up"
                yield _Change(fault.t, 1, fault.who, what)
