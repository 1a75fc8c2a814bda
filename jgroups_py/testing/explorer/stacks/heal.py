"""The second phase: a core is repaired, and all other members are broken for good. Then the core must come to rest.

In order, each within ``Healing.within`` seconds:

    healing   the core has one view at each site, which lasts to the end; all know the primary
    healing   each member of the core has all messages of the core, also those sent now
    credits   each member sends more than all credits, to all and to each; all messages arrive
    healing   nothing waits in any buffer; RELAY is at rest
    relay     no message that RELAY promises was announced as lost
    leftovers no table remembers a departed member; bounds are kept
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jgroups_py.protocols.flow.credits import FlowControl
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.testing.check.messages import UNICAST
from jgroups_py.testing.check.rest import waiting
from jgroups_py.testing.check.tables import leftovers
from jgroups_py.testing.check.violation import Violation
from jgroups_py.testing.explorer.stacks.scene import Scene
from jgroups_py.testing.sim import Member
from jgroups_py.values.view import View

LOOK_SECONDS: Final = 0.25
"""The seconds between two checks for a state."""
FLOOD_MAX: Final = 400_000
"""Credits above that are not used up: it takes too long. Schedules are drawn below."""
SETTLE_SECONDS: Final = 3.0
"""A member that was suspected before the repair may still be excluded for this long: its answer may be on its way on a
slow link."""
PIECES: Final = 4
"""The number of messages that use up all credits."""


class Healer:
    """Ends a scene. ``core``: the repaired members, by site, in the order of names."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.world = scene.world
        self.spec = scene.schedule.healing
        self.names: list[str] = []
        self.rest: list[Member] = []
        self._remembers: Member | None = None

    def run(self) -> None:
        self._repair()
        done = (
            self._reach("no common view", self._views)
            and self._settled()
            and self._reach("sites differ", self._epochs)
            and self._messages()
            and self._credits()
            and self._reach("not at rest", self._rest)
            and self._again()
        )
        if done:
            self._promises()
            self._forgets()
        self._prolong()

    # --- repair and break

    def _repair(self) -> None:
        scene, world = self.scene, self.world
        scene.ended = True
        keep: list[Member] = []
        for site in scene.cast.sites:
            living = [m for m in scene.cast.living(site) if not m.host.paused]
            living = living or scene.cast.living(site)
            count = max(1, round(self.spec.keep * len(living))) if living else 0
            turn = self.spec.turn % len(living) if living else 0
            keep += [*living[turn:], *living[:turn]][:count]
        self.names = [m.name for m in keep]
        self.rest = [m for m in scene.cast.living() if m not in keep]
        scene.cast.core = dict.fromkeys(self.names)
        scene.note("the core is repaired:", *keep)
        network = world.network
        network.restore()
        for source, dest in list(network.clogs):
            world.unclog(world.hosts[source], world.hosts[dest])
        keep += self._refill()
        self._break(keep)
        for member in keep:
            member.host.drift(1.0)
            member.resume()
            if not member.reading:
                member.read_again()
        for member in scene.cast.newest():
            if member.alive and member.leaving:
                member.resume()  # a leaving member goes on: no later step would wake it up

    def _refill(self) -> list[Member]:
        """Start the first two members of each wholly fallen site again, but not leaving ones unless all are leaving."""
        scene = self.scene
        started = []
        for site, names in scene.cast.sites.items():
            if not any(name in self.names for name in names):
                if not scene.cast.dead(site):
                    for member in scene.cast.newest(site):
                        scene.note("crash while it leaves", member)
                        member.crash()
                for member in scene.cast.dead(site)[:2]:
                    self.names.append(member.name)
                    scene.cast.core = dict.fromkeys(self.names)
                    started.append(scene.restart(member.name))
        return [m for m in started if m is not None]

    def _break(self, keep: list[Member]) -> None:
        """Break all members outside the core for good, and end earlier cuts."""
        scene, how = self.scene, self.spec.rest
        self.world.heal()
        if not self.rest:
            return
        scene.note(f"{how} for good:", *self.rest)
        for member in self.rest:
            if how in ("crash", "vanish"):
                getattr(member, how)()
            elif how == "pause":
                member.pause()
        if self.world.oracle is not None and how not in ("crash", "vanish"):
            self.world.oracle.give_up(self.rest)
        if how == "cut":
            self.world.partition(keep, self.rest)
        elif how == "mute":
            self.world.partition(self.rest, keep, one_way=True)
        elif how == "deaf":
            self.world.partition(keep, self.rest, one_way=True)

    # --- goals of healing

    def core(self, site: str = "*") -> list[Member]:
        """Return the core's members that run (all of them, unless one is being started again)."""
        return [m for m in self.scene.cast.living(site) if m.name in self.names]

    def _reach(self, what: str, problem: Callable[[], str | None], check: str = "healing") -> bool:
        """Run until ``problem`` returns None. Report the problem if that takes too long."""
        begun = self.world.now
        while (found := problem()) is not None:
            waited = self.world.now - begun
            if waited >= self.spec.within:
                self.say(check, f"{what} within {self.spec.within:g} s: {found}")
                return False
            self.world.run_for(max(LOOK_SECONDS, waited / 20))
        return True

    def say(self, check: str, detail: str) -> None:
        self.scene.checker.problems.append(Violation(check, detail, self.world.now))

    def _views(self) -> str | None:
        for site in self.scene.cast.sites:
            core = self.core(site)
            away = [n for n in self.scene.cast.sites[site] if n in self.names]
            if len(core) != len(away):
                missing = [n for n in away if n not in [m.name for m in core]]
                return f"{', '.join(missing)} of {site} not there"
            if not self.world.views_agree(core):
                return "; ".join(f"{m.name} has {' '.join(m.view_names)}" for m in core)
        return None

    def _settled(self) -> bool:
        self.world.run_for(SETTLE_SECONDS)
        return self._reach("no common view", self._views)

    def _epochs(self) -> str | None:
        """Describe a member that does not know yet that its site is primary: it keeps nothing for others."""
        found = {m.name: r.state.epoch for m in self.core() if (r := m.stack.find(RELAY))}
        if len(set(found.values())) < 2:
            return None
        return "; ".join(f"{name} lives in epoch {epoch}" for name, epoch in found.items())

    def _messages(self) -> bool:
        """Let every member send a multicast and a unicast to each."""
        total = self.scene.checker.messages.total
        least = self.scene.schedule.least_messages
        core = self.core()
        return self._say_all(max(1, -(-(least - total) // max(1, len(core)))))

    def _again(self) -> bool:
        """Check again after the losses of full buffers: now all messages arrive at all members."""
        if self._lossy:
            return self._say_all(1, near=False)
        return self._reach("messages are missing", self._missing)

    def _say_all(self, count: int, near: bool = True) -> bool:
        """Let every member send ``count`` multicasts, as soon as it may, and (``near``) a unicast to each of its site,
        and wait for them. If views change meanwhile it repeats that: a merge may skip messages of the other side."""
        said: dict[Member, list[View | None]] = {}

        def problem() -> str | None:
            core = self.core()
            views = [member.view for member in core]
            blocked = ""
            for member in core:
                if said.get(member) == views:
                    continue
                if self._say(member, 1 if member in said else count, near):
                    said[member] = views
                else:
                    blocked = f"{member.name} may not send"
            if blocked:
                return blocked
            return self._missing(near and self._lossy)

        return self._reach("messages are missing", problem)

    def _say(self, member: Member, count: int, near: bool) -> bool:
        """Send to each member without asking flow control, and to all members if flow control permits."""
        if not self.scene.send(member, count, 0):
            return False
        for other in self.core(member.site) if near else ():
            member.send(self.scene.checker.payload(member, to=other), to=other)
        return True

    @property
    def _lossy(self) -> bool:
        """May RELAY's buffers drop messages? Then the gap of a last message may have no later message that shows it."""
        attributes = self.scene.schedule.attributes
        return "RELAY.max_age" in attributes or "RELAY.overflow" in attributes

    def _missing(self, near: bool = False) -> str | None:
        """Describe the messages that a member of the core lacks of another (``near``: of one of its own site)."""
        messages = self.scene.checker.messages
        for receiver in self.core():
            for origin in self.core():
                if receiver.site != origin.site and (near or not self._relays(origin)):
                    continue
                has, sent = messages.last(receiver, origin), messages.count(origin)
                if has != sent:
                    return f"{receiver.name} has {has} of {origin.name}, which sent {sent}"
                if receiver.site != origin.site:
                    continue
                has = messages.last(receiver, origin, UNICAST)
                sent = messages.count(origin, receiver)
                if has != sent:
                    return f"{receiver.name} has {has} unicasts of {origin.name}, which sent {sent}"
        return None

    def _relays(self, origin: Member) -> bool:
        relay = origin.stack.find(RELAY)
        return relay is not None and relay.is_relaying

    def _credits(self) -> bool:
        """Send twice as many bytes as there are credits, in pieces, as fast as allowed."""
        for member in self.core():
            for protocol in member.stack.protocols:
                if not isinstance(protocol, FlowControl) or self._credit(protocol) > FLOOD_MAX:
                    continue
                size = self._credit(protocol) // PIECES
                for to in [None] if protocol.multicast else self.core(member.site):
                    payloads = [
                        self.scene.checker.payload(member, size, to=to)
                        for _ in range(2 * PIECES + 1)
                    ]
                    member.send(*payloads, to=to)
        return self._reach("credits are lost", lambda: self._missing(self._lossy), "credits")

    @staticmethod
    def _credit(protocol: FlowControl) -> int:
        return protocol.config.max_credits

    def _rest(self) -> str | None:
        for member in self.core():
            found = waiting(member.stack)
            if found is not None:
                return f"{member.name}: {found}"
        oracle = self.world.oracle
        return None if oracle is None else oracle.unrest()

    def _promises(self) -> None:
        """Check RELAY's guarantee."""
        for receiver, origin, first, last in (
            self.world.oracle.given_up() if self.world.oracle else ()
        ):
            self.say("relay", f"{receiver} was told that {first}..{last} of {origin} are lost")

    def _forgets(self) -> bool:
        """Wait for tables that forget after a time (drawn short), and check them."""
        return self._reach("members that have gone are remembered", self._leftover, "leftovers")

    def _leftover(self) -> str | None:
        core = self.core()
        # A deaf member that can send goes on announcing itself.
        here = [*core, *(self.rest if self.spec.rest == "deaf" else ())]
        # The member with the last finding comes first.
        core.sort(key=lambda m: m is not self._remembers)
        for member in core:
            found = next(leftovers(member, self.scene.checker.members, here), None)
            if found is not None:
                self._remembers = member
                return found
        return None

    def _prolong(self) -> None:
        """Prolong the run to its least length; invariants must still hold."""
        least = self.scene.schedule.least_seconds
        if self.world.now - self.scene.zero < least:
            self.world.run(self.scene.zero + least)
            views = self._views() if not self.scene.checker.problems else None
            if views is not None:
                self.say("healing", f"the common view did not last: {views}")
