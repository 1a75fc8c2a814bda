"""A network in memory with faults, for drills on trio: latency, loss, cuts, silence.

Datagrams are delayed, lost, doubled and reordered. Connections are delayed and keep their order; bytes held up by a cut
arrive after it. A driver can vanish (nothing comes or goes), be killed (its connections are reset) and be paused
(arrivals wait, timers stand still).
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import trio

from jgroups_py.drill.file.plan import FaultFigures
from jgroups_py.drill.run.port_faults import REORDER_SECONDS, RESEND_SECONDS
from jgroups_py.driver.memory import MemoryDriver, MemoryNetwork
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import (
    Close,
    Closed,
    Connect,
    ConnectFailed,
    Datagram,
    Handle,
    In,
    Out,
)

Link = Callable[["FaultyDriver", "FaultyDriver"], FaultFigures]
QUEUE_MAX = 1_000_000
"""The most items on their way, of all members. More are dropped, as by a full queue of a network."""


class FaultyNetwork(MemoryNetwork):
    """``link``: returns the figures between two drivers. Run ``carry`` beside the members."""

    def __init__(self, chance: random.Random, link: Link) -> None:
        super().__init__()
        self._chance = chance
        self._link = link
        self._heap: list[tuple[float, int, FaultyDriver, In]] = []
        self._count = itertools.count()
        self._wake = trio.Event()
        self._streams: dict[tuple[FaultyDriver, FaultyDriver], float] = {}
        self._held: list[tuple[FaultyDriver, FaultyDriver, In]] = []
        """Items held up by cuts."""
        self.cut: Callable[[FaultyDriver, FaultyDriver], bool] = lambda a, b: False
        self.sender: FaultyDriver | None = None
        """The driver that sends now."""

    def of(self, who: Any, prepare: Callable[[Machine], None]) -> MemberNetwork:
        """Return the network of one member."""
        return MemberNetwork(self, who, prepare)

    def carry_item(self, src: FaultyDriver, dst: FaultyDriver, item: In) -> None:
        """Send an item on its way, or lose it."""
        if src.silent or dst.silent or len(self._heap) >= QUEUE_MAX:
            return
        figures, chance, now = self._link(src, dst), self._chance, trio.current_time()
        delay = (figures.latency or 0.0) + chance.random() * figures.jitter
        lost = chance.random() < figures.loss
        if isinstance(item, Datagram):
            if lost or self.cut(src, dst):
                return
            if chance.random() < figures.reorder:
                delay += chance.random() * REORDER_SECONDS
            self._push(now + delay, dst, item)
            if chance.random() < figures.duplicate:
                self._push(now + delay + chance.random() * REORDER_SECONDS, dst, item)
        elif self.cut(src, dst):
            self._held.append((src, dst, item))
        else:
            # An item never overtakes an earlier one between these two.
            at = now + delay + (RESEND_SECONDS if lost else 0.0)
            at = self._streams[src, dst] = max(at, self._streams.get((src, dst), 0.0))
            self._push(at, dst, item)

    def later(self, seconds: float, dst: FaultyDriver, item: In) -> None:
        """Deliver a host's packet to itself."""
        self._push(trio.current_time() + seconds, dst, item)

    def healed(self) -> None:
        """Send on the items held up by a cut that is healed."""
        held, self._held = self._held, []
        for src, dst, item in held:
            self.carry_item(src, dst, item)

    def _push(self, at: float, dst: FaultyDriver, item: In) -> None:
        heapq.heappush(self._heap, (at, next(self._count), dst, item))
        self._wake.set()

    async def carry(self) -> None:
        """Deliver for ever."""
        heap = self._heap
        while True:
            while heap and heap[0][0] <= trio.current_time():
                _, _, dst, item = heapq.heappop(heap)
                dst.arrived(item)
            self._wake = trio.Event()
            if heap:
                with trio.move_on_at(heap[0][0]):
                    await self._wake.wait()
            else:
                await self._wake.wait()


