"""A simulated member: a host with a stack and an application that reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.sim.clock import Clock
from jgroups_py.testing.sim.host import Host
from jgroups_py.testing.sim.network import Network
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Disconnected,
    Event,
    Exclude,
    Expel,
    Failed,
    FlowBlocked,
    FlowOpened,
    GetState,
    StateFailed,
    StateReady,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.lost import Excluded, Numbers
from jgroups_py.values.message import MessageType
from jgroups_py.values.view import View

Item = View | Batch | StateRequested | StateReceived | Excluded


class TrafficObserver(Protocol):
    """An observer of an application's sends and deliveries: RELAY's oracle."""

    def sent(self, member: Member, batch: Batch) -> None: ...
    def offered(self, member: Member, item: Any) -> None: ...


class Told(Protocol):
    """The part of the world that a member and its checks need."""

    seed: str
    clock: Clock
    network: Network
    on_record: list[Callable[[float, Member, str, dict[str, Any]], None]]
    after_each_step: list[Callable[[Host], None]]

    @property
    def now(self) -> float: ...
    @property
    def oracle(self) -> TrafficObserver | None: ...
    def at(self, when: float, action: Callable[..., None], *args: Any) -> None: ...
    def name_of(self, member: Address) -> str: ...
    def record(self, member: Member, what: str, **details: Any) -> None: ...


class Member:
    """The handle that a test or a drill holds of one simulated process.

    ``on_batch``, ``on_view`` and ``on_state`` are called when the application *takes* an item; by default it takes all items at
    once. ``reading = False`` makes it a reader that never reads; ``take``
    then takes by hand.
    """

    def __init__(self, world: Told, name: str, host: Host, incarnation: int) -> None:
        self.world = world
        self.name = name
        self.host = host
        self.incarnation = incarnation
        self.stack: Stack
        self.views: list[View] = []
        self.batches: list[Batch] = []
        self.keep_batches = True
        self.events: list[Event] = []
        self.state: bytes | None = None
        self.provide_state: Callable[[], bytes | None] = lambda: None
        self.on_batch: Callable[[Member, Batch], None] | None = None
        self.on_view: Callable[[Member, View], None] | None = None
        self.on_excluded: Callable[[Member, Exclude], None] | None = None
        """Called at once, before the application takes the item."""
        self.excluded: list[Excluded] = []
        """The exclusions of this member, as a channel reports them."""
        self.numbers = Numbers()
        self.on_state: Callable[[Member, bytes | None], None] | None = None
        self.reading = True
        self.unread: list[Item] = []
        self.blocked: dict[tuple[str, Address | None], FlowBlocked] = {}
        self.leaving = False
        self.left = False

    @property
    def site(self) -> str:
        return self.host.site

    @property
    def address(self) -> UUID:
        return self.stack.address

    @property
    def alive(self) -> bool:
        return self.host.alive and not self.host.vanished and not self.left

    @property
    def view(self) -> View | None:
        """Return the application's present view."""
        return self.views[-1] if self.views else None

    @property
    def view_names(self) -> tuple[str, ...]:
        """Return the members of the view by name, coordinator first."""
        if not self.views:
            return ()
        return tuple(self.world.name_of(m) for m in self.views[-1].members)

    @property
    def payloads(self) -> list[bytes]:
        """Return all delivered payloads as bytes."""
        return [bytes(p or b"") for batch in self.batches for p in batch.payloads]

    @property
    def late_rounds(self) -> int | None:
        """Return the number of rounds in which survivors did not agree in time, as far as this member knows. None: its
        stack has no such agreement."""
        gms = self.stack.find(GMS)
        if gms is None or gms.config.agree_timeout == 0:
            return None
        return gms.agreements_timed_out + gms.holds_expired

    # --- the application acts

    def send(self, *payloads: bytes, to: Member | Address | None = None, flags: int = 0) -> None:
        """Send a run of messages. A gone member does nothing."""
        if not self.alive:
            return
        dest = to.address if isinstance(to, Member) else to
        self.send_batch(Batch(dest, payloads, {}, flags=flags))

    def send_batch(self, batch: Batch) -> None:
        if self.world.oracle is not None:
            self.world.oracle.sent(self, batch)
        batch.number = self.numbers.take(batch.dest, len(batch.payloads))
        self.act(lambda: self.stack.send(batch))

    def fetch_state(self, provider: Member | None = None, timeout: float = 10.0) -> None:
        target = None if provider is None else provider.address
        self.act(lambda: self.stack.event_down(GetState(target, timeout)))

    def leave(self) -> None:
        """Leave the group; the host ends when the group knows."""
        self.leaving = True
        self.act(self.stack.disconnect)

    def crash(self) -> None:
        self.world.record(self, "crash")
        self.host.crash()

    def vanish(self) -> None:
        self.world.record(self, "vanish")
        self.host.vanish()

    def pause(self) -> None:
        self.world.record(self, "pause")
        self.host.pause()

    def resume(self) -> None:
        self.world.record(self, "resume")
        self.host.resume()

    def slow_down(self, turn_time: float) -> None:
        """Let each turn of its loop take ``turn_time`` seconds from now on."""
        self.world.record(self, "slow", turn_time=turn_time)
        self.host.slow_down(turn_time)

    def act(self, action: Callable[[], None]) -> None:
        """Run ``action`` as one step of the machine, at its host's time."""
        self.host.machine.enter(self.host.now)
        action()
        self.host.machine.leave()
        self.host.after_step()

    # --- StackOwner

    def deliver(self, batch: Batch) -> None:
        self._offer(batch)

    def notify(self, event: Event) -> None:
        match event:
            case ViewChange(view=view):
                self.numbers.view_changed(view)
                self._offer(view)
            case Exclude():
                item = Excluded.of(event)
                self.excluded.append(item)
                self.world.record(self, "excluded", view=item.view, lost=item.lost)
                if self.on_excluded is not None:
                    self.on_excluded(self, event)
                self._offer(item)
            case StateRequested():
                self._offer(event)
            case StateReceived():
                self.events.append(event)
                self._offer(event)
            case FlowBlocked(source=source, dest=dest):
                self.blocked[source, dest] = event
            case FlowOpened(source=source, dest=dest):
                self.blocked.pop((source, dest), None)
            case Disconnected():
                self.left = True
                self.world.clock.at(self.world.clock.now, self._end)
            case Failed() | Expel() | StateFailed():
                self.events.append(event)
                self.world.record(self, type(event).__name__.lower(), problem=event.problem)
            case _:
                pass

    def _end(self) -> None:
        if self.host.alive:
            self.stack.close()
            self.host.after_step()
            self.host.shut()
            self.world.record(self, "leave")

    def _offer(self, item: Item) -> None:
        if self.world.oracle is not None:
            self.world.oracle.offered(self, item)
        self.unread.append(item)
        if self.reading and len(self.unread) == 1:
            # The item is read after the running handler, because reading is a step of its own.
            self.host.machine.soon(self._read_all)

    def _read_all(self) -> None:
        while self.reading and self.unread:
            self.take()

    def read_again(self) -> None:
        """Let a stopped reader read on."""
        self.reading = True
        self.act(self._read_all)

    def read(self, count: int = 1) -> None:
        """Let a slow reader take ``count`` items, in a step of its own."""
        self.act(lambda: self.take(count))

    def take(self, count: int = 1) -> None:
        """Take ``count`` items of the stream for the application."""
        for _ in range(min(count, len(self.unread))):
            item = self.unread.pop(0)
            match item:
                case Batch():
                    self._take_batch(item)
                case StateRequested(token=token):
                    self.stack.event_down(StateReady(token, self.provide_state()))
                case StateReceived(state=state):
                    self.state = state
                    if self.on_state is not None:
                        self.on_state(self, state)
                case Excluded():
                    pass
                case View():
                    self.views.append(item)
                    self.world.record(self, "view", view=item)
                    if self.on_view is not None:
                        self.on_view(self, item)

    def _take_batch(self, batch: Batch) -> None:
        if batch.type not in (MessageType.BYTES, MessageType.EMPTY, MessageType.NIO):
            self.stack.consumed(batch)
            return
        if self.keep_batches:
            self.batches.append(batch)
        if self.on_batch is not None:
            self.on_batch(self, batch)
        self.stack.consumed(batch)

    def statistics(self) -> dict[str, Any]:
        return {each.name: each.statistics() for each in self.stack.protocols}

    def __repr__(self) -> str:
        return f"<{self.name}#{self.incarnation} of {self.site}>"
