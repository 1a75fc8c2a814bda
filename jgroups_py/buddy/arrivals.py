"""Arriving events of other sites: the relay looks for the owner, and the owner applies them.

    relay     gives it to the member that acknowledged the path last; else to the path's home
    there     owned: applied. Not owned: a claim in mode ``create``: the event goes to the owner, and a node that nobody
              has is created
    applied   if its stamp is higher than the stamp here, removed nodes included; it keeps its stamp
    answered  when the holders have it, or something newer

Numbers find loss and make acknowledgements short. Only stamps make events take effect once: two successive owners are two
origins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from jgroups_py.buddy.calls import Calls
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.homes import HomeLocator
from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import FromSite, ToSite
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outbox import Outboxes
from jgroups_py.buddy.outputs import DroppedValue
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.site_messages import EventAck, Sent, SiteEvent, There, Walk
from jgroups_py.buddy.values import OwnedNode, Path, Stamp, descends
from jgroups_py.values.address import Address


class Arrivals:
    """``hints``: at the relay, by path, the member that acknowledged it last."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        home_locator: HomeLocator,
        known: KnownSites,
        outboxes: Outboxes,
        log: WriteLog,
        ownership: Ownership,
        calls: Calls,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._home_locator = home_locator
        self._known = known
        self._outboxes = outboxes
        self._log = log
        self._ownership = ownership
        self._calls = calls
        self._out = out
        self.hints: dict[Path, Address] = {}

    # --- the relay

    def learn(self, src: Address, ack: EventAck) -> None:
        """Note that ``src`` owns these paths."""
        for path in ack.paths:
            self.hints.pop(path, None)
            self.hints[path] = src
        while len(self.hints) > self._config.hints_max:
            del self.hints[next(iter(self.hints))]

    def route(self, site: str, event: SiteEvent) -> None:
        """Send the parts of an event to the members that should have them."""
        to: dict[Address, list[Sent]] = {}
        for sent in event.changes:
            to.setdefault(self._target(sent.path), []).append(sent)
        for member, changes in to.items():
            self._out.send(member, FromSite(site, replace(event, changes=tuple(changes))))

    def _target(self, path: Path) -> Address:
        membership = self._membership
        hint = self.hints.get(path)
        if hint is not None and hint in membership.members:
            return hint
        staying = [m for m in membership.members if m not in membership.leaving]
        members = staying or membership.members
        try:
            home = self._home_locator.home(path, members)
        except Exception as error:  # a user's locator may raise anything
            self._out.complain("home_locator_raised", f"{type(error).__name__}: {error}")
            return members[0]
        if home not in members:
            what = f"the home of {path} is no member: {home!r}"
            self._out.complain("home_locator_corrected", what)
            return members[0]
        return home

    # --- the owner, or the member that may become it

    def arrived(self, site: str, event: SiteEvent) -> None:
        """Take an event for this member. A leaving member creates no nodes; another member should."""
        if self._calls.inner >= self._config.arrivals_max:
            self._out.count("events_dropped")  # the event will be sent again
            return
        paths = tuple(sent.path for sent in event.changes)
        membership, nodes = self._membership, self._ownership.nodes
        if membership.me in membership.leaving and not all(path in nodes for path in paths):
            if any(member not in membership.leaving for member in membership.members):
                for path in paths:
                    self.hints.pop(path, None)
                self.route(site, event)
                return
        self._calls.submit_inner(paths, partial(self._apply, site, event))

    def _apply(self, site: str, event: SiteEvent, elsewhere: Mapping[Path, Address]) -> None:
        """Apply an event. ``elsewhere``: the owner of each path that is not owned here."""
        others: dict[Address, list[Sent]] = {}
        here: list[Sent] = []
        for sent in event.changes:
            owner = elsewhere.get(sent.path)
            if owner is None:
                here.append(sent)
            else:
                others.setdefault(owner, []).append(sent)
        for owner, changes in others.items():
            forwarded = FromSite(site, replace(event, changes=tuple(changes)))
            self._out.send_member(owner, forwarded)
        newer = [sent for sent in here if self._is_newer(site, sent)]
        self._ownership.accept(site, [(sent, self._passed_on(site, sent)) for sent in newer])
        if here:
            ack = EventAck(event.origin, event.n, tuple(sent.path for sent in here))
            self._log.when_acked(partial(self._acknowledge, site, ack))

    def _acknowledge(self, site: str, ack: EventAck) -> None:
        self._out.send(self._membership.coordinator, ToSite(site, ack))

    def _passed_on(self, site: str, sent: Sent) -> list[str]:
        """Return the sites that this member has to send the value to. Each site tells the others itself, but a site
        that cannot be reached may be lost before it does. Where an older value is still to be sent, the new one needs
        its own number. Otherwise the acknowledgement of the older value would count for both."""
        node = self._ownership.nodes.get(sent.path)
        waiting = {name for name, _ in node.unsent} if node is not None else set()
        up, boxes = self._known.up, self._outboxes
        others = [o for o in boxes if o != site and (o in waiting or site not in up)]
        # A site built anew lacks events that its predecessor sent and that arrived here after the marking.
        if site in boxes and Walk(site, "bootstrap") in self._known.walks:
            others.append(site)
        return others

    def _is_newer(self, site: str, sent: Sent) -> bool:
        """Is the value newer than the one here? Report a value that the newer one does not contain."""
        node = self._ownership.nodes.get(sent.path)
        if node is None:
            return True
        if sent.stamp <= node.stamp:
            self._out.count("events_old")
            if sent.stamp != node.stamp and not descends(node.stamp, node.lineage, sent.stamp):
                self._discard(sent.path, sent.stamp, sent.stamp.owner, site, sent.value)
            return False
        if not descends(sent.stamp, sent.lineage, node.stamp):
            self._discard_here(sent.path, node)
        return True

    def _discard_here(self, path: Path, node: OwnedNode) -> None:
        self._discard(path, node.stamp, self._membership.me, self._config.site, node.value)

    def _discard(self, path: Path, stamp: Stamp, member: Address, site: str, value: Any) -> None:
        self._out.count("site_discarded")
        self._out.event("site_discarded", DroppedValue(path, stamp, member, site, value))

    # --- nodes that only the other site has

    def remove_there(self, nodes: list[There]) -> None:
        """Remove at the other site the nodes that came from here and were removed here."""
        for there in nodes:
            self._calls.submit_inner((there.path,), partial(self._doom, there))

    def _doom(self, there: There, elsewhere: Mapping[Path, Address]) -> None:
        if there.path in elsewhere or there.path in self._ownership.nodes:
            return
        node = self._ownership.bury(there.path, there.stamp)
        self._out.count("removed_there")
        self._out.event("removed_there", (there.path, node.stamp, there.stamp))
