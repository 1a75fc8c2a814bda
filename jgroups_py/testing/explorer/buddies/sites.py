"""Two sites of machines, or three, with links between their relays, for the explorer.

A step of one site is ``("at", site, ...)``. A link is a session between two members, with a queue each way. All but the
first few messages in it are lost when it is cut or when one of the two dies.
"""

from __future__ import annotations

from collections import deque
from itertools import combinations
from typing import Final

from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.site_messages import AnySiteMessage, EventAck, SiteEvent, Walk
from jgroups_py.buddy.values import Path, Stamp
from jgroups_py.testing.check.violation import Violated
from jgroups_py.testing.explorer.buddies.oracle import EMPTY
from jgroups_py.testing.explorer.buddies.world import BuddyWorld, Step, WorldSetting
from jgroups_py.values.address import Address

NAMES: Final = ("N", "S", "L")
FIRST: Final = (0, 50, 75)
"""Numbers of the members' names."""
ROUNDS_MAX: Final = 60
"""Ticks after which sites should have come to rest."""
Pair = tuple[int, int]
_BOOTSTRAP: Final = Walk(NAMES[0], "bootstrap")


class WorldSites:
    """``worlds``: the sites. ``sessions``: by pair, the lower one first, the two relays that are linked;
    ``wires``: messages on the way, by sender and receiver."""

    def __init__(self, setting: WorldSetting) -> None:
        assert setting.other is not None
        self.setting = setting
        self.settings = [setting, setting.other]
        if setting.other.other is not None:
            self.settings.append(setting.other.other)
        self.names = NAMES[: len(self.settings)]
        numbers = range(len(self.settings))
        self.steps = 0
        self.attentive = False
        self.sessions: dict[Pair, tuple[Address, Address]] = {}
        self.wires: dict[Pair, deque[AnySiteMessage]] = {
            (a, b): deque() for a in numbers for b in numbers if a != b
        }
        self.events: dict[tuple[int, int, Address, int, Path], Stamp] = {}
        """By site, other site, origin, number and path: the subject of an event that left the site."""
        self.held: tuple[dict[Path, Stamp], ...] = tuple({} for _ in numbers)
        """For each site, the newest stamps that it has acknowledged to another site."""
        self.overflowed = [False for _ in numbers]
        """True if removals of a site were dropped for another site."""
        self.fresh: dict[int, bool] = {}
        """The first site was built again and does not have all nodes of these sites yet. True: all members there
        have known that they are to send it."""
        self._seen: dict[int, int] = {}
        self._begun = 0
        self.leaderless = False
        """True if a site was lost, and none of several others was promoted yet."""
        self.missing: dict[Path, frozenset[int]] = {}
        """Events that a lost site reported as not passed on."""
        self.worlds: list[BuddyWorld | None] = []
        for at in numbers:
            self.worlds.append(self._make(at, FIRST[at]))
        first = self.world(0).oracle
        for at in numbers[1:]:
            oracle = self.world(at).oracle
            oracle.history, oracle.listed = first.history, first.listed
            oracle.follows = True

    def _make(self, at: int, first: int) -> BuddyWorld:
        others = tuple(name for name in self.names if name != NAMES[at])
        world = BuddyWorld(self.settings[at], others, first)
        world.site_out = lambda me, site, message: self._out(at, me, site, message)
        return world

    def world(self, at: int) -> BuddyWorld:
        world = self.worlds[at]
        assert world is not None, f"site {NAMES[at]} is lost"
        return world

    @property
    def both(self) -> list[tuple[int, BuddyWorld]]:
        """The present sites."""
        return [(at, world) for at, world in enumerate(self.worlds) if world is not None]

    @property
    def pairs(self) -> list[Pair]:
        """The members of present sites."""
        return list(combinations([at for at, _ in self.both], 2))

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
        for pair, ends in list(self.sessions.items()):
            if at in pair and ends[pair.index(at)] not in world.machines:
                self._over(pair)
        if done:
            self._judge()
        return done

    def relay(self, at: int) -> Address | None:
        """Return a member that takes itself for the relay."""
        world = self.worlds[at]
        if world is None:
            return None
        return next((m for m, x in world.machines.items() if x.members and x.members[0] == m), None)

    def _do_link(self, a: int = 0, b: int = 1) -> bool:
        ends = (self.relay(a), self.relay(b))
        if (a, b) in self.sessions or ends[0] is None or ends[1] is None:
            return False
        self.sessions[a, b] = (ends[0], ends[1])
        for at, other in ((a, b), (b, a)):
            machine = self._machine(at, other)
            machine.link(NAMES[other], True, self.world(at).now)
            self._after(at, machine)
        return True

    def _machine(self, at: int, other: int) -> BuddyMachine:
        """Return the machine at site ``at`` that has the link to ``other``."""
        pair = (min(at, other), max(at, other))
        return self.world(at).machines[self.sessions[pair][pair.index(at)]]

    def _after(self, at: int, machine: BuddyMachine) -> None:
        self.world(at)._after(machine)
        self._judge()

    def _do_wan(self, at: int, to: int | None = None) -> bool:
        """Let the next message from site ``at`` arrive at ``to``."""
        there = 1 - at if to is None else to
        if not self.wires[at, there]:
            return False
        message = self.wires[at, there].popleft()
        machine = self._machine(there, at)
        machine.receive_site(NAMES[at], message, self.world(there).now)
        self._after(there, machine)
        return True

    def _do_cut(self, arrive: int, a: int = 0, b: int = 1) -> bool:
        """Remove the link; the first few messages on it arrive."""
        if (a, b) not in self.sessions:
            return False
        for at, to in ((a, b), (b, a)):
            for _ in range(min(arrive, len(self.wires[at, to]))):
                self._do_wan(at, to)
        self._over((a, b))
        return True

    def _over(self, pair: Pair) -> None:
        (a, b), ends = pair, self.sessions.pop(pair)
        for at, other, relay in ((a, b, ends[0]), (b, a, ends[1])):
            self.wires[at, other].clear()
            world = self.worlds[at]
            machine = None if world is None else world.machines.get(relay)
            if world is not None and machine is not None:
                machine.link(NAMES[other], False, world.now)
                world._after(machine)

    def _do_promote(self, at: int) -> bool:
        relay = self.relay(at)
        if relay is None:
            return False
        world = self.world(at)
        machine = world.machines[relay]
        machine.promote(world.now)
        world._after(machine)
        self.leaderless = False
        return True

    def _do_bootstrap(self, at: int, to: int | None = None) -> bool:
        """Let site ``at`` send all nodes to another site. The relay is asked, or any member if the relay has crashed."""
        world = self.worlds[at]
        if world is None:
            return False
        relay = self.relay(at)
        asked = relay or next((m for m, x in world.machines.items() if x.members), None)
        if asked is None:
            return False
        machine = world.machines[asked]
        machine.bootstrap(NAMES[1 - at if to is None else to], world.now)
        world._after(machine)
        return True

    def _do_lose(self) -> bool:
        """Lose the whole first site. Keep the events that it reports as missing."""
        world = self.worlds[0]
        if world is None or len(self.both) < len(self.worlds):
            return False
        world.oracle.resolve()
        for machine in world.machines.values():
            kept = machine.backups.of.items()
            copies = [machine.own, *(b.nodes for o, b in kept if o not in world.machines)]
            for nodes in copies:
                for path, node in nodes.items():
                    if node.unsent:
                        history = world.oracle.history[(path, node.stamp)]
                        known = self._known(path)
                        self.missing[path] = self.missing.get(path, EMPTY) | (history - known)
        self.worlds[0] = None
        self.fresh.clear()
        self.leaderless = len(self.worlds) > 2
        for pair in [pair for pair in self.sessions if 0 in pair]:
            self._over(pair)
        for _, survivor in self.both:
            other = survivor.oracle
            for path, purged in world.oracle.purged.items():
                other.purged[path] = other.purged.get(path, EMPTY) | purged
            for path, acked in world.oracle.acked.items():
                other.acked[path] = other.acked.get(path, EMPTY) | acked
                lost = self.missing.get(path, EMPTY)
                other.listed[path] = other.listed.get(path, EMPTY) | lost
            other.merges, other.values = world.oracle.values or world.oracle.merges, False
        return True

    def _known(self, path: Path) -> frozenset[int]:
        """Return the nodes that the others have acknowledged."""
        known = EMPTY
        for at, world in self.both[1:]:
            held = self.held[at].get(path)
            known |= EMPTY if held is None else world.oracle.history[(path, held)]
        return known

    def _do_begin(self) -> bool:
        """Build the first site anew, empty."""
        if self.worlds[0] is not None:
            return False
        self._begun += 1
        self.worlds[0] = world = self._make(
            0, FIRST[0] + (20 if self._begun == 1 else 100 * self._begun)
        )
        world.oracle = self.world(1).oracle
        self.held[0].clear()
        for at, other in self.both[1:]:
            self.fresh[at] = False
            self._seen[at] = len(other.events)
        return True

    # --- the link

    def _out(self, at: int, me: Address, site: str, message: AnySiteMessage) -> None:
        to = NAMES.index(site)
        pair = (min(at, to), max(at, to))
        if pair not in self.sessions or self.sessions[pair][pair.index(at)] != me:
            return
        if isinstance(message, SiteEvent):
            for sent in message.changes:
                self.events[(at, to, message.origin, message.n, sent.path)] = sent.stamp
        elif isinstance(message, EventAck):
            held = self.held[at]
            for path in message.paths:
                stamp = self.events[(to, at, message.origin, message.n, path)]
                held[path] = max(held.get(path, stamp), stamp)
        self.wires[at, to].append(message)

    # --- I8

    def _judge(self) -> None:
        for at in list(self.fresh):
            events = self.world(at).events[self._seen[at] :]
            if any(e.kind == "bootstrap_complete" and e.detail == NAMES[0] for _, e in events):
                del self.fresh[at]
            elif all(_BOOTSTRAP in m.known.walks for m in self.world(at).machines.values()):
                self.fresh[at] = True  # from now on the event must not be forgotten
        for at, world in self.both:
            for machine in world.machines.values():
                if machine.known.out_of_sync:
                    self.overflowed[at] = True
                if not machine.membership.frozen and machine.own:
                    self._judge_owner(at, machine)

    def _judge_owner(self, at: int, machine: BuddyMachine) -> None:
        others = [number for number, _ in self.both if number != at]
        for path, node in machine.own.items():
            if node.to is not None:
                continue
            acknowledged = self.held[at].get(path)
            if acknowledged is not None and node.stamp < acknowledged:
                raise Violated("I8", f"{path} at {machine.me!r} is older than was acknowledged")
            for other in others:
                if node.came or any(site == NAMES[other] for site, _ in node.unsent):
                    continue  # the other site is responsible for a value of its own
                there = self.held[other].get(path)
                if there is not None and there >= node.stamp:
                    continue
                fresh = other == 0 and at in self.fresh
                if not (node.removed and self.overflowed[at]) and not fresh:
                    name = NAMES[other]
                    raise Violated(
                        "I8", f"{path} at {machine.me!r} is not unsent, and not held at {name}"
                    )

    # --- rest

    def quiet(self) -> bool:
        """Return whether only time can bring a change."""
        return not any(self.wires.values()) and not any(
            world.channels
            or any(world.views.values())
            or any(x.buddies.pushing for x in world.machines.values())
            for _, world in self.both
        )

    @property
    def unasked(self) -> list[int]:
        """Return sites where no member knows of the bootstrap of the first one: no member had a view when it was
        ordered, or the member that got the order died. The member that builds a site anew sees that, and asks again."""
        return [
            at
            for at, known in self.fresh.items()
            if not known
            and not any(
                _BOOTSTRAP in m.known.walks or any(ask.site == NAMES[0] for ask in m.sites.wanted)
                for m in self.world(at).machines.values()
            )
        ]

    @property
    def finished(self) -> bool:
        """Return whether no event is left for the other present sites."""
        there = [NAMES[at] for at, _ in self.both]
        machines = [m for _, world in self.both for m in world.machines.values()]
        return not self.fresh and all(
            m.events.idle
            and not any(walk.site in there for walk in m.known.walks)
            and not any(site in there for site in m.known.out_of_sync)
            and not any(m.missing(name) for name in there)
            for m in machines
        )

    def at_rest(self) -> None:
        for at, world in self.both:
            if len(self.worlds) > 2 and (self._begun or self.worlds[0] is None):
                self._removed_elsewhere(at)
            world.at_rest()
        if len(self.both) < 2:
            return
        if not self.finished:
            raise Violated("end", "something is unsent for ever")
        (first, _), *others = self.both
        here = self._nodes(first)
        for at, _ in others:
            there = self._nodes(at)
            for path in here | there:
                if here.get(path) != there.get(path):
                    one, other = NAMES[first], NAMES[at]
                    raise Violated(
                        "sites",
                        f"{path} is {here.get(path)} in {one} and {there.get(path)} in {other}",
                    )

    def _removed_elsewhere(self, at: int) -> None:
        """Count nodes that are removed elsewhere and missing here as removed here. Sites that repair each other after a
        loss do not report them."""
        world = self.world(at)
        here = {path for machine in world.machines.values() for path in machine.own}
        for _, other in self.both:
            for machine in other.machines.values():
                for path, node in machine.own.items():
                    if node.removed and path not in here:
                        world.oracle.was_purged(path, node.stamp)

    def _nodes(self, at: int) -> dict[Path, tuple[Stamp, object]]:
        return {
            path: (node.stamp, node.value)
            for machine in self.world(at).machines.values()
            for path, node in machine.own.items()
            if not node.removed
        }
