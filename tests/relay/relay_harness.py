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
from typing import Any

from relay_member import Member
from relay_sites_oracle import SitesOracle

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.stack.sides import StackSide
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Stable,
    ViewChange,
)
from jgroups_py.values.view import Digest, MergeView, View, ViewId

Step = tuple[Any, ...]


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
        self.oracle = SitesOracle(self.everybody, self.by_raw)
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
        """Views tell which of the departed members are dead."""
        self.touched: dict[Member, None] = {}
        """The members that acted since the oracle's last check."""
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
        """Living members in the order of the newest view; members outside it come last."""
        views = [m.pending or m.view for m in self.alive(site) if m.pending or m.view]
        if not views:
            return self.alive(site)
        newest = max((v for v in views if v is not None), key=lambda v: v.id)
        return [self.by_address[a] for a in newest.members if self.by_address[a].alive]

    def relay_of(self, site: str) -> Member:
        return self.site_view(site)[0]

    def new_view(self, site: str, members: list[Member], merged: list[View] | None = None) -> View:
        """A view is agreed on: survivors freeze, agree, and may install it at different times."""
        for member in members:
            # A merge is not skipped: a member that misses it would take the others for newcomers.
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
        """Return whether the sender is still part of the member's stream (in its view)."""
        return member.view is not None and sender.id in member.view.members

    def join(self, name: str, site: str, **config: Any) -> Member:
        """Return a new incarnation; the coordinator's view with it is on its way."""
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
        """Kills members. At most a random part of its messages (or ``reach`` messages) gets to each survivor;
        unicasts in flight are lost. ``view``: the next view is on its way."""
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
        """RELAY has let Disconnect through: the member is missing in the next view."""
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
            # Leavers hand their messages over: all members have them before the view.
            self.new_view(member.site, members)

    def partition(self, site: str, *groups: Sequence[str]) -> None:
        """Each group (names) continues separately."""
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
        """The stack has closed; its sent messages may still be in the sockets of its peers."""
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
        """The site is alone on its side of the bridge; messages under way are lost."""
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
        """Return the names of the possible steps in a fixed order, so that tests can choose."""
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
            # The join answer comes when the coordinator has the view, and contains its digest.
            return view.id in coordinator.digests_at
        return True

    def _can_deliver(self, member: Member, sender: Member) -> bool:
        assert member.view is not None
        if sender.id not in member.view.members or sender in member.frozen:
            return False
        upto = len(sender.log) if sender.alive else member.reach.get(sender, 0)
        return member.positions.get(sender, 0) < upto

    def step(self, *step: Any) -> None:
        """Make one step happen, held or not."""
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
        touched, self.touched = self.touched, {}
        self.oracle.stepped(touched, split=self.split)

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
        """STABLE: the messages that all members of a view have, once all have installed it."""
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
        """Deliver everything of that kind that one member can get now."""
        while steps := [s for s in self.enabled() if s[:2] == (kind, name)]:
            self.step(*steps[0])

    def settle(self, seconds: float = 60.0) -> None:
        """Carry out all steps and timers, until none is left or the time is over."""
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
        """Let time pass without deliveries."""
        end = self.now + seconds
        while (due := self.next_deadline()) is not None and due <= end:
            self.step("time", due)
        self._advance(end)

    def close(self) -> None:
        for member in self.everybody:
            member.stack.close()

    # --- the oracle

    def on_trace(self, member: Member, what: str, more: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener(member, what, more)

    def agreed(self) -> None:
        self.oracle.agreed()

    def lost(self, *, primary: str | None = None, announced_too: bool = False) -> list[str]:
        return self.oracle.lost(primary=primary, announced_too=announced_too)

    def at_rest(self, *, lost: bool = False, gaps: bool = False) -> None:
        self.oracle.at_rest(primary=self.primary, lost=lost, gaps=gaps)

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


def id_of(net: Net, name: str) -> bytes:
    return bytes(net.members[name].id)


def bridge_stacks(member: Member) -> list[Any]:
    return list(member.stack.children)


def session_of(member: Member) -> Any:
    (session,) = member.relay.bridge.sessions.values()
    return session


def unsole(member: Member) -> Any:
    """Return its only session; from now on each site has a second relay on the bridge."""
    session = session_of(member)
    member.relay.bridge.is_sole = lambda site: False  # type: ignore[method-assign]
    return session
