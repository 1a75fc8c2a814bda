"""Across sites, the relay's side: links, the facts that all members of this site share, and walks.

A *walk* is a task that covers all nodes of a site. It asks all members in the order of claims (``Survey``).

    bootstrap    mark every node as unsent; then poll until every marked node is acknowledged
    reconcile    send sums by bucket; the other site returns its nodes of the buckets that differ;
                 mark what is older or missing there; remove there what came from here and is gone here
    repair       as reconcile, but nothing is removed. It follows a promotion: the lost site may have
                 told the remaining ones different things, so they tell each other

The coordinator is the relay. It alone asks, and it sends its knowledge to all members (``SiteState``). The next coordinator continues
the walks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from jgroups_py.buddy.arrivals import Arrivals
from jgroups_py.buddy.claims import Claims
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.events import Events
from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import SiteAsk, SiteTold
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outbox import Outboxes
from jgroups_py.buddy.site_messages import (
    AnySiteMessage,
    Found,
    Hello,
    Listing,
    SiteState,
    Sums,
    Survey,
    Walk,
)
from jgroups_py.buddy.surveyor import BUCKETS, total
from jgroups_py.values.address import Address


class _Progress:
    """The progress of a walk, at the coordinator. ``asking``: an answer is awaited. ``marked``: nothing more has to be
    marked.
    ``round``: that of the sums that were sent; ``since``: the time of sending."""

    __slots__ = ("asking", "marked", "round", "since")

    def __init__(self) -> None:
        self.marked = False
        self.asking = False
        self.round = 0
        self.since = 0.0


class Sites:
    """``links``: sites to which this member, as relay, has a link. ``wanted``: orders given here that are not known to
    be under way, with the site epoch that ends a promotion and the coordinator that was asked. An order is lost with
    the coordinator that dies; then the next one is asked."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        known: KnownSites,
        outboxes: Outboxes,
        events: Events,
        claims: Claims,
        arrivals: Arrivals,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._known = known
        self._outboxes = outboxes
        self._events = events
        self._claims = claims
        self._arrivals = arrivals
        self._out = out
        self.links: dict[str, None] = {}
        self.wanted: dict[SiteAsk, tuple[int, Address]] = {}
        self._again: dict[str, None] = {}
        """Sites to which all unacknowledged events must be sent again."""
        self._asked: list[SiteAsk] = []
        self._lost = False
        """True if a member was lost since the last ``Settle``."""
        self._walking: dict[Walk, _Progress] = {}
        self._round = 0

    # --- the link

    def link(self, site: str, up: bool) -> None:
        """Note, as relay, that a link to the relay of a site begins or has ended. A new link begins with nothing under
        way."""
        if not up:
            self.links.pop(site, None)
        elif site in self._outboxes:
            self.links[site] = None
            self._again[site] = None
            self.post(site, Hello(self._known.known))
        self._tell()

    def on_hello(self, site: str, hello: Hello) -> None:
        """Take the highest epoch that the other relay knows, and a loss of its site."""
        if hello.epoch > self._known.known:
            self._known.known = hello.epoch
            self._repair()
        if hello.lost:
            self._again[site] = None
        self._tell()

    def post(self, site: str, message: AnySiteMessage) -> None:
        if site in self.links:
            self._out.send_site(site, message)
        else:
            self._out.count("site_unreachable")

    # --- knowledge of all members

    def state(self) -> SiteState:
        """Return the knowledge of this member. Only a coordinator knows which sites can be reached."""
        known = self._known
        return SiteState(
            known.epoch,
            known.known,
            tuple(self.links),
            tuple(self._again),
            tuple(known.walks),
            tuple(known.out_of_sync | self._events.overflowed),
        )

    def _tell(self) -> None:
        """Send the state to all members, as coordinator. Before the view is settled, the ``Settle`` tells them."""
        if self._membership.leads:
            state = self.state()
            self._again = {}
            self._out.send_all(SiteTold(state))
            self.on_state(state)

    def merged(self, states: Iterable[SiteState]) -> SiteState:
        """As coordinator of a new view, take the reports of all members, for ``Settle``."""
        known = self._known
        for state in states:
            known.epoch = max(known.epoch, state.epoch)
            known.known = max(known.known, state.known)
            known.walks.update(dict.fromkeys(state.walks))
            known.out_of_sync.update(dict.fromkeys(state.out_of_sync))
        state, self._again = self.state(), {}
        return state

    def on_told(self, src: Address, message: SiteTold) -> None:
        self.on_state(message.state)

    def on_state(self, state: SiteState) -> None:
        """Take news from the coordinator."""
        known = self._known
        known.known = max(known.known, state.known, state.epoch)
        if state.epoch > known.epoch:
            known.epoch = state.epoch
            self._out.event("promoted", state.epoch)
        for site, box in self._outboxes.items():
            if site in state.up and (site not in known.up or site in state.again):
                box.again()
        known.up = dict.fromkeys(state.up)
        for site in [s for s in state.out_of_sync if s not in known.out_of_sync]:
            self._out.event("out_of_sync", site)
        for site in [s for s in known.out_of_sync if s not in state.out_of_sync]:
            self._out.event("in_sync", site)
        known.walks = dict.fromkeys(state.walks)
        known.out_of_sync = dict.fromkeys(state.out_of_sync)
        for ask in [a for a, (epoch, _) in self.wanted.items() if self._begun(a, epoch)]:
            del self.wanted[ask]
        self._events.drop_removed()

    # --- views

    def new_view(self, before: tuple[Address, ...]) -> None:
        """Forget the reachable sites if the coordinator changed: the new one reports the sites that it can reach."""
        membership = self._membership
        if not before or before[0] != membership.coordinator:
            self._known.up = {}
        if any(member not in membership.members for member in before):
            self._lost = True
            self._walking.clear()  # only that member may have marked some nodes

    def settled(self) -> None:
        """Carry out requests from before the ``Settle``. The coordinator continues the walks."""
        leads = self._membership.leads
        asked, self._asked = self._asked, []
        if leads:  # otherwise the member that asked asks the one that leads
            for ask in asked:
                self.on_ask(self._membership.me, ask)
        for site in self._events.overflowed:
            self.ask("overflow", site)
        self._ask_again()
        if leads:
            if self._lost:
                for site in self.links:
                    self.post(site, Hello(self._known.known, lost=True))
            for walk in self._known.walks:
                progress = self._walking.setdefault(walk, _Progress())
                progress.asking = False  # claims of the last view are void
                self._go_on(walk)
        self._lost = False

    # --- asking for something

    def ask(self, what: str, site: str = "", epoch: int = 0) -> None:
        """Ask the coordinator for a promotion or a bootstrap, or tell it of an overflow."""
        coordinator = self._membership.coordinator
        ask = SiteAsk(what, site, epoch)  # type: ignore[arg-type]
        if what == "promote" or (what == "bootstrap" and site in self._outboxes):
            self.wanted[ask] = (epoch or self._known.epoch + 1, coordinator)
        self._out.send(coordinator, ask)

    def _ask_again(self) -> None:
        coordinator = self._membership.coordinator
        for ask, (epoch, asked) in list(self.wanted.items()):
            if asked != coordinator:
                self.wanted[ask] = (epoch, coordinator)
                self._out.send(coordinator, ask)

    def _begun(self, ask: SiteAsk, epoch: int) -> bool:
        if ask.what == "promote":
            return self._known.epoch >= epoch
        return Walk(ask.site, "bootstrap") in self._known.walks

    def on_ask(self, src: Address, ask: SiteAsk) -> None:
        """Carry out a request as coordinator. Before the view is settled the request waits."""
        if not self._membership.leads:
            self._asked.append(ask)
            return
        if ask.what == "promote":
            self._promote(ask.epoch)
        elif ask.site not in self._outboxes:
            self._out.count("bad_messages")
            return
        elif ask.what == "bootstrap":
            walk = Walk(ask.site, "bootstrap")
            self._known.walks[walk] = None
            self._begin(walk)
        else:
            self._overflows(ask.site)
            return
        self._tell()

    def _overflows(self, site: str) -> None:
        """Note that members drop removals for a site. A reconciliation under way may have surveyed these members
        already. It begins anew, so that it surveys them after the drop."""
        self._known.out_of_sync[site] = None
        self._tell()
        walk = Walk(site, "reconcile")
        if walk in self._known.walks:
            self._begin(walk)

    def _promote(self, epoch: int) -> None:
        """Take an epoch above every known one, so that later writes here outrank all earlier ones."""
        known = self._known
        new = epoch or known.known + 1
        if new <= known.epoch:
            return
        known.known = max(known.known, new)
        self._repair()
        state = replace(self.state(), epoch=new, known=known.known)
        self.on_state(state)
        for site in self.links:
            self.post(site, Hello(known.known))

    def _repair(self) -> None:
        """Begin repairs after a promotion. A lost site may have sent this site less than the others, or more."""
        if len(self._outboxes) < 2:
            return
        for site in self._outboxes:
            walk = Walk(site, "repair")
            self._known.walks[walk] = None
            self._begin(walk)

    # --- time

    def advance(self) -> None:
        """Reconcile, as coordinator, sites that are out of sync and can be reached. Other members have no walks."""
        known = self._known
        for site in self._events.advance():
            self.ask("overflow", site)
        if not self._membership.leads:
            return
        for site in known.out_of_sync:
            walk = Walk(site, "reconcile")
            if site in self.links and walk not in known.walks:
                known.walks[walk] = None
                self._tell()
                self._begin(walk)
        for walk in list(known.walks):
            self._go_on(walk)

    # --- walks, at the coordinator

    def _begin(self, walk: Walk) -> None:
        """Begin a walk anew, whatever its state."""
        self._walking[walk] = _Progress()
        self._go_on(walk)

    def _go_on(self, walk: Walk) -> None:
        progress = self._walking.get(walk)
        if progress is None:
            progress = self._walking[walk] = _Progress()
        if progress.asking:
            waited = self._membership.now - progress.since
            if not progress.round or waited <= self._config.event_timeout:
                return
            progress.asking = False  # that site has not answered
        if walk.kind != "bootstrap" or progress.marked:
            if walk.site not in self.links:
                return
        progress.asking = True
        if progress.marked:
            progress.round = 0
            self._survey(Survey(walk.site, "left"), partial(self._left, walk, progress))
        elif walk.kind == "bootstrap":
            self._survey(Survey(walk.site, "mark"), lambda found: self._marked(progress))
        else:
            progress.round = 0
            self._survey(Survey(walk.site, "sums"), partial(self._send_sums, walk, progress))

    def _survey(self, survey: Survey, then: Callable[[list[Found]], None]) -> None:
        self._claims.survey_all(survey, then)

    def _marked(self, progress: _Progress) -> None:
        progress.marked = True
        progress.asking = False

    def _left(self, walk: Walk, progress: _Progress, found: list[Found]) -> None:
        progress.asking = False
        begun_anew = self._walking.get(walk) is not progress
        if begun_anew or any(f.count for f in found):
            return
        self._known.walks.pop(walk, None)
        self._walking.pop(walk, None)
        if walk.kind == "reconcile":
            self._known.out_of_sync.pop(walk.site, None)
        self._out.count(f"{walk.kind}s")
        self._out.event(f"{walk.kind}_complete", walk.site)
        self._tell()

    def _send_sums(self, walk: Walk, progress: _Progress, found: list[Found]) -> None:
        self._round += 1
        progress.round = self._round
        progress.since = self._membership.now
        self.post(walk.site, Sums(progress.round, total(found)))

    def on_listing(self, site: str, listing: Listing) -> None:
        """Take the other site's answer to our sums."""
        for walk, progress in self._walking.items():
            if walk.site == site and progress.round and progress.round == listing.round:
                progress.round = 0
                survey = Survey(site, "compare", listing.buckets, listing.nodes)
                self._survey(survey, partial(self._compared, walk, progress, listing))
                return
        self._out.count("stale_listings")

    def _compared(
        self, walk: Walk, progress: _Progress, listing: Listing, found: list[Found]
    ) -> None:
        if walk.kind == "reconcile":
            known = {path for f in found for path in f.paths}
            gone = [t for t in listing.nodes if t.path not in known and not t.removed]
            self._arrivals.remove_there([there for there in gone if there.came])
            self._out.count("only_there", sum(not there.came for there in gone))
        self._marked(progress)

    # --- the other site's reconciliation, at our coordinator

    def on_sums(self, site: str, theirs: Sums) -> None:
        if len(theirs.sums) != BUCKETS:
            self._out.count("bad_messages")
            return
        self._survey(Survey(site, "sums"), lambda found: self._list(site, theirs, total(found)))

    def _list(self, site: str, theirs: Sums, ours: tuple[int, ...]) -> None:
        buckets = tuple(b for b in range(BUCKETS) if ours[b] != theirs.sums[b])
        if not buckets:
            self.post(site, Listing(theirs.round, (), ()))
            return

        def listed(found: list[Found]) -> None:
            nodes = tuple(node for f in found for node in f.nodes)
            self.post(site, Listing(theirs.round, buckets, nodes))

        self._survey(Survey(site, "list", buckets), listed)
