"""Sums over the changes in a map: hosts that have the same changes compare one number and see whether their maps are equal.

A sum is an XOR of 64 bits for each change of each value that is there, so it is kept up while entries come and go. Tombstones do not count, because
hosts forget them at different times. An entry with a time to live counts in the sum of its **era** (2**44 ticks, 19 hours): hosts whose clocks differ bury it at
different times, so eras that are about to end are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from jgroups_py.maps.entry import MapEntry

Sums = dict[int, int]
"""The sums by era. Era 0: entries without a time to live."""


class Contents(NamedTuple):
    """A summary of a table at one moment."""

    vector: dict[int, int]
    sums: Sums
    lacking: bool
    """Were removals forgotten, here or at another host, that a host may lack? If not, hosts that differ have lost
    changes."""


ERA_SHIFT: Final = 44
_MASK: Final = (1 << 64) - 1
_ODD: Final = 0x9E3779B97F4A7C15
_OTHER_ODD: Final = 0xBF58476D1CE4E5B9


def count(sums: Sums, entry: MapEntry) -> None:
    """Add an entry to the sums, or take it out again."""
    if entry.value is None:
        return
    mixed = 0
    for origin, number in entry.dots.items():
        # Two rounds of multiply and shift: sums of neighbouring numbers must not cancel out, as plain numbers would in an XOR.
        mix = (origin * _OTHER_ODD + number) * _ODD & _MASK
        mix = (mix ^ mix >> 29) * _OTHER_ODD & _MASK
        mixed ^= mix ^ mix >> 32
    era = entry.expires >> ERA_SHIFT
    if mixed := mixed ^ sums.get(era, 0):
        sums[era] = mixed
    else:
        sums.pop(era, None)  # no sum of this era is left


def counted(entries: Iterable[MapEntry]) -> Sums:
    """Return the sums of a whole table."""
    sums: Sums = {}
    for entry in entries:
        count(sums, entry)
    return sums


def compared(sums: Mapping[int, int], clock: int) -> int:
    """Return the one number that hosts compare, as of ``clock`` (ticks). Two hosts use the clock of one of them."""
    found = 0
    for era, one in sums.items():
        if not era or era > (clock >> ERA_SHIFT) + 1:
            found ^= one
    return found
