"""Conflict rules: what two entries of one key become (K10, K11, and rules of a user's own).

A rule must be commutative, associative and idempotent, so that all hosts have the same value whatever the order in which changes come.
``jgroups_py.testing`` checks that of a user's rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from jgroups_py.maps.entry import Dots, Entry


class ConflictRule(Protocol):
    """Joins two values of a key. Both are as stored (bytes). It must not wait, nor change anything else."""

    name: str

    def merge(self, one: bytes, other: bytes) -> bytes:
        """The value that stands for both."""


class LastWriter:
    """The newer change wins as a whole: the rule of seed 004, and the default."""

    name = "last-writer"

    def merge(self, one: bytes, other: bytes) -> bytes:
        raise AssertionError("stamps decide")  # pragma: no cover


LAST_WRITER: Final = LastWriter()


def join(rule: ConflictRule, mine: Entry | None, theirs: Entry) -> tuple[Entry, bool]:
    """What a key holds when ``theirs`` has come, and whether the two are in conflict that nobody can decide: one stamp, two values
    (an identifier given twice, or a file copied). Then the smaller bytes win, everywhere."""
    if mine is None:
        return theirs, False
    if isinstance(rule, LastWriter):
        if theirs.stamp == mine.stamp:
            if 0 < theirs.expires == mine.expires and theirs.removed != mine.removed:
                return (mine if mine.removed else theirs), False  # one of us has buried it already
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
    if mine.value is None or theirs.value is None:
        value = theirs.value if mine.value is None else mine.value
    else:
        value = rule.merge(mine.value, theirs.value)
    return Entry(
        value, newer.stamp, joined.dots, max(mine.expires, theirs.expires), mine.life
    ), False


def _shown(entry: Entry) -> tuple[bool, bytes]:
    return entry.value is not None, entry.value or b""


def _covers(these: Dots, those: Dots) -> bool:
    return all(these.get(origin, 0) >= number for origin, number in those.items())


def _with(mine: Entry, theirs: Entry) -> Entry:
    dots = dict(mine.dots)
    for origin, number in theirs.dots.items():
        dots[origin] = max(dots.get(origin, 0), number)
    return Entry(mine.value, mine.stamp, dots, mine.expires, mine.life)


# --- shipped rules, on values of the JSON codec


class _OfValues:
    """A rule on decoded values."""

    name = ""

    def __init__(
        self,
        decode: Callable[[bytes], Any] = msgspec.json.decode,
        encode: Callable[[Any], bytes] = msgspec.json.encode,
    ) -> None:
        self._decode = decode
        self._encode = encode

    def merge(self, one: bytes, other: bytes) -> bytes:
        return self._encode(self.of_values(self._decode(one), self._decode(other)))

    def of_values(self, one: Any, other: Any) -> Any:
        raise NotImplementedError


class Union(_OfValues):
    """Sets, as lists of strings or numbers: their union, sorted. Elements are never removed (remove the key)."""

    name = "union"

    def of_values(self, one: Any, other: Any) -> Any:
        return sorted({*one, *other}, key=lambda item: (str(type(item)), item))


class Maximum(_OfValues):
    """The larger of two numbers or strings."""

    name = "maximum"

    def of_values(self, one: Any, other: Any) -> Any:
        return max(one, other)


class PnCounter(_OfValues):
    """A counter that each host adds to and subtracts from: for each host the sums of both, of which the larger ones win.

    Source: Shapiro and others, A comprehensive study of CRDTs (2011), PN-Counter.
    """

    name = "pn-counter"

    def of_values(self, one: Any, other: Any) -> Any:
        result = dict(one)
        for node, (added, taken) in other.items():
            have = result.get(node, (0, 0))
            result[node] = (max(have[0], added), max(have[1], taken))
        return dict(sorted(result.items()))

    def add(self, value: bytes | None, node: int, amount: int) -> bytes:
        """The value after this host has added ``amount``, which may be negative."""
        counts = self._decode(value) if value is not None else {}
        added, taken = counts.get(str(node), (0, 0))
        counts[str(node)] = (added + amount, taken) if amount > 0 else (added, taken - amount)
        return self._encode(dict(sorted(counts.items())))

    def total(self, value: bytes | None) -> int:
        counts = self._decode(value) if value is not None else {}
        return sum(added - taken for added, taken in counts.values())


class PerField(_OfValues):
    """Mappings whose fields are ``[time, node, value]``: the newer one of each field wins. The application writes time and node: no
    codec makes such mappings of a msgspec struct."""

    name = "per-field"

    def of_values(self, one: Any, other: Any) -> Any:
        result = dict(one)
        for name, (time, node, value) in other.items():
            have = result.get(name)
            if have is None or _order(time, node, value) > _order(*have):
                result[name] = [time, node, value]
        return dict(sorted(result.items()))


def _order(time: int, node: int, value: Any) -> tuple[int, int, bytes]:
    # The smaller identifier wins, and then, which takes an identifier given twice, the smaller bytes.
    raw = msgspec.json.encode(value)
    return time, -node, bytes(255 - byte for byte in raw) + b"\xff"


RULES: Final[dict[str, Callable[[], ConflictRule]]] = {
    rule.name: rule for rule in (LastWriter, Union, Maximum, PnCounter, PerField)
}
