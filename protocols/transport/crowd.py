"""Crowd: chooses the connection to close when strangers have too many. Not a protocol.

Anybody may connect. A member must stay reachable all the same, and its process needs descriptors for other things:

    silent      the handshake has not come, or the connection is about to end
    stranger    the handshake names a process that is not in the view: a joiner, or any other
    member      the handshake names a member; no more than one for each is used

Silent ones and strangers have limits, in all and for each host, so the rest of max_connections is for members. Each new
connection is let in. At a limit the oldest silent one is closed for it, or that of the stranger that was silent for
longest. Of several hosts, the one with the most connections loses one. So a host that fills its share causes the end of
its own connections only.

Limits: one host with many addresses counts as many hosts. Then only the limits for all hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol as Interface
from typing import TypeVar

SHARE_OF_SILENT = 16
SHARE_OF_STRANGERS = 8
"""The divisor of the process's limit of open files: strangers at one protocol may have that part of it, even with
higher limits."""


class FromHost(Interface):
    """A connection that was accepted."""

    host: str
    """The host from which it comes."""


C = TypeVar("C", bound=FromHost)


@dataclass(frozen=True, slots=True)
class CrowdLimits:
    """The most connections of strangers, by kind. ``per_host``: the most of one address."""

    silent: int
    silent_per_host: int
    strangers: int
    strangers_per_host: int

    def within(self, files: int | None) -> CrowdLimits:
        """Return the limits for a process that may have ``files`` files open. None: it has no such limit."""
        if files is None:
            return self
        silent, strangers = files // SHARE_OF_SILENT, files // SHARE_OF_STRANGERS
        return CrowdLimits(
            max(1, min(self.silent, silent)),
            max(1, min(self.silent_per_host, silent // 2)),
            max(1, min(self.strangers, strangers)),
            max(1, min(self.strangers_per_host, strangers // 2)),
        )


def goes(waiting: Sequence[C], host: str, most: int, per_host: int) -> C | None:
    """Return the one of ``waiting`` to close before one more from ``host`` is let in. None: there is room.

    ``waiting`` is in order: the first one is closed first.
    """
    same = [one for one in waiting if one.host == host]
    if same and len(same) >= per_host:
        return same[0]
    if not waiting or len(waiting) < most:
        return None
    counts = Counter(one.host for one in waiting)
    largest = max(counts.values())
    return next(one for one in waiting if counts[one.host] == largest)
