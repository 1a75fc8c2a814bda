"""Removed nodes stay, so that no old copy brings them back, until nobody can have an old copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jgroups_py.buddy.values import Path
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Removal:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self._lost_at: float | None = None
        self._since: dict[Path, float] = {}
        """With other sites: when a removed node was seen first. Old events may still be under way."""

    def lost(self, members: list[Address]) -> None:
        """They are no longer in the view; those that left on purpose had nothing any more."""
        machine = self.machine
        if any(not machine.buddies.leaving.get(member, False) for member in members):
            self._lost_at = machine.now

    def _old(self, due: list[Path]) -> list[Path]:
        now = self.machine.now
        self._since = {path: self._since.get(path, now) for path in due}
        return [p for p in due if now - self._since[p] >= self.machine.config.tombstone_time]

    def purge(self) -> None:
        """Forgets removed nodes that all holders have as removed, unless a member was lost recently."""
        machine = self.machine
        if not machine.settled or machine.unmerged:
            return
        if (
            self._lost_at is not None
            and machine.now - self._lost_at < machine.config.tombstone_time
        ):
            return
        due = [
            path
            for path, node in machine.own.items()
            if node.removed
            and node.giver is None
            and node.to is None
            and not node.unsent
            and machine.log.stable(path)
        ]
        if machine.config.sites:
            due = self._old(due)
        if due:
            for path in due:
                machine.event("purged", (path, machine.own[path].stamp))
            machine.count("purged", len(due))
            machine.forget(due)
