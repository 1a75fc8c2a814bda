"""Across sites, the owner's side and the relay's: each write is one event for each other site.

    owner      a write: unsent[site] = n, in the node itself and in its backups
               when its holders have it: EVENT n to the relay of this site (the coordinator)
    relay      over the link, if there is one
    there      arrivals.py: applied if the stamp is higher; EVENT_ACK when the holders there have it
    owner      no longer unsent, if it still is event n

What is still to be sent is a property of the node, not of a queue: who takes over the node, by hand-over
or adoption, gives it a number of its own and sends it. So events survive whoever crashes, and values
that were overwritten meanwhile are skipped. Sent again: when the link is up again, the relay is another
one, a member of the other site is gone, or nothing was acknowledged for a while.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from jgroups_py.buddy.messages import FromSite, SiteAsk, SiteTold, ToSite
from jgroups_py.buddy.outbox import Outbox
from jgroups_py.buddy.outputs import SendSite
from jgroups_py.buddy.site_messages import (
    AnySiteMessage,
    EventAck,
    Hello,
    Listing,
    Sent,
    SiteEvent,
    SiteState,
    Sums,
    Walk,
)
from jgroups_py.buddy.values import Node, Path
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jgroups_py.buddy.machine import BuddyMachine

CLEARED_MAX = 256
"""Acknowledged nodes that the next log entry tells the holders of, at the latest."""


class Sites:
    """``links``: sites this member, as relay, has a link to. ``up``: those that the relay can reach."""

    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.boxes: dict[str, Outbox] = {site: Outbox() for site in machine.config.sites}
        self.links: dict[str, None] = {}
        self.up: dict[str, None] = {}
        self.known = 0
        """The highest epoch of any site."""
        self.walks: dict[Walk, None] = {}
        self.out_of_sync: dict[str, None] = {}
        """Sites that lack removals which could not be kept for them."""
        self._again: dict[str, None] = {}
        self._asked: list[SiteAsk] = []
        self.wanted: dict[SiteAsk, tuple[int, Address]] = {}
        """What was asked for here and is not known to be under way: the site epoch that ends a promotion, and
        which coordinator was asked. One that dies takes it with it; the next one is asked again."""
        self._cleared: dict[Path, None] = {}
        self._lost = False
        self._overflowed: dict[str, None] = {}

    # --- numbers

    def numbered(self, changes: list[tuple[Path, Node]]) -> list[tuple[Path, Node]]:
        """What a write is about to log: one event for each site."""
        if not self.boxes:
            return changes
        paths = tuple(path for path, _ in changes)
        seq = self.machine.log.seq + 1
        unsent = tuple((site, box.add(paths, seq)) for site, box in self.boxes.items())
        return [(path, replace(node, unsent=unsent)) for path, node in changes]

    def mine(self, path: Path, node: Node) -> Node:
        """A node of ours that somebody else has numbered; to be logged next."""
        if not node.unsent:
            return node
        return self.marked(path, node, [site for site, _ in node.unsent])

    def marked(self, path: Path, node: Node, sites: Iterable[str]) -> Node:
        """With new numbers for these sites; to be logged next."""
        seq = self.machine.log.seq + 1
        unsent = dict(node.unsent)
        for site in sites:
            box = self.boxes.get(site)
            if box is None:
                unsent.pop(site, None)
                continue
            unsent[site] = box.add((path,), seq)
            if any(walk.site == site for walk in self.walks):
                box.bar = box.n
        return replace(node, unsent=tuple(unsent.items()))

    def dropped(self, path: Path) -> None:
        """A node is ours no longer."""
        for box in self.boxes.values():
            box.drop(path)

    # --- sending

    def flush(self) -> None:
        """Sends what may be sent, in the order of the numbers."""
        for site in self.up:
            box = self.boxes.get(site)
            if box is not None and box.todo:
                self._flush(site, box)

    def _flush(self, site: str, box: Outbox) -> None:
        machine = self.machine
        while len(box.flying) < machine.config.events_max:
            # Safe at the holders first: the other site never has what this one may lose.
            event = box.next(machine.log.acked)
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
                box.since = machine.now
            box.flying[n] = tuple(sent.path for sent in changes)
            machine.count("events_sent")
            to_site = ToSite(site, SiteEvent(machine.me, n, changes))
            machine.send(machine.coordinator, to_site)

    def _still(self, path: Path, site: str, n: int) -> Node | None:
        node = self.machine.own.get(path)
        return node if node is not None and node.to is None and (site, n) in node.unsent else None

    def on_ack(self, site: str, ack: EventAck) -> None:
        """Cleared only if it is still the event that was acknowledged. The holders are told later, a
        lot at a time: if they never are, it is sent twice."""
        machine = self.machine
        box = self.boxes.get(site)
        if box is None or ack.origin != machine.me:
            machine.count("bad_messages")
            return
        box.since = machine.now
        paths = box.flying.get(ack.n, ())
        rest = tuple(path for path in paths if path not in ack.paths)
        if rest:
            box.flying[ack.n] = rest
        else:
            box.flying.pop(ack.n, None)
        for path in ack.paths:
            node = self._still(path, site, ack.n)
            if node is not None:
                left = tuple(entry for entry in node.unsent if entry != (site, ack.n))
                machine.own[path] = replace(node, unsent=left)
                self._cleared[path] = None
        if len(self._cleared) >= CLEARED_MAX:
            self._tell_cleared()

    def _tell_cleared(self) -> None:
        own = self.machine.own
        cleared, self._cleared = self._cleared, {}
        changes = [
            (path, node)
            for path in cleared
            if (node := own.get(path)) is not None and node.to is None
        ]
        if changes:
            self.machine.log.append(changes)

    @property
    def idle(self) -> bool:
        """Nothing is left to be told to holders."""
        return not self._cleared

    def missing(self, site: str, *, backups: bool = False) -> dict[Path, int]:
        """What has not been acknowledged there, with its number: of ours, what is on its way to another
        owner too, and of those who are gone what nobody has adopted. Of all members together: what is
        lost to that site if this one is. ``backups``: also of members in the view of which copies are
        here; holders hear late of what is acknowledged."""
        machine = self.machine
        kept = machine.backups.of.items()
        copies = [b.nodes for owner, b in kept if backups or owner not in machine.members]
        return {
            path: n
            for nodes in (*copies, machine.own)
            for path, node in nodes.items()
            for name, n in node.unsent
            if name == site
        }

    # --- the relay

    def link(self, site: str, up: bool) -> None:
        """As relay: a link to the relay of a site begins, or has ended. A new one begins with nothing
        on its way."""
        if not up:
            self.links.pop(site, None)
        elif site in self.boxes:
            self.links[site] = None
            self._again[site] = None
            self._post(site, Hello(self.known))
        self.tell()

    def receive(self, site: str, message: AnySiteMessage) -> None:
        """Over the link."""
        machine = self.machine
        if not machine.members:
            return
        match message:
            case SiteEvent():
                machine.arrivals.route(site, message)
            case EventAck():
                machine.send_member(message.origin, FromSite(site, message))
            case Hello(epoch, lost):
                if epoch > self.known:
                    self.known = epoch
                    self._repair()
                if lost:
                    self._again[site] = None
                self.tell()
            case Sums():
                machine.walks.on_sums(site, message)
            case Listing():
                machine.walks.on_listing(site, message)

    def on_to_site(self, src: Address, message: ToSite) -> None:
        if isinstance(message.message, EventAck):
            self.machine.arrivals.learn(src, message.message)
        self._post(message.site, message.message)

    def on_from_site(self, src: Address, message: FromSite) -> None:
        if isinstance(message.message, SiteEvent):
            self.machine.arrivals.arrived(message.site, message.message)
        elif isinstance(message.message, EventAck):
            self.on_ack(message.site, message.message)
        else:
            self.machine.count("bad_messages")

    def _post(self, site: str, message: AnySiteMessage) -> None:
        if site in self.links:
            self.machine.output(SendSite(site, message))
        else:
            self.machine.count("site_unreachable")

    post = _post

    # --- what all members know

    @property
    def _leads(self) -> bool:
        machine = self.machine
        return machine.settled and machine.me == machine.coordinator

    def state(self) -> SiteState:
        """What this member knows; of reaching sites only a coordinator knows anything."""
        return SiteState(
            self.machine.site_epoch,
            self.known,
            tuple(self.links),
            tuple(self._again),
            tuple(self.walks),
            tuple(self.out_of_sync | self._overflowed),
        )

    def tell(self) -> None:
        """As coordinator: to everybody. Before the view is settled it waits for that."""
        if self._leads:
            state = self.state()
            self._again = {}
            self.machine.send_all(SiteTold(state))
            self.on_state(state)

    def merged(self, states: Iterable[SiteState]) -> SiteState:
        """As coordinator of a new view, from what everybody reports: for ``Settle``."""
        for state in states:
            self.machine.site_epoch = max(self.machine.site_epoch, state.epoch)
            self.known = max(self.known, state.known)
            self.walks.update(dict.fromkeys(state.walks))
            self.out_of_sync.update(dict.fromkeys(state.out_of_sync))
        state, self._again = self.state(), {}
        return state

    def on_told(self, src: Address, message: SiteTold) -> None:
        self.on_state(message.state)

    def on_state(self, state: SiteState) -> None:
        machine = self.machine
        self.known = max(self.known, state.known, state.epoch)
        if state.epoch > machine.site_epoch:
            machine.site_epoch = state.epoch
            machine.event("promoted", state.epoch)
        for site, box in self.boxes.items():
            if site in state.up and (site not in self.up or site in state.again):
                box.again()
        self.up = dict.fromkeys(state.up)
        for site in [s for s in state.out_of_sync if s not in self.out_of_sync]:
            machine.event("out_of_sync", site)
        for site in [s for s in self.out_of_sync if s not in state.out_of_sync]:
            machine.event("in_sync", site)
        self.walks = dict.fromkeys(state.walks)
        self.out_of_sync = dict.fromkeys(state.out_of_sync)
        for ask in [a for a, (epoch, _) in self.wanted.items() if self._begun(a, epoch)]:
            del self.wanted[ask]
        self._drop_removed()

    def new_view(self, before: tuple[Address, ...]) -> None:
        """Another coordinator is another relay: what it can reach it will say."""
        machine = self.machine
        if not before or before[0] != machine.coordinator:
            self.up = {}
        if any(member not in machine.members for member in before):
            self._lost = True
            machine.walks.lost()

    def settled(self) -> None:
        asked, self._asked = self._asked, []
        if self._leads:  # else who asked asks who does
            for ask in asked:
                self.on_ask(self.machine.me, ask)
        for site in self._overflowed:
            self.ask("overflow", site)
        self._ask_again()
        if self._leads:
            if self._lost:
                for site in self.links:
                    self._post(site, Hello(self.known, lost=True))
            self.machine.walks.settled()
        self._lost = False

    # --- asking for something

    def ask(self, what: str, site: str = "", epoch: int = 0) -> None:
        machine = self.machine
        ask = SiteAsk(what, site, epoch)  # type: ignore[arg-type]
        if what == "promote" or (what == "bootstrap" and site in self.boxes):
            self.wanted[ask] = (epoch or machine.site_epoch + 1, machine.coordinator)
        machine.send(machine.coordinator, ask)

    def _ask_again(self) -> None:
        machine = self.machine
        for ask, (epoch, asked) in list(self.wanted.items()):
            if asked != machine.coordinator:
                self.wanted[ask] = (epoch, machine.coordinator)
                machine.send(machine.coordinator, ask)

    def _begun(self, ask: SiteAsk, epoch: int) -> bool:
        if ask.what == "promote":
            return self.machine.site_epoch >= epoch
        return Walk(ask.site, "bootstrap") in self.walks

    def on_ask(self, src: Address, ask: SiteAsk) -> None:
        if not self._leads:
            self._asked.append(ask)
            return
        if ask.what == "promote":
            self._promote(ask.epoch)
        elif ask.site not in self.boxes:
            self.machine.count("bad_messages")
            return
        elif ask.what == "bootstrap":
            walk = Walk(ask.site, "bootstrap")
            self.walks[walk] = None
            self.machine.walks.begin(walk)
        else:
            self._overflows(ask.site)
            return
        self.tell()

    def _overflows(self, site: str) -> None:
        """Removals are dropped for a site. A reconciliation that is under way may have passed them: it begins
        anew, and looks at members after they have dropped what they drop."""
        self.out_of_sync[site] = None
        self.tell()
        walk = Walk(site, "reconcile")
        if walk in self.walks:
            self.machine.walks.begin(walk)

    def _promote(self, epoch: int) -> None:
        """Above every epoch known, so that what is written here from now on outranks all of that."""
        machine = self.machine
        new = epoch or self.known + 1
        if new <= machine.site_epoch:
            return
        self.known = max(self.known, new)
        self._repair()
        state = replace(self.state(), epoch=new, known=self.known)
        self.on_state(state)
        for site in self.links:
            self._post(site, Hello(self.known))

    def _repair(self) -> None:
        """A site was promoted: perhaps another one is lost, which had told us less than the rest, or more."""
        if len(self.boxes) < 2:
            return
        for site in self.boxes:
            walk = Walk(site, "repair")
            self.walks[walk] = None
            self.machine.walks.begin(walk)

    # --- time

    def advance(self) -> None:
        """Sends again what nobody acknowledges; tells holders what is no longer unsent."""
        machine = self.machine
        if not machine.settled:
            return
        for site in self.up:
            box = self.boxes.get(site)
            if (
                box is not None
                and box.flying
                and machine.now - box.since > machine.config.event_timeout
            ):
                machine.count("events_again", len(box.flying))
                box.again()
        if self._cleared:
            self._tell_cleared()
        self._overflow()
        if self._leads:
            machine.walks.advance()

    def _overflow(self) -> None:
        """Values are bounded by the nodes there are; removed nodes are not."""
        machine = self.machine
        for site, box in self.boxes.items():
            # Few wait: no need to look at all nodes.
            if site in self._overflowed or box.waiting <= machine.config.removed_max:
                continue
            if len(self._removed(site)) > machine.config.removed_max:
                self._overflowed[site] = None
                machine.count("site_overflows")
                self.ask("overflow", site)

    def _removed(self, site: str) -> list[Path]:
        return [
            path
            for path, node in self.machine.own.items()
            if node.removed and node.to is None and any(name == site for name, _ in node.unsent)
        ]

    def _drop_removed(self) -> None:
        """Everybody knows that the site is out of sync: its removals are not kept any longer."""
        machine = self.machine
        for site in [s for s in self._overflowed if s in self.out_of_sync]:
            del self._overflowed[site]
            changes = []
            for path in self._removed(site):
                node = machine.own[path]
                left = tuple(entry for entry in node.unsent if entry[0] != site)
                machine.own[path] = node = replace(node, unsent=left)
                changes.append((path, node))
            if changes:
                machine.log.append(changes)
