"""The values that merges have dropped: listed, so that somebody can look at them, and put back those that are missed.

After a partition two sides may have written one node; one value stays. This member lists what it had
itself, with the attributes, and, with buddies, what others had and the winner's history lacks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.node import Node
from jgroups_py.values.address import Address

LISTED_MAX: Final = 1000
"""Values listed; older ones are only counted."""
BYTES_MAX: Final = 16_000_000
"""Bytes of their attributes that are kept; the attributes of older ones are given up."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """``member``: whose value it was. ``attributes``: None where this member does not have them (it was
    another member's, a removal, or older than ``BYTES_MAX``)."""

    path: Fqn
    member: str
    attributes: Mapping[str, Any] | None


@dataclass(slots=True)
class Dropped:
    """As it is kept."""

    path: Fqn
    member: Address | None
    node: Node | None


class DiscardedValues:
    """``count``: all that there were."""

    def __init__(self) -> None:
        self.count = 0
        self.listed: deque[Dropped] = deque(maxlen=LISTED_MAX)

    def add(self, path: Fqn, member: Address | None, node: Node | None) -> None:
        """``member`` None: this one."""
        self.count += 1
        self.listed.append(Dropped(path, member, node))
        left = BYTES_MAX
        for dropped in reversed(self.listed):
            if dropped.node is not None:
                left -= dropped.node.size
                if left < 0:
                    dropped.node = None
