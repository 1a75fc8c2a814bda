"""Removed nodes are kept until no old copy can bring them back."""

from __future__ import annotations

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.values import Path


class Removal:
    def __init__(
        self, membership: Membership, config: BuddyConfig, ownership: Ownership, out: BuddyOut
    ) -> None:
        self._membership = membership
        self._config = config
        self._ownership = ownership
        self._out = out
        self._lost_at: float | None = None
        self._since: dict[Path, float] = {}
        """The time when a removed node was first seen, if there are other sites. Old events may still arrive."""

    def member_crashed(self) -> None:
        """Note that a member is gone that may have had nodes."""
        self._lost_at = self._membership.now

    def _old(self, due: list[Path]) -> list[Path]:
        now = self._membership.now
        self._since = {path: self._since.get(path, now) for path in due}
        return [p for p in due if now - self._since[p] >= self._config.tombstone_time]

    def purge(self) -> None:
        """Forget nodes that all holders have as removed, unless a member was lost recently."""
        membership, ownership = self._membership, self._ownership
        if not membership.settled or membership.unmerged:
            return
        tombstone_time = self._config.tombstone_time
        if self._lost_at is not None and membership.now - self._lost_at < tombstone_time:
            return
        due = [p for p, node in ownership.nodes.items() if node.removed and ownership.may_purge(p)]
        if self._config.sites:
            due = self._old(due)
        if due:
            for path in due:
                self._out.event("purged", (path, ownership.nodes[path].stamp))
            self._out.count("purged", len(due))
            ownership.forget(due)
