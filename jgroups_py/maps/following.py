"""Following a map's changes from a saved place, for pipelines that stop and go on in another process.

The index of changes holds the latest change of each key. Of several changes of a key between two places only the last
one is reported; a range that is read again gives the changes that are still the latest. A reader that keeps the row
with the highest stamp of each key (of equal stamps the later one) has the map once it has caught up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from jgroups_py.maps.entry import MapEntry
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import WIDE_IDENTIFIER_MAX, MapStamp

CHANGES_AT_ONCE: Final = 1000
"""The most changes read under one lock, which bounds the wait of others."""


class Place(msgspec.Struct, frozen=True):
    """A place in the changes of all hosts."""

    origins: dict[str, int] = {}
    """By origin, the number of the last change before this place. Empty: the place before the first change."""
    forgotten: dict[str, int] = {}
    """By origin, the number of the last removal that had been forgotten when the place was made."""


def place_now(file: SharedFile) -> Place:
    """Return the place after all merged changes."""
    forgotten = _texts(file.forgotten)  # read first, so that no removal is after the place
    return Place(_texts(file.vector()), forgotten)


def beginning(file: SharedFile) -> Place:
    """Return the place before the first change: changes from there give the whole map."""
    return Place({}, _texts(file.forgotten))


def missed(file: SharedFile, start: Place) -> str:
    """Return why a reader that continues at ``start`` would miss changes. Empty: it would not."""
    if not start.origins:
        return ""
    vector = file.vector()
    if any(vector.get(int(origin), 0) < number for origin, number in start.origins.items()):
        return "this host does not have what was read before: it began anew, is behind, or is another one"
    for origin, number in _texts(file.forgotten).items():
        if number > max(start.origins.get(origin, 0), start.forgotten.get(origin, 0)):
            return "removals were forgotten before they were read (see tombstone_min_age)"
    return ""


def after(file: SharedFile, start: Place, most: int | None = None) -> Place:
    """Return the place after all merged changes. With ``most`` it is at most that many changes after ``start``."""
    end = place_now(file)
    if most is None:
        return end
    origins = dict(start.origins)
    for origin, to in end.origins.items():
        if most <= 0:
            break
        numbers = [n for n, _, _ in changes(file, origin, origins.get(origin, 0), to, most)]
        origins[origin] = numbers[-1] if len(numbers) == most else to
        most -= len(numbers)
    return Place(origins, end.forgotten)


def changes(
    file: SharedFile, origin: str, after: int, to: int, most: int | None = None
) -> Iterator[tuple[int, bytes, MapEntry]]:
    """Yield number, key and entry of an origin's latest changes above ``after`` and up to ``to``; at most ``most``."""
    while most is None or most > 0:
        wanted = CHANGES_AT_ONCE if most is None else min(most, CHANGES_AT_ONCE)
        found = list(file.changes(int(origin), after, to, wanted))
        yield from found
        if len(found) < wanted:
            return
        after = found[-1][0]
        if most is not None:
            most -= len(found)


def stamp_text(stamp: MapStamp) -> str:
    """Return a stamp as text. The newer of two changes has the higher text."""
    return f"{stamp.time:016x}.{WIDE_IDENTIFIER_MAX - stamp.node:04x}"


def _texts(numbers: dict[int, int]) -> dict[str, int]:
    return {str(origin): number for origin, number in numbers.items()}
