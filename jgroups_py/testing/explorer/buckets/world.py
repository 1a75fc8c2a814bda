"""BucketWorld: the members of an instance as machines in virtual time. Messages between two members keep their order;
kills and cuts lose them."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable

from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import Replies
from jgroups_py.buckets.plugin import Plugin, Request
from jgroups_py.buckets.settings import InstanceSettings

Build = Callable[[BucketMachine], None]
"""Adds the components of a member."""


class BucketWorld:
    """``latency``: least and most of a message. ``detection``: least and most until the others have a view without a lost member.
    ``late``: the share of messages and views that are late, and the most additional seconds. Those behind them on the same link wait."""

    def __init__(
        self,
        settings: InstanceSettings,
        seed: int,
        *,
        latency: tuple[float, float] = (0.0005, 0.003),
        detection: tuple[float, float] = (1.0, 2.0),
        late: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.settings, self.random = settings, random.Random(seed)
        self.latency, self.detection, self.late = latency, detection, late
        # Draws of its own keep the schedules of seeds without late messages the same.
        self._chance = random.Random(f"late/{seed}")
        self._view_at: dict[str, float] = {}
        self.now = 0.0
        self.machines: dict[str, BucketMachine] = {}
        self.builds: dict[str, tuple[str, str, Build]] = {}
        self.story: list[str] = []
        self.messages = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._arrival: dict[tuple[str, str], float] = {}
        self._group: dict[str, int] = {}
        self._incarnations: dict[str, int] = {}
        self._woken: dict[str, float] = {}
        self._order: list[str] = []
        self._unaware: set[str] = set()
        self.slow: dict[tuple[str, str], float] = {}
        """Additional seconds of a message from one member to another."""

    # --- time

    def at(self, delay: float, job: Callable[[], None]) -> None:
        self._at_time(self.now + delay, job)

    def _at_time(self, when: float, job: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, job))

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass. True: ``until`` became true."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, job = heapq.heappop(self._events)
            job()
            if until is not None and until():
                return True
        self.now = end
        return until is not None and until()

    def tell(self, text: str) -> None:
        self.story.append(f"{self.now:9.3f} {text}")

    # --- members

    def start(self, name: str, build: Build, *, node: str | None = None, zone: str = "") -> str:
        """Start a member. Return its name in this life; a restart gives another member."""
        self._incarnations[name] = self._incarnations.get(name, 0) + 1
        member = f"{name}.{self._incarnations[name]}"
        self.builds[member] = (node or name, zone, build)
        machine = BucketMachine(
            member,
            self.settings,
            node=node or name,
            zone=zone,
            seed=self.random.getrandbits(32),
            now=self.now,
            wall_offset=1_000_000.0,
        )
        build(machine)
        self.machines[member] = machine
        self._group[member] = self._group.get(next(iter(self._group), ""), 0)
        self._order.append(member)
        self.tell(f"{member} starts")
        self.at(self.random.uniform(0.01, 0.05), self._views)
        return member

    def alive(self, name: str) -> str | None:
        """Return the running member of that name."""
        member = f"{name}.{self._incarnations.get(name, 0)}"
        return member if member in self.machines else None

    def kill(self, member: str) -> None:
        """Kill a member as by kill -9: messages on their way may arrive or not."""
        self.tell(f"{member} is killed")
        del self.machines[member]
        self._order.remove(member)
        self.at(self.random.uniform(*self.detection), self._views)

    def cut(self, groups: Iterable[Iterable[str]], unaware: Iterable[str] = ()) -> None:
        """Let members of different groups lose sight of each other. ``unaware``: members that get no view before the
        merged one."""
        self._unaware = set(unaware)
        for number, group in enumerate(groups):
            for member in group:
                self._group[member] = number
        self.tell(
            f"cut: {[sorted(m for m in self._order if self._group[m] == g) for g in sorted(set(self._group.values()))]}"
        )
        self.at(self.random.uniform(*self.detection), self._views)
        self.at(self.detection[1], self._views)

    def heal(self, within: tuple[float, float] | None = None) -> None:
        """Let all see each other again. The merged view comes ``within`` these seconds, the least and the most."""
        self.tell("the cut is healed")
        self._group = dict.fromkeys(self._group, 0)
        self._unaware = set()
        delay = self.random.uniform(*(within or self.detection))
        self.at(delay, lambda: self._views(merged=True))

    def _views(self, merged: bool = False) -> None:
        """Give each member the view of its side, each at its own moment."""
        for member in list(self._order):
            view = tuple(m for m in self._order if self._group[m] == self._group[member])
            at = self.now + self.random.uniform(0, 0.02) + self._tail()
            if self.late[0]:  # a member gets its views in order
                at = self._view_at[member] = max(at, self._view_at.get(member, 0.0))
            self._at_time(
                at,
                lambda m=member, v=view: self._view(m, v, merged),  # type: ignore[misc]
            )

    def _view(self, member: str, view: tuple[str, ...], merged: bool) -> None:
        machine = self.machines.get(member)
        if machine is None or member not in view or (member in self._unaware and not merged):
            return
        if machine.members != view or merged:
            machine.advance(self.now)
            machine.on_view(view, merged=merged)
            self.flush(member)

    # --- messages

    def flush(self, member: str) -> None:
        """Send the member's output, and wake the member at its next time."""
        machine = self.machines.get(member)
        if machine is None:
            return
        for to, data in machine.take():
            for other in [to] if to is not None else [m for m in machine.members if m != member]:
                self._send(member, other, data)
        due = machine.next_due
        if due is not None and due < self._woken.get(member, float("inf")):
            self._woken[member] = due
            self.at(max(0.0, due - self.now), lambda: self._wake(member))

    def _wake(self, member: str) -> None:
        self._woken.pop(member, None)
        machine = self.machines.get(member)
        if machine is not None:
            machine.advance(self.now)
            self.flush(member)

    def _send(self, frm: str, to: str, data: bytes) -> None:
        latency = self.random.uniform(*self.latency) + self.slow.get((frm, to), 0.0) + self._tail()
        arrival = max(self.now + latency, self._arrival.get((frm, to), 0.0))
        self._arrival[frm, to] = arrival
        # As a time, not as a delay: rounding would change the order of two messages that arrive at once.
        self._at_time(arrival, lambda: self._arrive(frm, to, data))

    def _tail(self) -> float:
        share, most = self.late
        return self._chance.uniform(0.0, most) if share and self._chance.random() < share else 0.0

    def _arrive(self, frm: str, to: str, data: bytes) -> None:
        machine = self.machines.get(to)
        if machine is None or self._group.get(frm) != self._group.get(to):
            return
        if frm not in self.machines and self.random.random() < 0.3:
            return
        self.messages += 1
        machine.advance(self.now)
        machine.receive(frm, data)
        self.flush(to)

    # --- clients

    def request(
        self, member: str, request: Request, answered: Callable[[Replies | BucketError], None]
    ) -> None:
        """Ask as a client of this member's first router and first proxy manager."""
        machine = self.machines[member]
        machine.advance(self.now)
        router = next(iter(machine.routers.values()))
        proxies = next(iter(machine.proxies.values()), None)
        proxy = None
        if proxies is not None:
            proxy = proxies.get_proxy_id("client") or proxies.create_proxy("client", lambda _: None)
        router.route_a_request(request, proxy, answered)
        self.flush(member)


def full_member(
    plugin: Plugin, name: str, settings: InstanceSettings, placement: dict[int, tuple[str, str]]
) -> Build:
    """Return the builder of a member with a manager ``m/NAME``, and, where the static set has ``i/NAME``, an index copy
    and a router; and proxies."""

    def build(machine: BucketMachine) -> None:
        machine.add_manager(f"m/{name}", plugin)
        if f"i/{name}" in settings.index_copies:
            index = machine.add_index(f"i/{name}", placement)
            machine.add_router(f"r/{name}", plugin, index)
        machine.add_proxies(f"p/{name}")

    return build
