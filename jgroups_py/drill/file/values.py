"""Units of drill files: durations, sizes, rates, percentages, and ranges of them.

Durations ``ms s m h`` become seconds, sizes ``B KB MB`` bytes (KB = 1000), rates ``N/s`` and
``N/min`` messages a second, percentages fractions. A unit is required, except for 0: a bare 5 in a stack file means
milliseconds, elsewhere seconds, and a drill should not depend on its reader.

Every function raises ``ValueError`` with a text that says what would be accepted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z%/]*)\s*")

DURATIONS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
SIZES = {"B": 1, "KB": 1_000, "MB": 1_000_000}
RATES = {"/s": 1.0, "/min": 1 / 60}
PERCENT = {"%": 0.01}


@dataclass(frozen=True, slots=True)
class DrawnValue:
    """A value, or the range from which it is drawn: ``low <= drawn <= high``."""

    low: float
    high: float

    @property
    def fixed(self) -> bool:
        """Is there nothing to draw?"""
        return self.low == self.high


def _quantity(text: str, units: dict[str, float] | dict[str, int], accepted: str) -> float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {accepted}")
    number, unit = float(match[1]), match[2]
    if not unit and number == 0:
        return 0.0
    if unit not in units:
        what = f"unit {unit!r} unknown" if unit else "no unit"
        raise ValueError(f"{text!r}: {what}; {accepted} expected")
    # A fraction as unit divides: 300 * 0.001 is 0.3, but 7 * 0.01 is not 0.07.
    factor = units[unit]
    value = number / round(1 / factor) if 0 < factor < 1 else number * factor
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large")
    return value


def duration(text: str) -> float:
    """Return ``300ms``, ``1.5s``, ``2m``, ``1h`` in seconds."""
    return _quantity(text, DURATIONS, "a duration such as 300ms, 1.5s, 2m, 1h")


def size(text: str) -> int:
    """Return ``100B``, ``1KB``, ``2MB`` in bytes."""
    value = _quantity(text, SIZES, "a size such as 100B, 1KB, 2MB")
    if value != int(value):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(value)


def rate(text: str) -> float:
    """Return ``200/s``, ``30/min`` in messages a second."""
    return _quantity(text, RATES, "a rate such as 200/s, 30/min")


def percentage(text: str) -> float:
    """Return ``0.1%`` as a fraction from 0 to 1."""
    value = _quantity(text, PERCENT, "a percentage such as 0.1%")
    if value > 1:
        raise ValueError(f"{text!r} is more than 100%")
    return value


def span(text: str, read: Callable[[str], float]) -> DrawnValue:
    """Read one value, or ``A..B``; the unit may be given once, at the end (``8..10s``)."""
    low, dots, high = text.partition("..")
    if not dots:
        value = read(text)
        return DrawnValue(value, value)
    match = _NUMBER.fullmatch(high)
    if match is None or not low.strip():
        raise ValueError(f"{text!r} is not a range A..B")
    if re.fullmatch(r"\s*[0-9.]+\s*", low):
        low = low.strip() + match[2]
    bounds = DrawnValue(read(low), read(high))
    if bounds.low > bounds.high:
        raise ValueError(f"{text!r}: the range ends before it begins")
    return bounds


def seconds_text(value: float) -> str:
    """Return seconds for people: ``0.3s``, ``10s``."""
    return f"{value:.6f}".rstrip("0").rstrip(".") + "s"
