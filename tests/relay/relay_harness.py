"""Sites of RELAY machines over abstract layers, run step by step. The oracle stands outside the protocol.

Below each RELAY is a fake that promises what NAKACK2, UNICAST3 and GMS promise: per-sender FIFO that reaches
any subset of the receivers before the sender crashes, FIFO between pairs, views installed at different times,
survivors that agree on a departed sender's messages before they install a view without it. The bridge is a fake
of the same kind. Every delivery is one step; tests choose steps or let them run.

    net = Net(NYC="EDCBA", SFO="TSUVW")
    net.settle()                          everything delivered, timers run, until nothing is left
    net.send("C"); net.step("mc", "D", "C")
    net.hold("uc", src="E")               such steps do not happen until `release`
    net.crash("E"); net.settle(); net.at_rest()
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.sides import StackSide
from jgroups_py.stack.stack import Stack
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Disconnect,
    Disconnected,
    Event,
    GetDigest,
    Query,
    Stable,
    StateReceived,
    ViewChange,
)
from jgroups_py.values.view import Digest, MergeView, View, ViewId

Step = tuple[Any, ...]


class Violation(AssertionError):
    """The oracle saw something that must not be."""


class Bottom(Protocol):
    """Everything below RELAY, for one member."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member

    def down(self, batch: Batch) -> None:
        assert batch.src == self.local_address
        self.member.net.sent(self.member, batch)

    def event_down(self, event: Event) -> None:
        if isinstance(event, Disconnect):
            if not self.member.asked_to_leave:
                raise Violation(f"{self.member} leaves and nobody has told it to")
            self.member.wants_to_leave = True
        elif isinstance(event, Consumed):
            self.member.paid(event)

    def answer(self, query: Query) -> Any:
        if isinstance(query, GetDigest):
            positions = self.member.positions
            net = self.member.net
            return Digest(
                {
                    m: (positions.get(net.by_address[m], 0),) * 2
                    for m in query.members or ()
                    if m in net.by_address
                }
            )
        return None


