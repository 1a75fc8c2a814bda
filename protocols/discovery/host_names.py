"""HostName: a host of initial_hosts that is given by name, with its present addresses and the time of the next look-up.

A name need not be known when a member starts: in a cluster manager it comes with the first members. It
is looked up at the discovery rounds of TCPPING: at most every ``resolve_interval`` while we are alone,
else every ``resolve_max_interval``; after failures the time doubles up to that.
"""

from __future__ import annotations

from dataclasses import dataclass

from jgroups_py.stack.ports import Handle


@dataclass(slots=True)
class HostName:
    """``addresses``: numeric, as found last; they stay while the name cannot be looked up."""

    host: str
    port: int
    addresses: tuple[str, ...] = ()
    handle: Handle = 0
    """The running look-up. 0: none."""
    asked_at: float = 0.0
    failures: int = 0
    """Failed look-ups since the last successful one."""
    asked: bool = False
    """True after the first look-up."""

    def is_due(self, now: float, shortest: float, longest: float, alone: bool) -> bool:
        """Return whether to look the name up now. ``shortest``, ``longest``: seconds between two look-ups."""
        if self.handle:
            return False
        return not self.asked or now >= self.asked_at + self.pause(shortest, longest, alone)

    def pause(self, shortest: float, longest: float, alone: bool) -> float:
        """Return the seconds from one look-up to the next."""
        if self.failures:
            return float(min(longest, shortest * 2 ** min(self.failures - 1, 30)))
        return shortest if alone else longest

    @property
    def is_settled(self) -> bool:
        """Return whether its addresses are known and no look-up runs."""
        return bool(self.addresses) and not self.handle
