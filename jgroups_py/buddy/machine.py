"""One member of a cluster with buddy replication, as a machine: no task, no clock, no chance inside.

In: ``install`` (a view), ``receive`` (a message of a member), ``submit`` and ``cancel`` (local calls),
``push`` (there is room to send more state), ``advance`` (time). Out: ``take``: what to send, which calls
are completed, what happened.

The driver's part: views are installed in their order, some may be left out; what one member sends to another arrives
in order and complete while both are in the view, and carries the key of the sender's view at
sending; a message may arrive before its view.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from jgroups_py.buddy import messages as m
from jgroups_py.buddy.arrivals import Arrivals
from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.buddies import Buddies
from jgroups_py.buddy.calls import Call, Calls, Outcome
from jgroups_py.buddy.change import Change
from jgroups_py.buddy.claims import Claims
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.handover import Handover
from jgroups_py.buddy.homes import HomeLocator
from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.leaving import Leave
from jgroups_py.buddy.locator import BuddyLocator, NextMemberBuddyLocator
from jgroups_py.buddy.log import Log
from jgroups_py.buddy.merge import Merge
from jgroups_py.buddy.outputs import Completed, Event, Output, Send
from jgroups_py.buddy.owned import Owned
from jgroups_py.buddy.passive import Passive
from jgroups_py.buddy.removal import Removal
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.buddy.sites import Sites
from jgroups_py.buddy.values import Epoch, Path, ViewKey, group_name, next_epoch
from jgroups_py.buddy.walks import Walks
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView, View

NO_VIEW: Final = (-1, Address(b""))


class BuddyMachine:
    """``me``: this member; ``name``: its logical name, part of its group's name."""

    def __init__(
        self,
        me: Address,
        config: BuddyConfig | None = None,
        *,
        name: str = "",
        locator: BuddyLocator | None = None,
        home_locator: HomeLocator | None = None,
    ) -> None:
        self.me = me
        self.config = config or BuddyConfig()
        self.group = group_name(name, me)
        self.locator = locator or NextMemberBuddyLocator()
        self.locator.init(self.config.locator_properties)
        self.home_locator = home_locator or HomeLocator()
        self.num_buddies = self.config.num_buddies
        self.now = 0.0
        self.site_epoch = 0
        self.tag: ViewKey = NO_VIEW
        self.members: tuple[Address, ...] = ()
        self.settled = False
        self.frozen = False
        self.unmerged = False
        self.own = Owned()
        self.adopted: m.Adoptions = {}
        """Dead groups whose nodes are among ours."""
        self.adopted_safely: dict[Address, None] = {}
        """Those of which our holders have everything."""
        self.adopted_from: dict[Path, Address] = {}
        """Nodes of ours that came with a dead group and have not moved since."""
        self.sides: dict[Address, Address] = {}
        """After a merge: who created the view a member comes from."""
        self.floor: Epoch = (0, 0)
        """The highest epoch of a node that was dropped here, or at a member that answered a claim."""
        self.statistics: dict[str, int] = {}
        self.journals: list[Journal] = []
        self.log = Log(self)
        self.buddies = Buddies(self)
        self.backups = Backups(self)
        self.claims = Claims(self)
        self.handover = Handover(self)
        self.calls = Calls(self)
        self.change = Change(self)
        self.merge = Merge(self)
        self.leaving = Leave(self)
        self.removal = Removal(self)
        self.passive = Passive(self)
        self.keeping: Callable[[Path], bool] | None = None
        """The driver's: does somebody here need a node for a moment more? Claims of others wait meanwhile; when it
        is over, ``look`` says so. The driver bounds it."""
        self.sites = Sites(self)
        self.arrivals = Arrivals(self)
        self.walks = Walks(self)
        self._since: dict[Address, ViewKey] = {}
        self._alive: dict[Address, int] = {}
        self._held: list[tuple[Address, ViewKey, m.Message]] = []
        self._to_self: deque[m.Message] = deque()
        self._out: list[Output] = []
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
            m.Answer: self.claims.on_answer,
            m.Taken: self.handover.on_taken,
            m.Done: self.handover.on_done,
            m.Inventory: self.change.on_inventory,
            m.AskAll: self.change.on_ask_all,
            m.Settle: self.change.on_settle,
            m.Clean: self.merge.on_clean,
            m.Merged: self.merge.on_merged,
            m.Leaving: self.leaving.on_leaving,
            m.TakeMine: self.leaving.on_take_mine,
            m.ToSite: self.sites.on_to_site,
            m.FromSite: self.sites.on_from_site,
            m.SiteTold: self.sites.on_told,
            m.SiteAsk: self.sites.on_ask,
        }

    # --- in

    def install(self, view: View, now: float) -> None:
        """The next view."""
        assert view.id > self.tag[0], f"view {view.id} after {self.tag[0]}"
        assert self.me in view.members, "a view without this member"
        self.now = now
        before = self.members
        missed = bool(before) and view.id > self.tag[0] + 1
        self.tag = (view.id, view.view_id.creator)
        self.members = view.members
        self.settled = False
        strangers = self._remember(view, before)
        self.merge.count(self.buddies.leaving)
        if self.minority:
            self.calls.decide()
        self.removal.lost([member for member in before if member not in view.members])
        self.calls.again(self.claims.void())
        if isinstance(view, MergeView):
            self.merge.begin(view)
        elif missed:
            self.merge.may_have_been_missed()
        for member in strangers:  # who comes from elsewhere has its nodes itself
            self.backups.of.pop(member, None)
        gone = [h for h in self.buddies.holders if h not in view.members or h in strangers]
        self.buddies.drop(gone)
        self.backups.came_back(view.members)
        for member in [g for g in self.adopted if g in view.members]:
            del self.adopted[member]
            self.adopted_safely.pop(member, None)
        self.leaving.new_view()
        self.sites.new_view(before)
        self.buddies.announce()
        self.buddies.locate()
        self.change.begin()
        self._release()
        self._end_step()

    def receive(self, src: Address, tag: ViewKey, message: m.Message, now: float) -> None:
        """A message of another member; ``tag``: its view when it sent it."""
        self.now = now
        if tag[0] > self.tag[0]:
            if len(self._held) < self.config.held_max:
                self._held.append((src, tag, message))
            else:
                self.complain("held_overflow", f"{type(message).__name__} of {src!r} is dropped")
            return
        self._accept(src, tag, message)
        self._end_step()

    def submit(self, call: Call, now: float) -> None:
        """Begins a call; ``Completed`` ends it. Ids are the caller's, each used once."""
        self.now = now
        self.calls.submit(call)
        self._end_step()

    def cancel(self, call: int, now: float) -> None:
        """The caller waits no longer; ``Completed`` says whether the call may have been done."""
        self.now = now
        self.calls.cancel(call)
        self._end_step()

    def link(self, site: str, up: bool, now: float) -> None:
        """This member, as relay of its site, has a link to the relay of another one, or lost it."""
        self.now = now
        self.sites.link(site, up)
        self._end_step()

    def receive_site(self, site: str, message: AnySiteMessage, now: float) -> None:
        """Over the link to another site, in its order."""
        self.now = now
        self.sites.receive(site, message)
        self._end_step()

    def promote(self, now: float, epoch: int = 0) -> None:
        """From now on what is written at this site outranks what was written at others. Everybody here is
        told; the event ``promoted`` says when. ``epoch`` 0: the next one."""
        self.now = now
        self.sites.ask("promote", epoch=epoch)
        self._end_step()

    def bootstrap(self, site: str, now: float) -> None:
        """Sends everything to a site; the event ``bootstrap_complete`` comes at the coordinator."""
        self.now = now
        self.sites.ask("bootstrap", site)
        self._end_step()

    def push(self, now: float) -> bool:
        """Sends the next piece of state to a new buddy; False: there is none."""
        self.now = now
        return self.buddies.push()

    def leave(self, now: float) -> None:
        """Begins to leave; the event ``may_leave`` says when nothing is lost by going."""
        self.now = now
        self.leaving.begin()
        self._end_step()

    def activate(self, values: Mapping[Path, Any], now: float) -> None:
        """Answers the event ``activate``: values that are in memory again (``Passive``)."""
        self.now = now
        self.passive.back(values)
        self._end_step()

    def look(self, now: float) -> None:
        """What was kept may go."""
        self.now = now
        self.claims.look()
        self._end_step()

    def advance(self, now: float) -> None:
        """Time has passed."""
        self.now = now
        if now - self.change.since > self.config.communication_timeout:
            for member in self.change.silent():
                self.event("suspect", member)
            self.change.since = now
        self.leaving.look()
        self.removal.purge()
        self.sites.advance()
        self._end_step()

    def take(self) -> list[Output]:
        """Everything to be done and told since the last call, in order."""
        out, self._out = self._out, []
        return out

    # --- for the parts

    @property
    def coordinator(self) -> Address:
        return self.members[0]

    @property
    def number(self) -> int:
        return self.tag[0]

    @property
    def minority(self) -> bool:
        return self.merge.minority

    def send(self, to: Address, message: m.Message) -> None:
        if to == self.me:
            self._to_self.append(message)
            return
        self.count(f"sent_{type(message).__name__}")
        self._out.append(Send(to, self.tag, message))

    def send_all(self, message: m.Message) -> None:
        """To all others."""
        self.count(f"sent_{type(message).__name__}", len(self.members) - 1)
        self._out.append(Send(None, self.tag, message))

    def send_member(self, to: Address, message: m.Message) -> None:
        """If it still is one."""
        if to in self.members:
            self.send(to, message)

    def output(self, output: Output) -> None:
        self._out.append(output)

    def complete(
        self, call: int, outcome: Outcome, result: Any = None, error: Exception | None = None
    ) -> None:
        self._out.append(Completed(call, outcome, result, error))

    def event(self, kind: str, detail: Any = None) -> None:
        self._out.append(Event(kind, detail))

    def count(self, what: str, by: int = 1) -> None:
        self.statistics[what] = self.statistics.get(what, 0) + by

    def complain(self, what: str, detail: str) -> None:
        """Counted and told: something that should not be, and that is survived."""
        self.count(what)
        self.event("complaint", detail)

    def drop(self, path: Path) -> None:
        """Removes a node that is ours no longer; without a log entry."""
        node = self.own.pop(path)
        self.adopted_from.pop(path, None)
        self.sites.dropped(path)
        epoch = node.epoch if node.to is None else node.to[1]
        self.floor = max(self.floor, epoch, node.stamp.epoch)

    def forget(self, paths: list[Path]) -> None:
        for path in paths:
            self.drop(path)
        self.log.append([(path, None) for path in paths])

    def first_epoch(self) -> Epoch:
        """Of a node that nobody has: above all that members had and dropped."""
        return next_epoch(self.floor, self.number)

    def is_dead_since(self, member: Address, view: int) -> bool:
        """Is it dead, and was it when ``view`` was the latest?"""
        return member not in self._since and view > self._alive.get(member, 0)

    def settled_now(self, settle: m.Settle) -> None:
        """The end of ``Change.on_settle``."""
        self.settled = True
        self.frozen = False
        self.sites.on_state(settle.sites)
        self.change.tell_discarded(settle.discarded)
        self.merge.settled(settle)
        self.event("settled", self.tag)
        self.handover.release()
        self.handover.say_taken_again()
        self.claims.release()
        self.leaving.settled()
        self.sites.settled()
        self.calls.decide()
        self.calls.retry()

    # --- inside

    def _remember(self, view: View, before: tuple[Address, ...]) -> list[Address]:
        """Since when each member is with us; gives those that come from the other side of a merge."""
        same: tuple[Address, ...] = before
        if isinstance(view, MergeView):
            same = next((sub.members for sub in view.subgroups if self.me in sub), ())
        strangers = [x for x in view.members if x not in before or x not in same]
        kept = {x: self._since[x] for x in view.members if x not in strangers and x in self._since}
        self._since = {x: kept.get(x, self.tag) for x in view.members}
        for member in view.members:
            self._alive.pop(member, None)
            self._alive[member] = view.id
        while len(self._alive) > self.config.departed_max + len(view.members):
            del self._alive[next(iter(self._alive))]
        while len(self.adopted) > self.config.departed_max:
            oldest = next(iter(self.adopted))
            del self.adopted[oldest]
            self.adopted_safely.pop(oldest, None)
        return strangers

    def _accept(self, src: Address, tag: ViewKey, message: m.Message) -> None:
        since = self._since.get(src)
        kind = type(message)
        if since is None or tag[0] < since[0] or (tag[0] == since[0] and _other(tag, since)):
            self.count("dropped_strangers")
        elif tag != self.tag and (kind in m.THIS_VIEW_ONLY or tag[0] == self.tag[0]):
            self.count("dropped_old_view")
        elif kind in m.FROM_COORDINATOR and src != self.coordinator:
            self.count("bad_messages")
        else:
            self._handlers[kind](src, message)

    def _release(self) -> None:
        held, self._held = self._held, []
        for src, tag, message in held:
            if tag[0] > self.tag[0]:
                self._held.append((src, tag, message))
            else:
                self._accept(src, tag, message)

    def _end_step(self) -> None:
        """Runs what a step made possible, until nothing is left."""
        while True:
            if self._to_self:
                message = self._to_self.popleft()
                self._handlers[type(message)](self.me, message)
            elif self.log.advance():
                self.claims.look()
                if self.calls.waiting and not self.frozen:
                    self.calls.retry()
            elif not self.claims.progress():
                self.sites.flush()
                if not self._to_self:
                    break
        if self.leaving.begun:
            self.leaving.look()
        protected = self.protected
        if protected != self._protected:
            self._protected = protected
            self.event("protected" if protected else "unprotected")

    @property
    def protected(self) -> bool:
        """This member's part of it: settled, its buddies complete, its log acknowledged, nothing on the
        move, no orphan. The cluster is protected when all members of the view are."""
        return (
            self.settled
            and not self.unmerged
            and self.log.seq == self.log.acked
            and self.buddies.complete
            and not self.backups.orphans()
            and self.own.moving == 0
        )


def _other(tag: ViewKey, since: ViewKey) -> bool:
    """Two views of one number, of two sides of a partition?"""
    return tag != since and since[1] != NO_VIEW[1]
