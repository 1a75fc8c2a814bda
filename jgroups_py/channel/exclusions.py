"""Counts exclusions of this member, and its messages that were lost with them."""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.values.address import Address
from jgroups_py.values.lost import Lost


class Exclusions:
    """Counters."""

    def __init__(self) -> None:
        self.times = 0
        self.lost = 0
        """Messages that were lost, or may be."""

    def count(self, lost: tuple[Lost, ...]) -> None:
        """Count one exclusion: the others went on without this member. ``lost``: the messages that they have not got,
        or may not have got."""
        self.times += 1
        self.lost += sum(part.count for part in lost)


def in_words(
    lost: tuple[Lost, ...], name_of: Callable[[Address | None], str], *, certain: bool
) -> str:
    """Return the lost messages in words, for a log line or an error."""
    parts = []
    for part in lost:
        ranges = ", ".join(f"{a}..{b}" if a < b else f"{a}" for a, b in part.ranges)
        parts.append(f"{part.count} messages to {name_of(part.to)} (numbers {ranges})")
    if not parts:
        return ""
    return f"; {', '.join(parts)} {'are' if certain else 'may be'} lost"