class BridgeBottom(Protocol):
    """Everything of the bridge stack."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member

    def down(self, batch: Batch) -> None:
        assert batch.dest is not None, "RELAY multicasts nothing on the bridge"
        batch.src = self.local_address
        self.member.net.sent_over_bridge(self.member, self.stack, batch)

    def event_down(self, event: Event) -> None:
        net = self.member.net
        if isinstance(event, Connect):
            net.join_bridge(self.stack)
        elif isinstance(event, Disconnect):
            net.leave_bridge(self.stack)
            self.pass_event_up(Disconnected())
        elif isinstance(event, Consumed):
            self.member.paid(event)


class Member:
    """One incarnation of a member, with what its application saw."""

    def __init__(self, net: Net, name: str, site: str, config: dict[str, Any]) -> None:
        self.net = net
        self.name = name
        self.site = site
        self.alive = True
        self.view: View | None = None
        self.pending: View | None = None
        self.positions: dict[Member, int] = {}
        self.reach: dict[Member, int] = {}
        self.targets: dict[Member, int] = {}
        self.frozen: list[Member] = []
        self.log: list[Batch] = []
        self.sent = 0
        self.asked_to_leave = False
        self.wants_to_leave = False
        self.got: dict[str, list[int]] = {}
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.traces: list[tuple[str, dict[str, Any]]] = []
        self.skips: dict[str, int] = {}
        self.born = net.steps
        self.obliged_from: dict[str, int] = {}
        """Origin -> what was sent before this member had its first view."""
        self.digests_at: dict[int, dict[Member, int]] = {}
        self.owed: dict[int, Batch] = {}
        """What was handed up here and has not given its credit back, by number."""
        self.machine = Machine(
            name, random=random.Random(f"{net.seed}/{name}"), now=net.now, trace=self._on_trace
        )
        self.relay = net.relay_class(site=site, bridge="bridge", **config)
        self.bottom = Bottom(self)
        self.stack = Stack(self.machine, [self.bottom, self.relay], self)
        self.stack.open_child = self._open_child  # type: ignore[method-assign]
        self._disconnect, self.stack.disconnect = self.stack.disconnect, self._leave  # type: ignore[method-assign]
        self.stack.cluster = site
        self.id = self.stack.address

    def _leave(self) -> None:
        self.asked_to_leave = True
        self._disconnect()

    def _open_child(self, stack: str, cluster: str, owner: Any, **options: Any) -> Stack:
        child = Stack(
            self.machine,
            [BridgeBottom(self)],
            owner,
            name=options["name"],
            parent=self.stack,
        )
        return child

    def _on_trace(self, at: float, member: str, by: str, what: str, more: dict[str, Any]) -> None:
        self.traces.append((what, more))
        self.net.on_trace(self, what, more)

    def __repr__(self) -> str:
        return self.name

    # flow control

    def owing(self, batch: Batch) -> Batch:
        """The batch as it is handed up, with a credit of its own."""
        assert batch.src is not None
        self.net.credits += 1
        self.owed[self.net.credits] = batch
        credit = Credit(batch.src, batch.dest is None, self.net.credits)
        return replace(batch, credits=(credit,))

    def paid(self, event: Consumed) -> None:
        for credit in event.credits:
            if self.owed.pop(credit.amount, None) is None:
                raise Violation(f"{self} gives a credit back twice")

    # the application

    def deliver(self, batch: Batch) -> None:
        assert batch.src is not None
        self.batches.append(batch)
        for payload in batch.payloads:
            text = bytes(payload).decode()
            origin, _, number = text.partition("#")
            numbers = self.got.setdefault(origin, [])
            self.net.oracle_delivery(self, origin, int(number), numbers)
            numbers.append(int(number))
        self.stack.consumed(batch)

    def notify(self, event: Event) -> None:
        self.events.append(event)


class Net:
    """See the module's docstring. Keyword arguments: sites; ``config``: of RELAY, for all."""

    def __init__(
        self,
        *,
        seed: int = 0,
        config: dict[str, Any] | None = None,
        relay_class: type[RELAY] = RELAY,
        **sites: str,
    ) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.relay_class = relay_class
        self.now = 0.0
        self.steps = 0
        self.credits = 0
        self.members: dict[str, Member] = {}
        self.everybody: list[Member] = []
        self.by_address: dict[Address, Member] = {}
        self.by_raw: dict[bytes, Member] = {}
        self.config: dict[str, Any] = {"primary": next(iter(sites)), "gap_wait": 15.0}
        self.config.update(config or {})
        self.unicasts: dict[tuple[Member, Member], list[Batch]] = {}
        self.holds: list[tuple[str, dict[str, str]]] = []
        self.view_number = 0
        self.bridge: list[StackSide] = []
        self.bridge_of: dict[StackSide, Member] = {}
        self.bridge_views: dict[StackSide, View] = {}
        self.bridge_pending: dict[StackSide, View] = {}
        self.bridge_queues: dict[tuple[StackSide, StackSide], list[Batch]] = {}
        self.bridge_number = 0
        self.cut_off: list[str] = []
        """Sites without WAN."""
        self.split = False
        self.proofs = True
        """Views tell which of those they lack are dead."""
        self.home_in_order = True
        self.touched: dict[Member, None] = {}
        """Who did something since the oracle looked last."""
        self.gapped: dict[str, int] = {}
        self.home_delivered: dict[str, dict[int, list[Member]]] = {}
        self.listeners: list[Callable[[Member, str, dict[str, Any]], None]] = []
        for site, names in sites.items():
            for name in names:
                self.start(name, site)
            self.new_view(site, [self.members[n] for n in names])

    # --- members and views

    def start(self, name: str, site: str, **config: Any) -> Member:
        member = Member(self, name, site, {**self.config, **config})
        self.members[name] = member
        self.everybody.append(member)
        self.by_address[member.id] = member
        self.by_raw[bytes(member.id)] = member
        for other in self.everybody:
            other.stack.names[member.id] = name
            member.stack.names[other.id] = other.name
        return member

    def alive(self, site: str | None = None) -> list[Member]:
        return [m for m in self.everybody if m.alive and site in (None, m.site)]

    def site_view(self, site: str) -> list[Member]:
        """Living members in the order of the newest view, those not in one last."""
        views = [m.pending or m.view for m in self.alive(site) if m.pending or m.view]
        if not views:
            return self.alive(site)
        newest = max((v for v in views if v is not None), key=lambda v: v.id)
        return [self.by_address[a] for a in newest.members if self.by_address[a].alive]

    def relay_of(self, site: str) -> Member:
        return self.site_view(site)[0]

    def new_view(self, site: str, members: list[Member], merged: list[View] | None = None) -> View:
        """A view is agreed on: survivors freeze, agree, and may install it, each in its time."""
        for member in members:
            # A merge is not skipped: who has missed it would take the others for newcomers.
            if isinstance(member.pending, MergeView):
                self.install(member)
        self.view_number += 1
        view_id = ViewId(members[0].id, self.view_number)
        addresses = tuple(m.id for m in members)
        view = (
            View(view_id, addresses)
            if merged is None
            else MergeView(view_id, addresses, tuple(merged))
        )
        survivors = [m for m in members if m.view is not None]
        senders = [s for s in self.everybody if s.site == site]
        for sender in senders:
            if sender in members:
                continue
            having = [m for m in survivors if self._follows(m, sender)]
            goal = max((m.positions.get(sender, 0) for m in survivors), default=0)
            for member in having:
                member.targets[sender] = goal
                if sender not in member.frozen:
                    member.frozen.append(sender)
        if merged is not None:
            for member in members:
                for sender in members:
                    if member.view is None or sender.id not in member.view.members:
                        member.targets[sender] = max(
                            sender.positions.get(sender, 0), member.positions.get(sender, 0)
                        )
        for member in members:
            member.pending = view
        return view

    def _follows(self, member: Member, sender: Member) -> bool:
        """Is the sender still part of the member's stream (in the view it has)?"""
        return member.view is not None and sender.id in member.view.members

    def join(self, name: str, site: str, **config: Any) -> Member:
        """A new incarnation; the coordinator's view with it is on its way."""
        members = self.site_view(site)
        member = self.start(name, site, **config)
        self.new_view(site, [*members, member])
        return member

    def install(self, member: Member) -> None:
        view, old = member.pending, member.view
        assert view is not None
        merged = isinstance(view, MergeView)
        for sender, goal in list(member.targets.items()):
            jump = merged and sender.id in view.members
            if jump and sender.id not in (old.members if old else ()):
                member.positions[sender] = max(member.positions.get(sender, 0), goal)
                continue
            while member.positions.get(sender, 0) < goal:
                self._deliver_multicast(member, sender)
        member.targets = {}
        if old is None:
            # The coordinator's digest when it installed the view.
            coordinator = self.by_address[view.members[0]]
            if coordinator is not member:
                for sender in self.everybody:
                    if sender.site == member.site and sender is not member:
                        member.positions[sender] = coordinator_digest(coordinator, view, sender)
            member.positions[member] = 0
        for address in view.members:
            sender = self.by_address[address]
            member.positions.setdefault(sender, 0)
            if sender in member.frozen:
                member.frozen.remove(sender)
        member.pending = None
        member.view = view
        member.digests_at[view.id] = dict(member.positions)
        if old is None:
            member.obliged_from = {m.name: m.sent for m in self.everybody}
        for src, dst in list(self.unicasts):
            if dst is member and src.id not in view.members:
                del self.unicasts[src, dst]
        gone = [a for a in (old.members if old else ()) if a not in view.members]
        ended = tuple(a for a in gone if self.proofs and not self.by_address[a].alive)
        self._step_in(member, lambda: member.bottom.pass_event_up(ViewChange(view, old, ended)))

    def crash(self, *names: str, reach: dict[str, int] | None = None, view: bool = True) -> None:
        """Kills members. Of what they had sent, each survivor gets a random part (or ``reach``
        messages) at most; unicasts in flight are lost. ``view``: the next view is on its way."""
        for name in names:
            member = self.members[name]
            member.alive = False
            for other in self.alive(member.site):
                at = other.positions.get(member, 0)
                if reach is not None and other.name in reach:
                    other.reach[member] = at + reach[other.name]
                else:
                    other.reach[member] = self.random.randint(at, len(member.log))
            for pair in [p for p in self.unicasts if member in p]:
                del self.unicasts[pair]
            for stack in [s for s in self.bridge if self.bridge_of[s] is member]:
                self._lose_bridge(stack)
        if view:
            for site in dict.fromkeys(self.members[n].site for n in names):
                self.view_without_dead(site)

    def view_without_dead(self, site: str) -> None:
        groups: dict[int, list[Member]] = {}
        for member in self.alive(site):
            view = member.pending or member.view
            if view is not None:
                groups.setdefault(view.id, []).append(member)
        for number in sorted(groups):
            view = groups[number][0].pending or groups[number][0].view
            assert view is not None
            members = [m for m in map(self.by_address.get, view.members) if m in groups[number]]
            if len(members) < len(view.members):
                self.new_view(site, [m for m in members if m is not None])

    def leave(self, name: str) -> None:
        """RELAY has let Disconnect through: the member is gone with the next view."""
        member = self.members[name]
        assert member.wants_to_leave, "RELAY holds Disconnect back"
        member.alive = False
        for other in self.alive(member.site):
            other.reach[member] = len(member.log)
            other.positions.setdefault(member, 0)
        members = self.site_view(member.site)
        for stack in [s for s in self.bridge if self.bridge_of[s] is member]:
            self._lose_bridge(stack)
        views = [v for m in members if (v := m.pending or m.view) is not None]
        if any(member.id in v.members for v in views):
            # Leavers hand their messages over: what one has, all have before the view.
            self.new_view(member.site, members)

    def partition(self, site: str, *groups: Sequence[str]) -> None:
        """Each group (names) goes on alone."""
        self.split = True
        before = self.site_view(site)
        orders = [[m for m in before if m.name in group] for group in groups]
        for order in orders:
            if order:
                self.new_view(site, order)

    def merge(self, site: str) -> None:
        """All living members find each other again."""
        members = self.alive(site)
        views: list[View] = []
        for member in members:
            while member.pending is not None:
                self.install(member)
            if member.view is not None and member.view not in views:
                views.append(member.view)
        order = [m for v in views for m in (self.by_address[a] for a in v.members) if m.alive]
        self.new_view(site, list(dict.fromkeys(order)), views)

    # --- traffic

    def send(self, name: str, count: int = 1, **options: Any) -> None:
        """One run of ``count`` messages; the payload says which they are."""
        member = self.members[name]
        first = member.sent + 1
        member.sent += count
        payloads = [f"{name}#{n}".encode() for n in range(first, first + count)]
        batch = Batch(None, payloads, {}, **options)
        self._step_in(member, lambda: member.stack.send(batch))

    def sent(self, member: Member, batch: Batch) -> None:
        if batch.dest is None:
            member.log.append(batch)
            return
        dest = self.by_address.get(batch.dest)
        if dest is not None and dest.alive:
            self.unicasts.setdefault((member, dest), []).append(batch)

    def _deliver_multicast(self, member: Member, sender: Member) -> None:
        at = member.positions.get(sender, 0)
        member.positions[sender] = at + 1
        batch = sender.log[at]
        fresh = Batch(
            batch.dest, batch.payloads, batch.headers, batch.src, batch.flags, 0, batch.type
        )
        self._step_in(member, lambda: member.bottom.pass_up(member.owing(fresh)))

    def _step_in(self, member: Member, action: Callable[[], None]) -> None:
        self.touched[member] = None
        member.machine.enter(self.now)
        action()
        member.machine.leave()

    # --- the bridge

    def join_bridge(self, stack: StackSide) -> None:
        member = next(m for m in self.everybody if m.stack is stack.parent)
        self.bridge.append(stack)
        self.bridge_of[stack] = member
        self._new_bridge_views()

    def leave_bridge(self, stack: StackSide) -> None:
        if stack in self.bridge:
            self._lose_bridge(stack)

    def _lose_bridge(self, stack: StackSide) -> None:
        """The stack is gone; what it had sent may still be in its peers' sockets."""
        self.bridge.remove(stack)
        self.bridge_pending.pop(stack, None)
        self.bridge_views.pop(stack, None)
        for pair in [p for p in self.bridge_queues if p[1] is stack]:
            del self.bridge_queues[pair]
        self._new_bridge_views()

    def _new_bridge_views(self, merge: bool = False) -> None:
        groups: dict[str, list[StackSide]] = {}
        for stack in self.bridge:
            site = self.bridge_of[stack].site
            groups.setdefault(site if site in self.cut_off else "", []).append(stack)
        for group in groups.values():
            self.bridge_number += 1
            view_id = ViewId(group[0].address, self.bridge_number)
            members = tuple(s.address for s in group)
            for stack in group:
                old = self.bridge_pending.get(stack) or self.bridge_views.get(stack)
                if old is not None and old.members == members and not merge:
                    continue
                merged = isinstance(old, MergeView) and stack in self.bridge_pending
                merged = (merge or merged) and old is not None
                self.bridge_pending[stack] = (
                    MergeView(view_id, members) if merged else View(view_id, members)
                )

    def cut_wan(self, site: str) -> None:
        """The site is alone on its side of the bridge; what is under way is lost."""
        self.cut_off.append(site)
        for x, y in list(self.bridge_queues):
            if (self.bridge_of[x].site == site) != (self.bridge_of[y].site == site):
                del self.bridge_queues[x, y]
        self._new_bridge_views()

    def heal_wan(self, site: str) -> None:
        self.cut_off.remove(site)
        self._new_bridge_views(merge=True)

    def sent_over_bridge(self, member: Member, stack: StackSide, batch: Batch) -> None:
        for other in self.bridge:
            if other.address == batch.dest:
                sites = {self.bridge_of[stack].site, self.bridge_of[other].site}
                if len(sites) == 1 or not any(s in self.cut_off for s in sites):
                    self.bridge_queues.setdefault((stack, other), []).append(batch)

    def _install_bridge(self, stack: StackSide) -> None:
        view = self.bridge_pending.pop(stack)
        old = self.bridge_views.get(stack)
        self.bridge_views[stack] = view
        bottom = stack.protocols[0]
        member = self.bridge_of[stack]
        self._step_in(member, lambda: bottom.pass_event_up(ViewChange(view, old)))

    # --- steps

    def enabled(self) -> list[Step]:
        """What can happen now, in a fixed order: names, so that tests can choose."""
        steps: list[Step] = []
        for member in self.everybody:
            if not member.alive:
                continue
            if member.pending is not None and self._may_install(member):
                steps.append(("view", member.name))
            if member.view is None:
                continue
            for sender in self.everybody:
                if sender.site == member.site and self._can_deliver(member, sender):
                    steps.append(("mc", member.name, sender.name))
        for (src, dst), queue in self.unicasts.items():
            if queue and dst.alive:
                steps.append(("uc", dst.name, src.name))
        for stack in self.bridge:
            if stack in self.bridge_pending:
                steps.append(("bview", self.bridge_of[stack].name))
        for (x, y), queue in self.bridge_queues.items():
            if queue and y in self.bridge:
                steps.append(("bridge", self.bridge_of[y].name, self.bridge_of[x].name))
        return [s for s in steps if not self._held(s)]

    def _may_install(self, member: Member) -> bool:
        view = member.pending
        assert view is not None
        coordinator = self.by_address[view.members[0]]
        if member.view is None and coordinator is not member:
            # The join answer comes when the coordinator has the view, and carries its digest.
            return view.id in coordinator.digests_at
        return True

    def _can_deliver(self, member: Member, sender: Member) -> bool:
        assert member.view is not None
        if sender.id not in member.view.members or sender in member.frozen:
            return False
        upto = len(sender.log) if sender.alive else member.reach.get(sender, 0)
        return member.positions.get(sender, 0) < upto

    def step(self, *step: Any) -> None:
        """Makes one step happen, held or not."""
        kind, name = step[0], step[1]
        self.steps += 1
        if kind == "view":
            self.install(self.members[name])
        elif kind == "mc":
            self._deliver_multicast(self.members[name], self._incarnation(step[2], name))
        elif kind == "uc":
            dst = self.members[name]
            src = next(s for s, d in self.unicasts if d is dst and s.name == step[2])
            batch = self.unicasts[src, dst].pop(0)
            self._step_in(dst, lambda: dst.bottom.pass_up(dst.owing(batch)))
        elif kind == "bview":
            self._install_bridge(self._bridge_stack(name))
        elif kind == "bridge":
            end = self._bridge_stack(name)
            pair = next(
                (x, y)
                for x, y in self.bridge_queues
                if y is end and self.bridge_of[x].name == step[2] and self.bridge_queues[x, y]
            )
            batch = self.bridge_queues[pair].pop(0)
            stack = pair[1]
            member = self.bridge_of[stack]
            self._step_in(member, lambda: stack.protocols[0].pass_up(member.owing(batch)))
        elif kind == "time":
            self._advance(step[1])
        else:
            raise AssertionError(step)
        self.oracle_step()

    def _incarnation(self, name: str, at: str) -> Member:
        member = self.members[at]
        found = [s for s in self.everybody if s.name == name and self._can_deliver(member, s)]
        return found[0]

    def _bridge_stack(self, name: str) -> StackSide:
        found = [s for s in self.bridge if self.bridge_of[s].name == name]
        return found[-1]

    def _advance(self, to: float) -> None:
        self.now = max(self.now, to)
        for member in self.everybody:
            due = member.machine.next_deadline()
            if member.alive and due is not None and due <= self.now:
                self.touched[member] = None
                member.machine.advance(self.now)

        if self.config.get("relay_when") == "stable":
            self._tell_stable()

    def _tell_stable(self) -> None:
        """STABLE: what all members of a view have, where all have installed it."""
        for member in self.alive():
            view = member.view
            if view is None or member.pending is not None:
                continue
            members = [self.by_address[a] for a in view.members]
            if any(m.view != view or not m.alive for m in members):
                continue
            digest: dict[Address, tuple[int, int]] = {}
            for sender in members:
                number = min(m.positions.get(sender, 0) for m in members)
                digest[sender.id] = (number, number)
            event = Stable(Digest(digest))
            self._step_in(member, lambda m=member, e=event: m.bottom.pass_event_up(e))

    def next_deadline(self) -> float | None:
        due = [m.machine.next_deadline() for m in self.everybody if m.alive]
        return min((d for d in due if d is not None), default=None)

    def hold(self, kind: str, *, dst: str = "", src: str = "") -> None:
        """Steps of that kind (to ``dst``, from ``src``) do not happen by themselves."""
        self.holds.append((kind, {"dst": dst, "src": src}))

    def release(self) -> None:
        self.holds = []

    def _held(self, step: Step) -> bool:
        for kind, what in self.holds:
            if kind == step[0] and what["dst"] in ("", step[1]):
                if not what["src"] or (len(step) > 2 and what["src"] == step[2]):
                    return True
        return False

    def deliver(self, *kinds: str, limit: int = 100_000) -> None:
        """Everything that is enabled (of these kinds) happens; time stands still."""
        for _ in range(limit):
            steps = [s for s in self.enabled() if not kinds or s[0] in kinds]
            if not steps:
                return
            self.step(*steps[0])
        raise AssertionError(f"does not come to rest: {self.enabled()}")

    def deliver_to(self, kind: str, name: str) -> None:
        """Everything of that kind that one member can be given now."""
        while steps := [s for s in self.enabled() if s[:2] == (kind, name)]:
            self.step(*steps[0])

    def settle(self, seconds: float = 60.0) -> None:
        """Everything happens, and timers fire, until nothing is left to do or time is up."""
        end = self.now + seconds
        while True:
            self.deliver()
            due = self.next_deadline()
            if due is None or due > end:
                break
            self.step("time", due)
        self._advance(end) if due is not None else None
        self.deliver()

    def advance(self, seconds: float) -> None:
        """Time passes; nothing is delivered."""
        end = self.now + seconds
        while (due := self.next_deadline()) is not None and due <= end:
            self.step("time", due)
        self._advance(end)

    def close(self) -> None:
        for member in self.everybody:
            member.stack.close()

    # --- the oracle

    def on_trace(self, member: Member, what: str, more: dict[str, Any]) -> None:
        if what == "gap" and more["how"] == "skipped":
            upto = more["seqno"] + more["count"] - 1
            member.skips[more["origin"]] = upto
            self.gapped[more["origin"]] = upto
        for listener in self.listeners:
            listener(member, what, more)

    def oracle_delivery(self, member: Member, origin: str, number: int, before: list[int]) -> None:
        """I1: once, in order, no gap that was not announced."""
        sender = next(m for m in self.everybody if m.name == origin)
        if sender.site == member.site:
            self.home_delivered.setdefault(origin, {}).setdefault(number, []).append(member)
            if before and number <= before[-1] and self.home_in_order:
                raise Violation(f"{member} delivers {origin}#{number} after {before[-1]}")
            return
        if not before:
            return
        last = before[-1]
        if number <= last:
            raise Violation(f"I1: {member} delivers {origin}#{number} after {last}")
        if number > last + 1 and not self._announced(member, sender, number - 1):
            raise Violation(f"I1: {member} delivers {origin}#{number} over a gap after {last}")

    def _announced(self, member: Member, sender: Member, upto: int) -> bool:
        return any(
            what == "gap" and more["how"] == "skipped" and more["seqno"] + more["count"] - 1 >= upto
            for what, more in member.traces
            if what == "gap" and str(more["origin"]).startswith(bytes(sender.id).hex()[:8])
        ) or self._moved(member, sender)

    def _skipped(self, member: Member, sender: Member, number: int) -> bool:
        """Was the member told that this number does not come?"""
        return any(
            what == "gap"
            and more["how"] == "skipped"
            and str(more["origin"]).startswith(bytes(sender.id).hex()[:8])
            and more["seqno"] <= number < more["seqno"] + more["count"]
            for what, more in member.traces
        )

    def _moved(self, member: Member, sender: Member) -> bool:
        """Did a state replace the digests?"""
        return any(isinstance(e, StateReceived) for e in member.events)

    def oracle_step(self) -> None:
        """I2, I4, I5 after every step."""
        touched, self.touched = self.touched, {}
        for member in touched:
            if member.alive:
                member.machine.check()
                self._check_sent(member)
        if touched:
            self._check_trimmed()

    def _check_sent(self, member: Member) -> None:
        """I2: nothing exceeds what the origin sent."""
        relay = member.relay
        tables = [relay.state.trimmed, relay.state.delivered]
        tables += list(relay.state.site_digest.values())
        tables += list(relay.bridge.forwarded.sites.values())
        tables += [s.cursor for s in relay.bridge.sessions.values()]
        for table in tables:
            for origin, number in table.items():
                sender = self.by_raw.get(origin)
                if sender is not None and number > sender.sent:
                    raise Violation(f"I2: {member} has {number} of {sender}, sent {sender.sent}")

    def _check_trimmed(self) -> None:
        """I2: trimmed <= what every member of every other site has, joiners included."""
        if self.split:
            return
        for member in self.everybody:
            relay = member.relay
            if not member.alive or not relay.is_relay or not relay.is_relaying:
                continue
            for other in self.everybody:
                theirs = other.relay
                if (
                    not other.alive
                    or other.site not in relay.state.sites
                    or other.view is None
                    or theirs.joining.waits
                    or theirs.joining.blind
                ):
                    continue
                for origin, number in relay.state.trimmed.items():
                    sender = self.by_raw[origin]
                    have = theirs.state.has(member.site, origin)
                    if number > have and number > relay.state.base.get(origin, 0):
                        raise Violation(
                            f"I2: {member} trimmed {sender}#{number}, {other} has {have}"
                        )

    def agreed(self) -> None:
        """I4: members with the same view delivered the same of those who are not in it."""
        for site in dict.fromkeys(m.site for m in self.everybody):
            members = [m for m in self.alive(site) if m.view is not None and m.pending is None]
            for one in members:
                for other in members:
                    if one.view != other.view or one.born != other.born:
                        continue
                    for origin, number in one.relay.state.delivered.items():
                        if self.by_raw[origin].alive:
                            continue
                        theirs = other.relay.state.delivered.get(origin, 0)
                        if theirs != number:
                            raise Violation(f"I4: {one} has {number}, {other} {theirs}")

    def lost(self, *, primary: str | None = None, announced_too: bool = False) -> list[str]:
        """Messages that a survivor at home delivered and a member elsewhere did not get;
        ``announced_too``: nor was told that it would not."""
        missing = []
        for origin, numbers in self.home_delivered.items():
            sender = next(m for m in self.everybody if m.name == origin)
            if primary is not None and sender.site != primary:
                continue
            for number, holders in sorted(numbers.items()):
                if not any(m.alive for m in holders):
                    continue
                for other in self.alive():
                    if other.site == sender.site or other.view is None:
                        continue
                    got = other.got.get(origin, [])
                    start = 0
                    if other.born:
                        start = other.obliged_from.get(origin, 0)
                        start = min(start, got[0] - 1) if got else start
                    if (
                        number > start
                        and number not in got
                        and (not announced_too or not self._skipped(other, sender, number))
                    ):
                        missing.append(f"{origin}#{number} at {other}")
        return missing

    def at_rest(self, *, lost: bool = False, gaps: bool = False) -> None:
        """Buffers empty, one ready relay a site, nothing lost, no gap (unless allowed)."""
        problems = []
        missing = self.lost(primary=self.primary, announced_too=gaps)
        if not lost and missing:
            problems.append(f"lost: {missing[:10]}")
        for site in dict.fromkeys(m.site for m in self.everybody):
            relays = [m for m in self.alive(site) if m.relay.is_relay]
            if self.alive(site) and len(relays) != 1:
                problems.append(f"{site} has the relays {relays}")
            for relay in relays:
                sessions = relay.relay.bridge.sessions.values()
                if not all(s.ready for s in sessions):
                    problems.append(f"{relay} has open sessions")
        for member in self.alive():
            if member.owed:
                problems.append(f"{member} keeps the credits of {[*member.owed.values()][:3]}")
            if len(member.relay.buffer):
                held = {
                    self.by_raw[o].name: member.relay.buffer.ranges(o)
                    for o in member.relay.buffer.origins()
                }
                problems.append(f"{member} still holds {held}")
            if member.relay.out_of_sync.ranges() and not gaps:
                problems.append(f"{member} is out of sync: {member.relay.out_of_sync.ranges()}")
        if problems:
            raise Violation("; ".join(problems))

    @property
    def primary(self) -> str | None:
        primary: str = self.config["primary"]
        return None if primary == "all" else primary


def coordinator_digest(coordinator: Member, view: View, sender: Member) -> int:
    return coordinator.digests_at[view.id].get(sender, 0)


def five_and_five(nyc: str = "EDCBA", sfo: str = "TSUVW", **config: Any) -> Net:
    """Two sites that have found each other; the first of each is its relay."""
    net = Net(NYC=nyc, SFO=sfo, config=config)
    net.settle(3)
    return net


def four_and_three(nyc: str = "RSMO", sfo: str = "YZT", **config: Any) -> Net:
    """Two sites named as in the note on RELAY: relay, standby, member, origin; Y, Z, T."""
    return five_and_five(nyc, sfo, **config)


def got(net: Net, origin: str, *names: str) -> list[list[int]]:
    return [net.members[name].got.get(origin, []) for name in names]


def told(member: Member, what: str) -> list[dict[str, Any]]:
    return [more for name, more in member.traces if name == what]
