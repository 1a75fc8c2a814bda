"""Two sites of machines with a link between their relays, for the explorer.

A step of one site is ``("at", site, ...)``. The link is a session between two members: a queue each way;
what is in it is lost when it is cut or when one of them dies, but for the first few.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from jgroups_py.address import Address
from jgroups_py.buddy.explore_oracle import EMPTY, Violation
from jgroups_py.buddy.explore_world import Setting, Step, World
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.site_messages import AnySiteMessage, EventAck, SiteEvent
from jgroups_py.buddy.values import Path, Stamp

NAMES: Final = ("N", "S")
FIRST: Final = (0, 50)
"""Numbers of the members' names."""
ROUNDS_MAX: Final = 60
"""Ticks after which two sites should have come to rest."""


class TwoSites:
    """``worlds``: the sites. ``session``: the two relays that are linked."""

    def __init__(self, setting: Setting) -> None:
        assert setting.other is not None
        self.setting = setting
        self.settings = (setting, setting.other)
        self.steps = 0
        self.attentive = False
        self.session: tuple[Address, Address] | None = None
        self.wire: tuple[deque[AnySiteMessage], ...] = (deque(), deque())
        self.events: dict[tuple[int, Address, int, Path], Stamp] = {}
        """By site, origin, number and path: what an event that left the site was about."""
        self.held: tuple[dict[Path, Stamp], ...] = ({}, {})
        """By site: the newest it has acknowledged to the other."""
        self.overflowed = [False, False]
        """Removals of this site were dropped for the other one."""
        self.fresh = False
        """The first site was built anew and does not have everything yet."""
        self._seen = 0
        self.missing: dict[Path, frozenset[int]] = {}
        """Of a lost site: what it had not passed on, and said so."""
        self.worlds: list[World | None] = []
        for at in range(2):
            self.worlds.append(self._make(at, FIRST[at]))
        first, second = self.world(0).oracle, self.world(1).oracle
        second.history, second.listed = first.history, first.listed
        second.follows = True

    def _make(self, at: int, first: int) -> World:
        world = World(self.settings[at], (NAMES[1 - at],), first)
        world.site_out = lambda me, site, message: self._out(at, me, message)
        return world

    def world(self, at: int) -> World:
        world = self.worlds[at]
        assert world is not None, f"site {NAMES[at]} is lost"
        return world

    @property
    def both(self) -> list[tuple[int, World]]:
        return [(at, world) for at, world in enumerate(self.worlds) if world is not None]

    # --- steps

    def step(self, step: Step) -> bool:
        done: bool = getattr(self, f"_do_{step[0]}")(*step[1:])
        self.steps += done
        return done

    def _do_at(self, at: int, *step: object) -> bool:
        world = self.worlds[at]
        if world is None:
            return False
        world.attentive = self.attentive
        done = world.step(step)
        if self.session is not None and self.session[at] not in world.machines:
            self._over()
        if done:
            self._judge()
        return done

    def relay(self, at: int) -> Address | None:
        """A member that takes itself for the relay."""
        world = self.worlds[at]
        if world is None:
            return None
        return next((m for m, x in world.machines.items() if x.members and x.members[0] == m), None)

    def _do_link(self) -> bool:
        ends = (self.relay(0), self.relay(1))
        if self.session is not None or ends[0] is None or ends[1] is None:
            return False
        self.session = (ends[0], ends[1])
        for at in range(2):
            self._machine(at).link(NAMES[1 - at], True, self.world(at).now)
            self._after(at)
        return True

    def _machine(self, at: int) -> BuddyMachine:
        assert self.session is not None
        return self.world(at).machines[self.session[at]]

    def _after(self, at: int) -> None:
        world = self.world(at)
        if self.session is not None:
            world._after(self._machine(at))
        self._judge()

    def _do_wan(self, at: int) -> bool:
        """The next message from site ``at`` arrives."""
        if self.session is None or not self.wire[at]:
            return False
        message = self.wire[at].popleft()
        there = 1 - at
        self._machine(there).receive_site(NAMES[at], message, self.world(there).now)
        self._after(there)
        return True

    def _do_cut(self, arrive: int) -> bool:
        """The link is gone; the first few of what is on it arrive."""
        if self.session is None:
            return False
        for at in range(2):
            for _ in range(min(arrive, len(self.wire[at]))):
                self._do_wan(at)
        self._over()
        return True

    def _over(self) -> None:
        assert self.session is not None
        session, self.session = self.session, None
        for queue in self.wire:
            queue.clear()
        for at, world in self.both:
            machine = world.machines.get(session[at])
            if machine is not None:
                machine.link(NAMES[1 - at], False, world.now)
                world._after(machine)

    def _do_promote(self, at: int) -> bool:
        relay = self.relay(at)
        if relay is None:
            return False
        world = self.world(at)
        machine = world.machines[relay]
        machine.promote(world.now)
        world._after(machine)
        return True

    def _do_bootstrap(self, at: int) -> bool:
        """Site ``at`` sends everything to the other one."""
        relay = self.relay(at)
        if relay is None:
            return False
        world = self.world(at)
        machine = world.machines[relay]
        machine.bootstrap(NAMES[1 - at], world.now)
        world._after(machine)
        return True

    def _do_lose(self) -> bool:
        """The whole first site is gone; what it says is missing is kept."""
        world = self.worlds[0]
        if world is None or self.worlds[1] is None:
            return False
        world.oracle.resolve()
        for machine in world.machines.values():
            kept = machine.backups.of.items()
            copies = [machine.own, *(b.nodes for o, b in kept if o not in world.machines)]
            for nodes in copies:
                for path, node in nodes.items():
                    if node.unsent:
                        history = world.oracle.history[(path, node.stamp)]
                        held = self.held[1].get(path)
                        known = EMPTY if held is None else world.oracle.history[(path, held)]
                        self.missing[path] = self.missing.get(path, EMPTY) | (history - known)
        self.worlds[0] = None
        if self.session is not None:
            self._over()
        other = self.world(1).oracle
        for path, purged in world.oracle.purged.items():
            other.purged[path] = other.purged.get(path, EMPTY) | purged
        for path, acked in world.oracle.acked.items():
            other.acked[path] = other.acked.get(path, EMPTY) | acked
            lost = self.missing.get(path, EMPTY)
            other.listed[path] = other.listed.get(path, EMPTY) | lost
        other.merges, other.values = world.oracle.values or world.oracle.merges, False
        return True

    def _do_begin(self) -> bool:
        """The first site is built anew, empty."""
        if self.worlds[0] is not None:
            return False
        self.worlds[0] = world = self._make(0, FIRST[0] + 20)
        world.oracle = self.world(1).oracle
        self.held[0].clear()
        self.fresh = True
        self._seen = len(self.world(1).events)
        return True

    # --- the link

    def _out(self, at: int, me: Address, message: AnySiteMessage) -> None:
        if self.session is None or self.session[at] != me:
            return
        if isinstance(message, SiteEvent):
            for sent in message.changes:
                self.events[(at, message.origin, message.n, sent.path)] = sent.stamp
        elif isinstance(message, EventAck):
            held = self.held[at]
            for path in message.paths:
                stamp = self.events[(1 - at, message.origin, message.n, path)]
                held[path] = max(held.get(path, stamp), stamp)
        self.wire[at].append(message)

    # --- I8

    def _judge(self) -> None:
        if self.fresh:
            events = self.world(1).events[self._seen :]
            self.fresh = not any(event.kind == "bootstrap_complete" for _, event in events)
        for at, world in self.both:
            for machine in world.machines.values():
                if "S" in machine.sites.out_of_sync or "N" in machine.sites.out_of_sync:
                    self.overflowed[at] = True
                if not machine.frozen and machine.own:
                    self._judge_owner(at, machine)

    def _judge_owner(self, at: int, machine: BuddyMachine) -> None:
        other = NAMES[1 - at]
        for path, node in machine.own.items():
            if node.to is not None:
                continue
            acknowledged = self.held[at].get(path)
            if acknowledged is not None and node.stamp < acknowledged:
                raise Violation("I8", f"{path} at {machine.me!r} is older than was acknowledged")
            if node.came == other or any(site == other for site, _ in node.unsent):
                continue
            there = self.held[1 - at].get(path)
            if there is not None and there >= node.stamp:
                continue
            if not (node.removed and self.overflowed[at]) and not (self.fresh and at == 1):
                raise Violation("I8", f"{path} at {machine.me!r} is not unsent, and not held there")

    # --- rest

    def quiet(self) -> bool:
        """Is nothing left but time?"""
        return not any(self.wire) and not any(
            world.channels
            or any(world.views.values())
            or any(x.buddies.pushing for x in world.machines.values())
            for _, world in self.both
        )

    @property
    def finished(self) -> bool:
        """Is nothing left to be told to the other site?"""
        machines = [m for _, world in self.both for m in world.machines.values()]
        return all(
            m.sites.idle
            and (
                len(self.both) < 2
                or (
                    not m.sites.walks
                    and not m.sites.out_of_sync
                    and not any(m.sites.missing(name) for name in NAMES)
                )
            )
            for m in machines
        )

    def at_rest(self) -> None:
        for _, world in self.both:
            world.at_rest()
        if len(self.both) < 2:
            return
        if not self.finished:
            raise Violation("end", "something is unsent for ever")
        here, there = (self._nodes(at) for at in range(2))
        for path in here | there:
            if here.get(path) != there.get(path):
                raise Violation(
                    "sites", f"{path} is {here.get(path)} in N and {there.get(path)} in S"
                )

    def _nodes(self, at: int) -> dict[Path, tuple[Stamp, object]]:
        return {
            path: (node.stamp, node.value)
            for machine in self.world(at).machines.values()
            for path, node in machine.own.items()
            if not node.removed
        }
