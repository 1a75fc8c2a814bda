"""The scene of one run: world, members, traffic, and applications.

An application reads, sends its loads (and waits for flow control), keeps a state with all delivered messages, and opens a new
channel after it was expelled.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from jgroups_py.stack.stack import make_protocols
from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.explorer.stacks.roles import Cast
from jgroups_py.testing.explorer.stacks.schedule import Link, Load, Schedule
from jgroups_py.testing.explorer.stacks.sealing import KEYS, SEALED_BRIDGE, sealed
from jgroups_py.testing.sim import LinkSettings, Member, World
from jgroups_py.testing.sim.world import MakeProtocols, Watcher
from jgroups_py.values.events import Expel, Failed, StateFailed, StateReceived
from jgroups_py.values.message import Flag

CLUSTER: Final = "explore"
TCP_PORT, BRIDGE_PORT = 7800, 8000  # FD_SOCK2 listens 100 ports above each
STATE_SECONDS: Final = 10.0
"""The longest time for a provider."""


def link_settings(link: Link) -> LinkSettings:
    return LinkSettings(
        link.latency, link.jitter, link.loss, link.duplicate, link.reorder, link.reorder_delay
    )


class SceneFollower(Protocol):
    """An additional activity of a scene's applications."""

    def watch(self, member: Member) -> None:
        """Note that a member was started."""

    def begin(self) -> None:
        """Note that traffic begins."""

    def end(self, site: str) -> None:
        """Note that a member of the site is about to fetch the application's state."""


