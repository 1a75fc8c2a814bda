"""The values that merges have dropped: listed, so that users can look at them and put them back.

After a partition two sides may have written one node; one value stays. This member lists its own dropped values with
their attributes. With buddies it also lists other members' values that the winner does not contain.
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
"""The most values listed; older ones are only counted."""
BYTES_MAX: Final = 16_000_000
"""The most bytes of attributes kept; the attributes of older values are dropped."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """``member``: the member that had the value. ``attributes`` None: this member does not have them (another member's
    value, a removal, or beyond ``BYTES_MAX``)."""

    path: Fqn
    member: str
    attributes: Mapping[str, Any] | None


@dataclass(slots=True)
class Dropped:
    """A listed value as it is kept."""

    path: Fqn
    member: Address | None
    node: Node | None


class DiscardedValues:
    """``count``: all dropped values so far."""

    def __init__(self) -> None:
        self.count = 0
        self.listed: deque[Dropped] = deque(maxlen=LISTED_MAX)

    def add(self, path: Fqn, member: Address | None, node: Node | None) -> None:
        """Add a dropped value. ``member`` None: this member had it."""
        self.count += 1
        self.listed.append(Dropped(path, member, node))
        left = BYTES_MAX
        for dropped in reversed(self.listed):
            if dropped.node is not None:
                left -= dropped.node.size
                if left < 0:
                    dropped.node = None