class MemberNetwork:
    """A ``Transport``. ``prepare`` is called with each machine before it starts."""

    in_memory = True

    def __init__(
        self, network: FaultyNetwork, who: Any, prepare: Callable[[Machine], None]
    ) -> None:
        self._network = network
        self._who = who
        self._prepare = prepare
        self.drivers: list[FaultyDriver] = []

    def driver(self, machine: Machine) -> FaultyDriver:
        self._prepare(machine)
        driver = FaultyDriver(self._network, machine)
        driver.who = self._who
        self.drivers.append(driver)
        return driver


class FaultyDriver(MemoryDriver):
    """A member's driver. ``silent``: it vanished or was killed."""

    network: FaultyNetwork

    def __init__(self, network: FaultyNetwork, machine: Machine) -> None:
        super().__init__(network, machine)
        self.who: Any = None
        self.silent = False
        self._paused = False
        self._waiting: list[In] = []
        self._unanswered: dict[Handle, None] = {}

    # --- called by the network

    def receive(self, item: In) -> None:
        sender = self.network.sender
        if sender is self or sender is None:
            self.arrived(item)
        else:
            self.network.carry_item(sender, self, item)

    def arrived(self, item: In) -> None:
        if isinstance(item, ConnectFailed) and not item.refused:
            if item.handle not in self._unanswered:
                return
            del self._unanswered[item.handle]
        if self._paused:
            self._waiting.append(item)
        elif not self.silent:
            super().receive(item)

    def execute(self, outs: Sequence[Out]) -> None:
        before, self.network.sender = self.network.sender, self
        try:
            if self.silent:
                # a member's own end reaches no other member
                return
            super().execute([out for out in outs if not self._in_vain(out)])
        finally:
            self.network.sender = before

    def _in_vain(self, out: Out) -> bool:
        """Handle a connection to a silent member: it is neither made nor refused, until it is given up."""
        if isinstance(out, Close):
            self._unanswered.pop(out.handle, None)
        if not isinstance(out, Connect) or not self._silence(out):
            return False
        self._unanswered[out.handle] = None
        problem = f"no answer within {out.timeout:g} s"
        self.network.later(out.timeout, self, ConnectFailed(out.handle, False, problem))
        return True

    def _silence(self, out: Connect) -> bool:
        target = self.network.listeners.get(out.dest)
        if target is None:
            return False
        other = target[0]
        assert isinstance(other, FaultyDriver)
        return other.silent or (other is not self and self.network.cut(self, other))

    # --- called by drills

    def vanish(self) -> None:
        """Vanish: send no packet and no close from now on."""
        self.silent = True

    def kill(self) -> None:
        """Die as by ``kill -9``: connections are reset, ports refuse."""
        network = self.network
        for (driver, _), peer in list(network.peers.items()):
            if driver is self and peer[0] is not self and isinstance(peer[0], FaultyDriver):
                network.carry_item(self, peer[0], Closed(peer[1], True))
        self.silent = True
        self.unbind()
        for ours in [place for place in network.peers if place[0] is self]:
            theirs = network.peers.pop(ours)
            network.peers.pop(theirs, None)
        self.local.clear()

    def unbind(self) -> None:
        """Free the addresses: it is dead, or another process starts on its host."""
        network = self.network
        for table in (network.udp, network.listeners):
            for endpoint in [e for e, place in table.items() if place[0] is self]:
                del table[endpoint]
        for group in network.groups.values():
            for place in [place for place in group if place[0] is self]:
                del group[place]

    def close_all(self) -> None:
        if not self.silent:
            before, self.network.sender = self.network.sender, self
            try:
                super().close_all()
            finally:
                self.network.sender = before

    # --- pausing

    def pause(self) -> None:
        """Stop all tasks of this host until ``resume``."""
        self._paused = True

    def resume(self) -> None:
        """Go on with the items that came meanwhile."""
        if self._paused:
            self._paused = False
            waiting, self._waiting = self._waiting, []
            if self.running and not self.silent:
                self.take(waiting)

    def advance(self, now: float) -> None:
        if not self._paused:
            super().advance(now)

    def turn(self) -> None:
        if self._paused:
            self._woken = False  # ``resume`` makes the next turn
        else:
            super().turn()
