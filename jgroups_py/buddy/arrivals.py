"""Across sites, where an event arrives: at the relay, which looks for the owner, and at the owner.

    relay     gives it to the owner that acknowledged the path last; else to the path's home
    there     owned: applied. Not owned: a claim in mode ``create``: who owns it is sent the event,
              what nobody has is created
    applied   if its stamp is higher than what is here, removed nodes included; it keeps its stamp
    answered  when the holders have it, or something newer

Numbers find loss and make acknowledgements short. Only stamps make events take effect once: two owners,
one after the other, are two origins.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jgroups_py.buddy.calls import Call
from jgroups_py.buddy.messages import FromSite, ToSite
from jgroups_py.buddy.outputs import Dropped
from jgroups_py.buddy.site_messages import EventAck, Sent, SiteEvent, There, Walk
from jgroups_py.buddy.values import Node, Path, Stamp, descends
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine


class Arrivals:
    """``open``: calls of this module that are not done. ``hints``: who owned a path, as relay."""

    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.open = 0
        self.hints: dict[Path, Address] = {}
        self._calls = 0

    # --- the relay

    def learn(self, src: Address, ack: EventAck) -> None:
        for path in ack.paths:
            self.hints.pop(path, None)
            self.hints[path] = src
        while len(self.hints) > self.machine.config.hints_max:
            del self.hints[next(iter(self.hints))]

    def route(self, site: str, event: SiteEvent) -> None:
        """To whom it concerns, as far as is known here."""
        to: dict[Address, list[Sent]] = {}
        for sent in event.changes:
            to.setdefault(self._target(sent.path), []).append(sent)
        for member, changes in to.items():
            self.machine.send(member, FromSite(site, replace(event, changes=tuple(changes))))

    def _target(self, path: Path) -> Address:
        machine = self.machine
        hint = self.hints.get(path)
        if hint is not None and hint in machine.members:
            return hint
        staying = [m for m in machine.members if m not in machine.buddies.leaving]
        members = staying or machine.members
        try:
            home = machine.home_locator.home(path, members)
        except Exception as error:  # a locator of the user's: whatever it raises
            machine.complain("home_locator_raised", f"{type(error).__name__}: {error}")
            return members[0]
        if home not in members:
            machine.complain("home_locator_corrected", f"the home of {path} is no member: {home!r}")
            return members[0]
        return home

    # --- the owner, or who may become it

    def arrived(self, site: str, event: SiteEvent) -> None:
        machine = self.machine
        if self.open >= machine.config.arrivals_max:
            machine.count("events_dropped")  # it will be sent again
            return
        paths = tuple(sent.path for sent in event.changes)
        if machine.leaving.begun and not all(path in machine.own for path in paths):
            if any(member not in machine.buddies.leaving for member in machine.members):
                for path in paths:
                    self.hints.pop(path, None)
                self.route(site, event)
                return
        self._begin(paths, partial(self._apply, site, event))

    def _begin(self, paths: tuple[Path, ...], inner: object) -> None:
        self._calls -= 1
        wanted = tuple((path, False) for path in paths)
        call = Call(self._calls, wanted, mode="create")
        call.inner = inner  # type: ignore[assignment]
        self.open += 1
        self.machine.calls.begin(call)

    def _apply(self, site: str, event: SiteEvent, elsewhere: Mapping[Path, Address]) -> None:
        """``elsewhere``: who owns what is not here."""
        machine = self.machine
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
            machine.send_member(owner, forwarded)
        changes_here = []
        for sent in here:
            node = self._newer(site, sent)
            if node is not None:
                changes_here.append((sent.path, self._passed_on(site, sent.path, node)))
        machine.count("events_applied", len(changes_here))
        machine.own.update(changes_here)
        if here:
            ack = EventAck(event.origin, event.n, tuple(sent.path for sent in here))
            if changes_here:
                machine.log.append(changes_here, wrote=True)
            machine.log.when_acked(
                lambda: machine.send(machine.coordinator, ToSite(site, ack)),
            )

    def _passed_on(self, site: str, path: Path, node: Node) -> Node:
        """To third sites: each site tells the others itself, but one that cannot be reached any more may not
        live to do so; and where an older value is still to be sent, this one needs a number of its own, or
        the acknowledgement of that one would be taken for its."""
        sites = self.machine.sites
        waiting = dict(node.unsent)
        others = [o for o in sites.boxes if o != site and (o in waiting or site not in sites.up)]
        # Built anew: this is of the one there was, and was not here yet when all of ours was marked.
        if site in sites.boxes and Walk(site, "bootstrap") in sites.walks:
            others.append(site)
        return sites.marked(path, node, others) if others else node

    def _newer(self, site: str, sent: Sent) -> Node | None:
        """The node with what was sent; None: what is here is as new. What neither contains is told."""
        machine = self.machine
        node = machine.own.get(sent.path)
        if node is None:
            return Node(
                sent.value,
                machine.first_epoch(),
                sent.stamp,
                sent.removed,
                lineage=sent.lineage,
                came=site,
            )
        if sent.stamp <= node.stamp:
            machine.count("events_old")
            if sent.stamp != node.stamp and not descends(node.stamp, node.lineage, sent.stamp):
                self._discard(sent.path, sent.stamp, sent.stamp.owner, site, sent.value)
            return None
        if not descends(sent.stamp, sent.lineage, node.stamp):
            self._discard(sent.path, node.stamp, machine.me, machine.config.site, node.value)
        return replace(
            node,
            value=sent.value,
            stamp=sent.stamp,
            removed=sent.removed,
            lineage=sent.lineage,
            unsent=tuple(entry for entry in node.unsent if entry[0] != site),
            came=site,
        )

    def _discard(self, path: Path, stamp: Stamp, member: Address, site: str, value: Any) -> None:
        machine = self.machine
        machine.count("site_discarded")
        machine.event("site_discarded", Dropped(path, stamp, member, site, value))

    # --- what the other site has and nobody here

    def remove_there(self, nodes: list[There]) -> None:
        """They came from here, and nobody here has them any more: they were removed."""
        for there in nodes:
            self._begin((there.path,), partial(self._doom, there))

    def _doom(self, there: There, elsewhere: Mapping[Path, Address]) -> None:
        machine = self.machine
        if there.path in elsewhere or there.path in machine.own:
            return
        old = Node(None, machine.first_epoch(), there.stamp)
        node = machine.calls.written(old, None)
        changes = machine.sites.numbered([(there.path, node)])
        machine.own.update(changes)
        machine.log.append(changes, wrote=True)
        machine.count("removed_there")
        machine.event("removed_there", (there.path, node.stamp, there.stamp))
