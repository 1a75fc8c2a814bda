"""Across sites, the owner's side: each write is one event for each other site.

    owner      a write: unsent[site] = n, in the node itself and in its backups
               when its holders have it: EVENT n to the relay of this site (the coordinator)
    relay      over the link, if there is one (sites.py)
    there      arrivals.py: applied if the stamp is higher; EVENT_ACK when the holders there have it
    owner      no longer unsent, if the node still has number n

Whether an event is unsent is noted in the node, not in a queue. A member that takes over the node numbers it anew and
sends it. Events therefore survive any crash, and overwritten values are skipped. Events are sent again when the link
comes back, the relay changes, a member of the other site is gone, or acknowledgements are missing for a while.
"""

from __future__ import annotations

from typing import Final

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import ToSite
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outbox import Outboxes, SiteOutbox
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.site_messages import EventAck, Sent, SiteEvent
from jgroups_py.buddy.values import OwnedNode, Path

CLEARED_MAX: Final = 256
"""The most acknowledged nodes that one log entry reports to holders."""


class Events:
    """``overflowed``: sites for which this member has more removed nodes than it may keep."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        known: KnownSites,
        outboxes: Outboxes,
        log: WriteLog,
        ownership: Ownership,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._known = known
        self._outboxes = outboxes
        self._log = log
        self._ownership = ownership
        self._out = out
        self.overflowed: dict[str, None] = {}
        self._cleared: dict[Path, None] = {}

    # --- sending

    def flush(self) -> None:
        """Send the events that may be sent, in the order of their numbers."""
        for site in self._known.up:
            box = self._outboxes.get(site)
            if box is not None and box.todo:
                self._flush(site, box)

    def _flush(self, site: str, box: SiteOutbox) -> None:
        membership = self._membership
        while len(box.flying) < self._config.events_max:
            # Holders come first: the other site never has an event that this one may lose.
            event = box.next(self._log.acked)
            if event is None:
                return
            n, paths = event
            changes = tuple(
                Sent(path, node.value, node.stamp, node.removed, node.lineage)
                for path in paths
                if (node := self._still(path, site, n)) is not None
            )
            if not changes:
                continue
            if not box.flying:
                box.since = membership.now
            box.flying[n] = tuple(sent.path for sent in changes)
            self._out.count("events_sent")
            event_out = SiteEvent(membership.me, n, changes)
            self._out.send(membership.coordinator, ToSite(site, event_out))

    def _still(self, path: Path, site: str, n: int) -> OwnedNode | None:
        """Return the node, if it is ours and still has number ``n``."""
        node = self._ownership.mine(path)
        return node if node is not None and (site, n) in node.unsent else None

    # --- acknowledgements

    def on_ack(self, site: str, ack: EventAck) -> None:
        """Clear the mark of nodes that still have the number. Holders learn it later, many at a time; otherwise the
        event is sent twice."""
        box = self._outboxes.get(site)
        if box is None or ack.origin != self._membership.me:
            self._out.count("bad_messages")
            return
        box.since = self._membership.now
        box.acked(ack.n, ack.paths)
        for path in ack.paths:
            if self._ownership.acknowledged(site, ack.n, path):
                self._cleared[path] = None
        if len(self._cleared) >= CLEARED_MAX:
            self._tell_cleared()

    def _tell_cleared(self) -> None:
        cleared, self._cleared = self._cleared, {}
        self._ownership.tell(cleared)

    @property
    def idle(self) -> bool:
        """Is there nothing to report to holders?"""
        return not self._cleared

    # --- time

    def advance(self) -> list[str]:
        """Send unacknowledged events again and report acknowledged ones to holders. Return the sites that lack removals
        from now on."""
        for site in self._known.up:
            box = self._outboxes.get(site)
            if box is not None and box.flying and self._is_late(box):
                self._out.count("events_again", len(box.flying))
                box.again()
        if self._cleared:
            self._tell_cleared()
        return self._overflow()

    def _is_late(self, box: SiteOutbox) -> bool:
        return self._membership.now - box.since > self._config.event_timeout

    # --- too many removals

    def _overflow(self) -> list[str]:
        """Bound removed nodes. Values are bounded by the nodes that exist; removals are not."""
        removed_max = self._config.removed_max
        more = []
        for site, box in self._outboxes.items():
            # few wait: counting all nodes is not needed
            if site in self.overflowed or box.waiting <= removed_max:
                continue
            if len(self._removed(site)) > removed_max:
                self.overflowed[site] = None
                self._out.count("site_overflows")
                more.append(site)
        return more

    def _removed(self, site: str) -> list[Path]:
        return [
            path
            for path, node in self._ownership.owned()
            if node.removed and any(name == site for name, _ in node.unsent)
        ]

    def drop_removed(self) -> None:
        """Drop removals for sites that all members know to be out of sync."""
        for site in [s for s in self.overflowed if s in self._known.out_of_sync]:
            del self.overflowed[site]
            self._ownership.give_up(site, self._removed(site))
