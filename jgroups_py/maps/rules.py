"""Conflict rules: they join two entries of one key (K10, K11, and users' own rules).

A rule must be commutative, associative and idempotent, so that all hosts have the same value in any order of changes.
``jgroups_py.testing`` checks this for a user's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from jgroups_py.maps.entry import Dots, MapEntry


class ConflictRule(Protocol):
    """Joins two values of a key, both as stored bytes. It must not wait or have side effects."""

    name: str

    def merge(self, one: bytes, other: bytes) -> bytes:
        """Return the value that stands for both."""


class LastWriter:
    """The newer change wins as a whole: the rule of seed 004, and the default."""

    name = "last-writer"

    def merge(self, one: bytes, other: bytes) -> bytes:
        raise AssertionError("stamps decide")  # pragma: no cover


LAST_WRITER: Final = LastWriter()


def join(rule: ConflictRule, mine: MapEntry | None, theirs: MapEntry) -> tuple[MapEntry, bool]:
    """Join ``theirs`` with the key's entry. Return the result, and whether two values had one stamp (an identifier
    given twice, or a copied file). Then the smaller bytes win, everywhere."""
    if mine is None:
        return theirs, False
    if isinstance(rule, LastWriter):
        if theirs.stamp == mine.stamp:
            if 0 < theirs.expires == mine.expires and theirs.removed != mine.removed:
                return (mine if mine.removed else theirs), False  # one side has already removed it
            one, other = _shown(mine), _shown(theirs)
            if one == other:
                return (mine if _covers(mine.dots, theirs.dots) else _with(mine, theirs)), False
            return (mine if one < other else theirs), True
        return (theirs if theirs.stamp.is_newer(mine.stamp) else mine), False
    if theirs.life != mine.life:
        return (theirs if theirs.life > mine.life else mine), False
    if _covers(mine.dots, theirs.dots):
        return mine, False
    if _covers(theirs.dots, mine.dots):
        return theirs, False
    joined = _with(mine, theirs)
    newer = theirs if theirs.stamp.is_newer(mine.stamp) else mine
    undecided = False
    if mine.value is None or theirs.value is None:
        value = theirs.value if mine.value is None else mine.value
    else:
        value, undecided = merged(rule, mine.value, theirs.value)
    return MapEntry(
        value, newer.stamp, joined.dots, max(mine.expires, theirs.expires), mine.life
    ), undecided


def merged(rule: ConflictRule, one: bytes, other: bytes) -> tuple[bytes, bool]:
    """Merge two values. Return the result, and whether the rule failed.

    Values come from other hosts, too. A value that the rule cannot merge even with itself gives way to any other; of
    two such values the larger bytes stay. So invalid bytes do not stop a host, and all hosts end with one value.
    """
    try:
        return rule.merge(one, other), False
    except Exception:  # a user's rule may raise anything
        takes = _takes(rule, one), _takes(rule, other)
        if takes[0] != takes[1]:
            return one if takes[0] else other, True
        return max(one, other), True


def _takes(rule: ConflictRule, value: bytes) -> bool:
    try:
        rule.merge(value, value)
    except Exception:
        return False
    return True


def _shown(entry: MapEntry) -> tuple[bool, bytes]:
    return entry.value is not None, entry.value or b""


def _covers(these: Dots, those: Dots) -> bool:
    return all(these.get(origin, 0) >= number for origin, number in those.items())


def _with(mine: MapEntry, theirs: MapEntry) -> MapEntry:
    dots = dict(mine.dots)
    for origin, number in theirs.dots.items():
        dots[origin] = max(dots.get(origin, 0), number)
    return MapEntry(mine.value, mine.stamp, dots, mine.expires, mine.life)


# --- shipped rules, on values of the JSON codec


class _OfValues:
    """Base of rules on decoded values."""

    name = ""
    kind: Any = Any
    """The accepted type of JSON values; others are refused."""

    def __init__(
        self,
        decode: Callable[[bytes], Any] | None = None,
        encode: Callable[[Any], bytes] = msgspec.json.encode,
    ) -> None:
        self._decode = decode or msgspec.json.Decoder(self.kind).decode
        self._encode = encode

    def merge(self, one: bytes, other: bytes) -> bytes:
        return self._encode(self.of_values(self._decode(one), self._decode(other)))

    def of_values(self, one: Any, other: Any) -> Any:
        raise NotImplementedError


class Union(_OfValues):
    """Sets, as lists of strings or numbers: their union, sorted. Elements are never removed (remove the key)."""

    name = "union"
    kind = list[str | int | float]

    def of_values(self, one: Any, other: Any) -> Any:
        items = {repr(item): item for item in (*one, *other)}  # 1 and 1.0 are two elements
        return sorted(items.values(), key=_place)


class Maximum(_OfValues):
    """The larger of two numbers or strings."""

    name = "maximum"
    kind = str | int | float

    def of_values(self, one: Any, other: Any) -> Any:
        return max(one, other, key=_place)


def _place(item: Any) -> tuple[bool, Any, str]:
    # Equal numbers (1 and 1.0, 0.0 and -0.0) need an order, too. Otherwise the first one would stay.
    return isinstance(item, str), item, repr(item)


class PnCounter(_OfValues):
    """A counter that each host may raise and lower. It keeps two sums for each host; the larger sums win.

    Source: Shapiro and others, A comprehensive study of CRDTs (2011), PN-Counter.
    """

    name = "pn-counter"
    kind = dict[str, tuple[int, int]]

    def of_values(self, one: Any, other: Any) -> Any:
        result = dict(one)
        for node, (added, taken) in other.items():
            have = result.get(node, (0, 0))
            result[node] = (max(have[0], added), max(have[1], taken))
        return dict(sorted(result.items()))

    def add(self, value: bytes | None, node: int, amount: int) -> bytes:
        """Return the value after this host has added ``amount``, which may be negative."""
        counts = self._decode(value) if value is not None else {}
        added, taken = counts.get(str(node), (0, 0))
        counts[str(node)] = (added + amount, taken) if amount > 0 else (added, taken - amount)
        return self._encode(dict(sorted(counts.items())))

    def total(self, value: bytes | None) -> int:
        counts = self._decode(value) if value is not None else {}
        return sum(added - taken for added, taken in counts.values())


class PerField(_OfValues):
    """Values with a last writer for each field: two hosts that change different fields lose no change.

    For maps of msgspec Structs, and of JSON objects. A put compares with the value at this host: differing fields
    change, all others keep their writer. ``fields.py`` has the stored form.
    """

    name = "per-field"
    kind = dict[str, list[Any]]

    def of_values(self, one: Any, other: Any) -> Any:
        for field in one.values():
            _order(field)
        result = dict(one)
        for name, field in other.items():
            have = result.get(name)
            if have is None or _order(field) > _order(have):
                result[name] = field
        return dict(sorted(result.items()))


def _order(field: list[Any]) -> tuple[int, int, bytes]:
    # The smaller identifier wins; with equal ones (given twice) the smaller bytes.
    time, node, *value = field
    if type(time) is not int or type(node) is not int or len(value) > 1:
        raise ValueError("a field is its time, its host, and its value if it has one")
    raw = msgspec.json.encode(value)
    return time, -node, bytes(255 - byte for byte in raw) + b"\xff"


RULES: Final[dict[str, Callable[[], ConflictRule]]] = {
    rule.name: rule for rule in (LastWriter, Union, Maximum, PnCounter, PerField)
}
