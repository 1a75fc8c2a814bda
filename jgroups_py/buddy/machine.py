"""One member of a cluster with buddy replication, as a machine without tasks, clock and random
numbers.

In: ``install`` (a view), ``receive`` (a message of a member), ``submit`` and ``cancel`` (local calls),
``push`` (there is room to send more state), ``advance`` (time). Out: ``take`` returns messages to send, completed
calls, and events.

The driver's part: views are installed in their order, and some may be left out. Messages from one member to another arrive
in order and complete while both are in the view, and carry the key of the sender's view at sending. A message may
arrive before its view.

The machine makes the parts and orders them. No part knows the machine. A part reads ``Membership``, changes nodes
through ``Ownership``, and sends through ``BuddyOut``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jgroups_py.buddy import messages as m
from jgroups_py.buddy.arrivals import Arrivals
from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.buddies import Buddies
from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.calls import Calls
from jgroups_py.buddy.change import MembershipChange, inventory
from jgroups_py.buddy.claims import Claims, Keeping
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.events import Events
from jgroups_py.buddy.handover import Handover
from jgroups_py.buddy.holders import Holders
from jgroups_py.buddy.homes import HomeLocator
from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.known_sites import KnownSites
from jgroups_py.buddy.leaving import Leave
from jgroups_py.buddy.locator import BuddyLocator, NextMemberBuddyLocator
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outbox import Outboxes
from jgroups_py.buddy.outputs import DroppedValue, Output
from jgroups_py.buddy.ownership import Discards, Ownership, Watch
from jgroups_py.buddy.removal import Removal
from jgroups_py.buddy.site_messages import (
    AnySiteMessage,
    EventAck,
    Hello,
    Listing,
    SiteEvent,
    Sums,
)
from jgroups_py.buddy.sites import Sites
from jgroups_py.buddy.surveyor import Surveyor
from jgroups_py.buddy.values import OwnedNode, Path, ViewKey
from jgroups_py.buddy.verdict import MergeVerdict
from jgroups_py.values.address import Address
from jgroups_py.values.view import View


class BuddyMachine:
    """The machine of one member. ``me``: its address. ``name``: its logical name, part of its group's name. ``watch`` gets each change of a
    node of this member. ``keeping``: does the driver still need a node? Claims of others
    wait meanwhile. The driver bounds the time, and calls ``look`` at its end."""

    def __init__(
        self,
        me: Address,
        config: BuddyConfig | None = None,
        *,
        name: str = "",
        locator: BuddyLocator | None = None,
        home_locator: HomeLocator | None = None,
        watch: Watch | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self.config = config = config or BuddyConfig()
        self.membership = membership = Membership(me, name, config)
        locator = locator or NextMemberBuddyLocator()
        locator.init(config.locator_properties)
        self.out = out = BuddyOut(membership)
        self._journals: list[Journal] = []
        self.known = known = KnownSites()
        outboxes = Outboxes(config.sites, known)
        holders = Holders()
        self.log = log = WriteLog(me, config, holders, self._journals, out)
        self.ownership = own = Ownership(membership, config, log, outboxes, known, out, watch)
        self.backups = backups = Backups(membership, self._journals, out)
        self.buddies = Buddies(membership, config, locator, holders, log, own, out)
        self.handover = Handover(membership, log, own, out)
        self.removal = Removal(membership, config, own, out)
        surveyor = Surveyor(own, outboxes)
        self.claims = claims = Claims(membership, config, own, backups, surveyor, keeping, out)
        self.calls = calls = Calls(membership, config, log, own, claims, out)
        self.leaving = Leave(membership, config, log, own, backups, claims, calls, out)
        self.change = MembershipChange(membership, out)
        self.events = events = Events(membership, config, known, outboxes, log, own, out)
        homes = home_locator or HomeLocator()
        self.arrivals = arrivals = Arrivals(
            membership, config, homes, known, outboxes, log, own, calls, out
        )
        self.sites = Sites(membership, config, known, outboxes, events, claims, arrivals, out)
        self._held: list[tuple[Address, ViewKey, m.Message]] = []
        """Messages that were sent in a newer view."""
        self._protected = False
        self._handlers = self._all_handlers()

    def _all_handlers(self) -> dict[type[m.Message], Callable[[Address, Any], None]]:
        return {
            m.Assign: self.backups.on_assign,
            m.Chunk: self.backups.on_chunk,
            m.Filled: self.backups.on_filled,
            m.Part: self.backups.on_part,
            m.Op: self.backups.on_op,
            m.Dismiss: self.backups.on_dismiss,
            m.Adopted: self.backups.on_adopted,
            m.FillAck: self.buddies.on_fill_ack,
            m.OpAck: self.buddies.on_op_ack,
            m.DismissAck: self.buddies.on_dismiss_ack,
            m.Pool: self.buddies.on_pool,
            m.ClaimRequest: self.claims.on_request,
            m.Claim: self.claims.on_claim,
            m.Answer: self._on_answer,
            m.Taken: self.handover.on_taken,
            m.Done: self.handover.on_done,
            m.Inventory: self._on_inventory,
            m.AskAll: self._on_ask_all,
            m.Settle: self._on_settle,
            m.Clean: self._on_clean,
            m.Merged: self._on_merged,
            m.Leaving: self._on_leaving,
            m.TakeMine: self.leaving.on_take_mine,
            m.ToSite: self._on_to_site,
            m.FromSite: self._on_from_site,
            m.SiteTold: self.sites.on_told,
            m.SiteAsk: self.sites.on_ask,
        }

    # --- in

    def install(self, view: View, now: float) -> None:
        """Install the next view."""
        self.membership.now = now
        arrival = self.membership.install(view)
        if self.minority:
            self.calls.decide()
        if arrival.crashed:
            self.removal.member_crashed()
        self.calls.again(self.claims.new_view())
        self.buddies.new_view(view.members, arrival.strangers)
        self.backups.new_view(view.members, arrival.strangers)
        self.ownership.new_view(view.members)
        self.handover.new_view()
        self.leaving.new_view()
        self.sites.new_view(arrival.before)
        self.buddies.announce()
        self.buddies.locate()
        self.change.new_view()
        self._report()
        self._release()
        self._end_step()

    def receive(self, src: Address, tag: ViewKey, message: m.Message, now: float) -> None:
        """Handle a message of another member. ``tag``: the sender's view at sending."""
        membership = self.membership
        membership.now = now
        if tag[0] > membership.tag[0]:
            if len(self._held) < self.config.held_max:
                self._held.append((src, tag, message))
            else:
                what = f"{type(message).__name__} of {src!r} is dropped"
                self.out.complain("held_overflow", what)
            return
        self._accept(src, tag, message)
        self._end_step()

    def submit(self, call: BuddyCall, now: float) -> None:
        """Begin a call. ``Completed`` ends it. The caller gives ids, and uses each of them once."""
        self.membership.now = now
        self.calls.submit(call)
        self._end_step()

    def cancel(self, call: int, now: float) -> None:
        """End a call early. ``Completed`` reports whether the call may have been done."""
        self.membership.now = now
        self.calls.cancel(call)
        self._end_step()

    def link(self, site: str, up: bool, now: float) -> None:
        """Begin or end the link to the relay of another site. Only for the relay of this site."""
        self.membership.now = now
        self.sites.link(site, up)
        self._end_step()

    def receive_site(self, site: str, message: AnySiteMessage, now: float) -> None:
        """Handle a message over the link to another site. The link keeps their order."""
        self.membership.now = now
        if self.members:
            match message:
                case SiteEvent():
                    self.arrivals.route(site, message)
                case EventAck():
                    self.out.send_member(message.origin, m.FromSite(site, message))
                case Hello():
                    self.sites.on_hello(site, message)
                case Sums():
                    self.sites.on_sums(site, message)
                case Listing():
                    self.sites.on_listing(site, message)
        self._end_step()

    def promote(self, now: float, epoch: int = 0) -> None:
        """Let later writes at this site outrank all earlier ones at other sites. The event ``promoted`` comes when all members
        of this site know of it. ``epoch`` 0: the next one."""
        self.membership.now = now
        self.sites.ask("promote", epoch=epoch)
        self._end_step()

    def bootstrap(self, site: str, now: float) -> None:
        """Send all nodes to a site. The event ``bootstrap_complete`` comes at the coordinator."""
        self.membership.now = now
        self.sites.ask("bootstrap", site)
        self._end_step()

    def push(self, now: float) -> bool:
        """Send the next piece of state to a new buddy. False: there is none."""
        self.membership.now = now
        return self.buddies.push()

    def leave(self, now: float) -> None:
        """Begin to leave. The event ``may_leave`` comes when the member can leave without loss."""
        self.membership.now = now
        if not self.leaving.begun:
            self.leaving.begin()
            self._on_leaving(self.me, m.Leaving())
            self.leaving.warn()
            self.leaving.look()
        self._end_step()

    def may_passivate(self, path: Path) -> bool:
        """May the value of this node leave memory?"""
        return self.ownership.may_passivate(path)

    def passivate(self, path: Path) -> bool:
        """Drop a value that the driver's store has. False: the value must stay in memory."""
        if not self.ownership.may_passivate(path):
            return False
        self.ownership.passivate(path)
        return True

    def activate(self, values: Mapping[Path, Any], now: float) -> None:
        """Answer the event ``activate``: these values are in memory again."""
        self.membership.now = now
        for path, value in values.items():
            self.ownership.activate(path, value)
        self.buddies.blocked = False
        self.claims.look()
        self._end_step()

    def look(self, now: float) -> None:
        """Look at claims again: ``keeping`` may have changed."""
        self.membership.now = now
        self.claims.look()
        self._end_step()

    def advance(self, now: float) -> None:
        """Act on the time that has passed."""
        self.membership.now = now
        if now - self.change.since > self.config.communication_timeout:
            for member in self.change.silent():
                self.out.event("suspect", member)
            self.change.since = now
        self.leaving.look()
        self.removal.purge()
        if self.settled:
            self.sites.advance()
        self._end_step()

    def take(self) -> list[Output]:
        """Return all outputs since the last call, in order."""
        return self.out.take()

    # --- reading

    @property
    def me(self) -> Address:
        return self.membership.me

    @property
    def tag(self) -> ViewKey:
        """Return the key of the view."""
        return self.membership.tag

    @property
    def members(self) -> tuple[Address, ...]:
        return self.membership.members

    @property
    def settled(self) -> bool:
        return self.membership.settled

    @property
    def minority(self) -> bool:
        return self.membership.minority

    @property
    def own(self) -> Mapping[Path, OwnedNode]:
        """Return the nodes of this member, granted and removed ones included."""
        return self.ownership.nodes

    @property
    def statistics(self) -> dict[str, int]:
        """Counters by name."""
        return self.out.statistics

    @property
    def protected(self) -> bool:
        """Is this member protected: settled, buddies complete, log acknowledged, no node in hand-over, no orphan? The
        cluster is protected when all members of the view are."""
        membership, log = self.membership, self.log
        return (
            log.seq == log.acked
            and membership.settled
            and not membership.unmerged
            and self.ownership.moving == 0
            and self.buddies.complete
            and not self.backups.has_orphan
        )

    def missing(self, site: str, *, backups: bool = False) -> dict[Path, int]:
        """Return the nodes whose events ``site`` has not acknowledged, with the event's number. Includes nodes being
        handed over and unadopted backups of dead owners. The results of all members together are the nodes that
        ``site`` misses if this site is lost. ``backups``: include those of living owners; holders learn late of
        acknowledgements."""
        kept = self.backups.of.items()
        copies = [b.nodes for owner, b in kept if backups or owner not in self.members]
        return {
            path: n
            for nodes in (*copies, self.own)
            for path, node in nodes.items()
            for name, n in node.unsent
            if name == site
        }

    def follow(self, journal: Journal) -> Callable[[], None]:
        """Report to ``journal`` the writes of this member and of owners backed up here.

        Returns:
            A function that ends it.
        """
        journal.begins(self.me, self.log.seq, self.log.wrote)
        for owner, backup in self.backups.of.items():
            journal.begins(owner, backup.seq, backup.wrote)
        self._journals.append(journal)
        return lambda: self._journals.remove(journal)

    # --- messages that concern more than one part

    def _on_answer(self, src: Address, message: m.Answer) -> None:
        grants = self.claims.on_answer(src, message)
        if grants:
            self.handover.install(src, grants)
            self.calls.granted()

    def _on_leaving(self, src: Address, message: m.Leaving) -> None:
        if self.membership.is_leaving(src, message.ready):
            self.buddies.locate()

    def _on_to_site(self, src: Address, message: m.ToSite) -> None:
        if isinstance(message.message, EventAck):
            self.arrivals.learn(src, message.message)
        self.sites.post(message.site, message.message)

    def _on_from_site(self, src: Address, message: m.FromSite) -> None:
        if isinstance(message.message, SiteEvent):
            self.arrivals.arrived(message.site, message.message)
        elif isinstance(message.message, EventAck):
            self.events.on_ack(message.site, message.message)
        else:
            self.out.count("bad_messages")

    # --- a view is settled

    def _report(self) -> None:
        holders, sites = self.buddies.before, self.sites.state()
        report = inventory(self.membership, self.ownership, self.backups, holders, sites)
        self.out.send(self.membership.coordinator, report)

    def _on_ask_all(self, src: Address, message: m.AskAll) -> None:
        """Take part in a merge that another member has not resolved."""
        if not self.settled:
            self.membership.freeze()
            self._report()

    def _on_inventory(self, src: Address, message: m.Inventory) -> None:
        inventories = self.change.on_inventory(src, message)
        if inventories is None:
            return
        sites = self.sites.merged([i.sites for i in inventories.values()])
        settle = self.change.decide(inventories, sites)
        self.out.send_all(settle)
        self._on_settle(self.me, settle)

    def _on_settle(self, src: Address, settle: m.Settle) -> None:
        """Act on the ``Settle``, the same at every member. Until then owners keep writing."""
        if self.settled:
            self.out.count("bad_messages")
            return
        verdict = MergeVerdict(settle, self.membership)
        self.handover.heirs = verdict.heirs
        self.backups.settle(settle.ends, verdict.heirs)
        copies = self.backups.take(verdict.groups())
        settled = self.ownership.settle(verdict, copies, self._adopted_safely)
        self.calls.drop(settled.forgotten)
        for group in settle.safe:
            if group not in self.members:
                self.backups.release(group)
        self.backups.drop_stray(settle.stray)
        self.buddies.begin_anew(settle.lost)
        self.membership.settle()
        self.sites.on_state(settle.sites)
        self._tell_discarded(settle.discarded, settled.discards)
        self.change.settled()
        if settle.unmerged:
            self._say_clean_when_acked()
        self.out.event("settled", self.tag)
        self.handover.settled()
        self.handover.say_taken_again()
        self.claims.settled()
        self.leaving.settled()
        self.sites.settled()
        self.calls.decide()
        self.calls.retry()

    def _adopted_safely(self, groups: m.Adoptions) -> None:
        """Announce that our holders have the adopted nodes."""
        adopted = m.Adopted(m.groups_of(groups))
        self.out.send_all(adopted)
        self.backups.on_adopted(self.me, adopted)

    def _tell_discarded(self, discarded: Sequence[m.Discarded], discards: Discards) -> None:
        """Report all discarded values at every member. Only the member that had a value can show it."""
        for each in discarded:
            mine = each.member == self.me
            value = discards.get((each.path, each.stamp)) if mine else None
            dropped = DroppedValue(each.path, each.stamp, each.member, each.side, value)
            self.out.event("discarded", dropped)

    def _say_clean_when_acked(self) -> None:
        tag = self.tag

        def clean() -> None:
            if self.tag == tag:
                self.out.send(self.membership.coordinator, m.Clean())

        self.log.when_acked(clean)

    def _on_clean(self, src: Address, message: m.Clean) -> None:
        if self.change.on_clean(src):
            self.membership.merged()

    def _on_merged(self, src: Address, message: m.Merged) -> None:
        self.membership.merged()

    # --- steps

    def _accept(self, src: Address, tag: ViewKey, message: m.Message) -> None:
        kind, membership = type(message), self.membership
        if membership.is_stranger(src, tag):
            self.out.count("dropped_strangers")
        elif tag != membership.tag and (kind in m.THIS_VIEW_ONLY or tag[0] == membership.tag[0]):
            self.out.count("dropped_old_view")
        elif kind in m.FROM_COORDINATOR and src != membership.coordinator:
            self.out.count("bad_messages")
        else:
            self._handlers[kind](src, message)

    def _release(self) -> None:
        """Handle the messages that came before their view."""
        held, self._held = self._held, []
        for src, tag, message in held:
            if tag[0] > self.tag[0]:
                self._held.append((src, tag, message))
            else:
                self._accept(src, tag, message)

    def _end_step(self) -> None:
        """Run the parts until a step leaves nothing to do."""
        to_self, log = self.out.to_self, self.log
        while True:
            if to_self:
                message = to_self.popleft()
                self._handlers[type(message)](self.me, message)
            elif (log.acked < log.seq or log.waiting) and log.advance():
                self.claims.look()
                if self.calls.waiting and not self.membership.frozen:
                    self.calls.retry()
            elif self.claims.due:
                for own in self.claims.progress():
                    self.calls.answered(own)
            else:
                if self.known.up:
                    self.events.flush()
                if not to_self:
                    break
        if self.leaving.begun:
            self.leaving.look()
        protected = self.protected
        if protected != self._protected:
            self._protected = protected
            self.out.event("protected" if protected else "unprotected")
