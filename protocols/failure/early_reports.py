"""EarlyReports: suspicions whose senders are not in the view.

A joiner may report a suspicion before the view that adds it has come here, so its report waits for that view. A
stranger's report waits in vain and is turned away. A table without a stack: FD_SOCK2 starts the timer and counts.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from jgroups_py.values.address import Address
from jgroups_py.wire.headers import FdHeader

EARLY_SECONDS: Final = 1.0
"""The time for which a report waits for its sender to be in the view."""
EARLY_MAX: Final = 50
"""The most reports that wait. A further one is turned away at once."""

Report = tuple[Address, FdHeader]


class EarlyReports:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._waiting: list[Report] = []
        self._until = 0.0
        """The time when the waiting reports are turned away."""

    def __len__(self) -> int:
        return len(self._waiting)

    def keep(self, sender: Address, header: FdHeader, now: float) -> bool:
        """Let a report wait. Return False if there is no room."""
        if len(self._waiting) >= EARLY_MAX:
            return False
        if not self._waiting:
            self._until = now + EARLY_SECONDS
        self._waiting.append((sender, header))
        return True

    @property
    def until(self) -> float:
        return self._until

    def take(self, members: Container[Address]) -> list[Report]:
        """Remove and return the reports of senders that are members now."""
        taken = [report for report in self._waiting if report[0] in members]
        self._waiting = [report for report in self._waiting if report[0] not in members]
        return taken

    def clear(self) -> list[Report]:
        """Remove and return all waiting reports."""
        waiting, self._waiting = self._waiting, []
        return waiting
