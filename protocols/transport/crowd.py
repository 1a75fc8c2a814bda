"""Crowd: which connection goes when too many strangers have one. Not a protocol.

Anybody may connect. A member must stay reachable all the same, and its process needs descriptors for other things:

    silent      the handshake has not come, or the connection is about to end
    stranger    the handshake names somebody who is not in the view: a joiner, or anybody
    member      the handshake names a member; no more than one for each is used

Silent ones and strangers have limits, in all and for each host, so the rest of max_connections is for members. Everybody is
let in: the silent one that came first is closed for it, or the stranger that was not heard for longest. If there are
several hosts, it is one of the host with the most. So a host that fills its share closes its own connections only.

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
"""One protocol lets strangers have this part of the files that the process may have open, even with higher limits."""


class FromHost(Interface):
    """A connection that was accepted."""

    host: str
    """Where it comes from."""


C = TypeVar("C", bound=FromHost)


@dataclass(frozen=True, slots=True)
class CrowdLimits:
    """The most connections of strangers, by kind. ``per_host``: of one address."""

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
    """Return which of ``waiting`` goes before one more from ``host`` is let in. None: there is room.

    ``waiting`` is in order: the first one goes first.
    """
    same = [one for one in waiting if one.host == host]
    if same and len(same) >= per_host:
        return same[0]
    if not waiting or len(waiting) < most:
        return None
    counts = Counter(one.host for one in waiting)
    largest = max(counts.values())
    return next(one for one in waiting if counts[one.host] == largest)