class Scene:
    """See the module's docstring. ``story``: the events, for people."""

    def __init__(self, schedule: Schedule, trace: Watcher | None = None) -> None:
        self.schedule = schedule
        self.world = World(
            schedule.seed,
            inside=link_settings(schedule.inside),
            between=link_settings(schedule.between),
            trace=trace,
        )
        self.cast = Cast(self.world, {site.name: site.members for site in schedule.sites})
        self.checker = Checker()
        self.story: list[str] = []
        self.zero = 0.0
        self.ended = False
        """True when the first phase is over."""
        self.site_of = {name: site.name for site in schedule.sites for name in site.members}
        self._turns: dict[str, int] = {}
        self._fetching: dict[Member, int] = {}
        """The members that fetch a state, each with the number of its earlier events."""
        self.world.on_record.append(self._on_record)
        self.followers: list[SceneFollower] = []

    # --- telling

    def note(self, what: str, *members: Member) -> None:
        names = " ".join(f"{m.name}#{m.incarnation}" for m in members)
        self.story.append(f"{self.world.now - self.zero:8.3f} {what} {names}".rstrip())

    def at(self, when: float, action: Any, *args: Any) -> None:
        """Call ``action`` ``when`` seconds after all members were started."""
        self.world.at(self.zero + when, action, *args)

    # --- members

    def stack(self) -> str | MakeProtocols:
        """Return the protocols that members run; the kit for users puts protocols of their own here."""
        if self.schedule.sealed:
            return partial(make_protocols, self.schedule.stack, prepare=sealed)
        return self.schedule.stack

    def start(self, name: str) -> Member:
        site = self.site_of[name]
        schedule = self.schedule
        attributes = dict(schedule.attributes)
        if schedule.relays:
            attributes["RELAY.sites"] = ",".join(s.name for s in schedule.sites)
            pairs = schedule.bridge_attributes.items()
            attributes["RELAY.bridge_attributes"] = ";".join(f"{k}={v}" for k, v in pairs)
            if schedule.sealed:
                attributes["RELAY.bridge"] = SEALED_BRIDGE
        others = [n for n in self.cast.sites[site] if f"{site}/{n}" in self.world.members]
        with_state = schedule.with_state and bool(others)
        member = self.world.start(
            name,
            self.stack(),
            CLUSTER,
            site=site,
            attributes=attributes,
            properties=self._properties(site, name),
            with_state=with_state,
        )
        self.checker.watch(member)
        for follower in self.followers:
            follower.watch(member)
        if with_state:
            self.cast.asker = member
        return member

    def _properties(self, site: str, name: str) -> dict[str, str]:
        address = self.world.host_address(site, name)
        here = [self.world.host_address(site, other) for other in self.cast.sites[site]]
        everywhere = [
            self.world.host_address(place, other)
            for place, names in self.cast.sites.items()
            for other in names
        ]
        return {
            "jgroups.bind_addr": address,
            "jgroups.bind_port": str(TCP_PORT),
            "jgroups.tcpping.initial_hosts": ",".join(f"{h}[{TCP_PORT}]" for h in here),
            "seal.keys": KEYS,
            "relay.site": site,
            "relay.bridge.bind_addr": address,
            "relay.bridge.port": str(BRIDGE_PORT),
            "relay.bridge.port_range": "0",
            "relay.bridge.hosts": ",".join(f"{h}[{BRIDGE_PORT}]" for h in everywhere),
        }

    def can_act(self, member: Member) -> bool:
        """Does its application run, in a group?"""
        return (
            member.alive
            and not member.leaving
            and not member.host.paused
            and member.view is not None
        )

    def restart(self, name: str) -> Member | None:
        """Start it again, unless it is running or saying goodbye still."""
        former = self.cast.world.member(name, self.site_of[name])
        if former.host.alive and not former.host.vanished:
            return None
        member = self.start(name)
        self.note("restart", member)
        return member

    def fetch_state(self, member: Member, provider: Member | None) -> bool:
        if not self.can_act(member) or self._is_fetching(member):
            return False
        self._fetching[member] = len(member.events)
        self.cast.asker = member
        for follower in self.followers:
            follower.end(member.site)
        member.fetch_state(provider, STATE_SECONDS)
        return True

    def _on_record(self, _at: float, member: Member, what: str, _more: dict[str, Any]) -> None:
        if what in ("failed", "expel"):
            # This runs after the handler that is running.
            self.world.at(self.world.now, self._give_up, member)

    def _is_fetching(self, member: Member) -> bool:
        """Return whether the member fetches a state: it fetches one at a time, as a channel does."""
        since = self._fetching.get(member)
        if since is None:
            return False
        return not any(isinstance(e, StateReceived | StateFailed) for e in member.events[since:])

    def _give_up(self, member: Member) -> None:
        if not member.alive:
            return
        problem = next(e.problem for e in member.events if isinstance(e, Expel | Failed))
        self.note(f"is told: {problem}:", member)
        member.crash()
        if self.schedule.reopen:
            self.world.at(self.world.now + self.schedule.reopen, self._reopen, member)

    def _reopen(self, member: Member) -> None:
        core = self.cast.core
        if self.world.member(member.name, member.site) is member:
            if core is None or member.name in core:
                self.restart(member.name)

    # --- traffic

    def begin_traffic(self) -> None:
        for follower in self.followers:
            follower.begin()
        for index, load in enumerate(self.schedule.loads):
            self.at(load.start + 0.001 * index, self._load, load)

    def _load(self, load: Load) -> None:
        if self.ended or self.world.now - self.zero >= min(load.stop, self.schedule.seconds):
            return
        member = self.world.member(load.member, self.site_of[load.member])
        if self.can_act(member):
            self.act(member, load)
        self.world.at(self.world.now + load.every, self._load, load)

    def act(self, member: Member, load: Load) -> None:
        """Act as an application, at the times of its load."""
        self.send(member, load.count, load.size, load.to)

    def send(self, member: Member, count: int, size: int, to: str = "all") -> bool:
        """Send this number of messages, unless flow control makes the application wait."""
        dest: Member | None = None
        if to == "one":
            dest = self._next_dest(member)
            if dest is None:
                return False
        if self.must_wait(member, dest):
            return False
        oob = to == "oob"
        payloads = [self.checker.payload(member, size, to=dest, oob=oob) for _ in range(count)]
        self.cast.sender = member
        member.send(*payloads, to=dest, flags=int(Flag.OOB) if oob else 0)
        return True

    def must_wait(self, member: Member, dest: Member | None) -> bool:
        """Does flow control, or a full buffer, ask it to wait?"""
        address = None if dest is None else dest.address
        return any(key[1] == address for key in member.blocked)

    def _next_dest(self, member: Member) -> Member | None:
        """Return the members of its view in turn, itself included."""
        view = member.view
        if view is None:
            return None
        turn = self._turns[member.name] = self._turns.get(member.name, 0) + 1
        return self.checker.members.get(view.members[turn % len(view)])
