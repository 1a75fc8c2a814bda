"""A stack: protocols on top of each other, synchronous and deterministic.

The owner (a channel, the simulator, or a protocol with a child stack) connects it, sends batches
down and is handed batches and events at the top, in one order.

Layers that do not override a handler are skipped when the stack is linked, so a batch costs one
call per layer that looks at it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from jgroups_py.config.settings import StackConfig, build, load_stack, with_attributes
from jgroups_py.errors import ConfigError
from jgroups_py.stack.doors import Door, Doorway
from jgroups_py.stack.inspection import counters_of
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Close, Handle
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.sides import StackOwner
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Connect, Consumed, Disconnect, Event, Query
from jgroups_py.values.native import attributes

P = TypeVar("P")


class Stack:
    """Protocols, bottom first, of one member in one cluster.

    ``properties`` are the values that replaced ``${name}`` in its file; child stacks inherit them.
    ``names`` maps addresses to logical names (filled by discovery). ``ports`` are the handles its
    protocols opened; closing the stack closes them. ``doorway``: where its door stands, if it has one (doors.py).
    """

    def __init__(
        self,
        machine: Machine,
        protocols: Sequence[Protocol],
        owner: StackOwner,
        *,
        name: str | None = None,
        address: UUID | None = None,
        parent: Stack | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        if not protocols:
            raise ConfigError("a stack needs at least one protocol")
        self.machine = machine
        self.owner = owner
        self.parent = parent
        self.children: list[Stack] = []
        self.properties = dict(properties or {})
        self.name = name or machine.name
        self.address = UUID.make(machine.random) if address is None else address
        self.cluster = ""
        self.names: dict[Address, str] = {self.address: self.name}
        self.ports: dict[Handle, Protocol] = {}
        self.doorway: Doorway | None = None
        self.closed = False
        self.protocols = list(protocols)
        self.checks = [p.check for p in self.protocols if type(p).check is not Protocol.check]
        self._link()
        machine.stacks.append(self)
        if parent is not None:
            parent.children.append(self)
        for protocol in self.protocols:
            protocol.start()

    def _link(self) -> None:
        for protocol in self.protocols:
            protocol.stack = self
            protocol.machine = self.machine
            protocol.log = StackLog(logging.getLogger(f"jgroups_py.{protocol.name}"), self)
        for index, protocol in enumerate(self.protocols):
            above = self.protocols[index + 1 :]
            below = self.protocols[index - 1 :: -1] if index else []
            protocol.pass_up = _first(above, "up", self._deliver)
            protocol.pass_down = _first(below, "down", _fell_through)
            protocol.pass_event_up = _first(above, "event_up", self._notify)
            protocol.pass_event_down = _first(below, "event_down", _ignored)
        downwards = self.protocols[::-1]
        self._send = _first(downwards, "down", _fell_through)
        self._event_down = _first(downwards, "event_down", _ignored)
        self.machine.linked(self)

    def install(self, door: Door) -> None:
        """Set the door of this stack (doors.py). A protocol calls this in its ``start``."""
        if self.doorway is not None:
            raise ConfigError(
                f"a stack has one door, and this one has two: {self.doorway.door.name} and {door.name}"
            )
        assert not self.ports, "a door is installed before any port is open"
        self.doorway = Doorway(self.machine, self, door)

    def _deliver(self, batch: Batch) -> None:
        self.owner.deliver(batch)

    def _notify(self, event: Event) -> None:
        self.owner.notify(event)

    # --- calls of the owner; each is one step of the machine

    def connect(self, cluster: str, *, with_state: bool = False) -> None:
        """Start joining ``cluster``. The first ViewChange reports success."""
        self.cluster = cluster
        self.event_down(Connect(cluster, with_state))

    def disconnect(self) -> None:
        """Start leaving. Disconnected reports the end. Then call ``close``."""
        self.event_down(Disconnect())

    def close(self) -> None:
        """Stop at once, without a message to the group, and close sockets and child stacks."""
        if self.closed:
            return
        self.closed = True
        self.machine.enter()
        for child in list(self.children):
            child.close()
        for protocol in reversed(self.protocols):
            protocol.stop()
        self.machine.leave()
        self.machine.take_flushes()
        doorway = self.doorway
        for handle in list(self.ports):
            self.machine.unroute(handle)
            if doorway is None:
                self.machine.put(Close(handle))
            else:
                doorway.put(Close(handle))
        self.ports.clear()
        for handle in () if doorway is None else doorway.close_held():
            self.machine.unroute(handle)
            self.machine.put(Close(handle, True))
        self.machine.drop_timers(self)
        self.machine.stacks.remove(self)
        if self.parent is not None:
            self.parent.children.remove(self)

    def send(self, batch: Batch) -> None:
        """Send a run, and set its ``src``."""
        if batch.src is None:
            batch.src = self.address
        self.machine.enter()
        self._send(batch)
        self.machine.leave()

    def event_down(self, event: Event) -> None:
        """Hand an event to the top protocol."""
        self.machine.enter()
        self._event_down(event)
        self.machine.leave()

    def consumed(self, batch: Batch) -> None:
        """Give the credits of ``batch`` back to the sender: the owner has taken it."""
        if batch.credits:
            self.event_down(Consumed(batch.credits))

    # --- looking

    def find(self, cls: type[P]) -> P | None:
        """Return the protocol of that class, for owners and tests. Protocols ask with queries."""
        return next((p for p in self.protocols if isinstance(p, cls)), None)

    def ask(self, query: Query, asker: Protocol | None = None, direction: int = -1) -> Any:
        """Return the first answer in ``direction`` (-1 down, 1 up) from ``asker`` (None: top)."""
        if asker is None:
            index = len(self.protocols) if direction < 0 else -1
        else:
            index = self.protocols.index(asker)
        order = self.protocols[:index][::-1] if direction < 0 else self.protocols[index + 1 :]
        for protocol in order:
            answer = protocol.answer(query)
            if answer is not None:
                return answer
        return None

    def name_of(self, member: Address | None) -> str:
        if member is None:
            return "<all>"
        return self.names.get(member) or str(member)

    def statistics(self) -> dict[str, dict[str, int | float]]:
        """Return counters and sizes of every protocol, bottom first."""
        return {p.name: counters_of(p) for p in self.protocols}

    # --- child stacks

    def open_child(
        self,
        stack: str,
        cluster: str,
        owner: StackOwner,
        *,
        name: str | None = None,
        attributes: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Stack:
        """Open a stack of the same member under the same driver; see ``Protocol.open_stack``.

        ``properties`` override those that this stack was opened with."""
        known = {**self.properties, **(properties or {})}
        protocols = make_protocols(stack, attributes, known, self.machine.prepare)
        child = Stack(
            self.machine,
            protocols,
            owner,
            name=name or self.name,
            parent=self,
            properties=known,
        )
        child.cluster = cluster
        return child


def make_protocols(
    stack: str,
    attributes: Mapping[str, str] | None = None,
    properties: Mapping[str, str] | None = None,
    prepare: Callable[[StackConfig], StackConfig] | None = None,
) -> list[Protocol]:
    """Make the protocols of a stack file (or packaged name), bottom first. Apply overrides, then
    ``prepare``."""
    config = load_stack(stack, properties=properties)
    if attributes:
        config = with_attributes(config, attributes)
    if prepare is not None:
        config = prepare(config)
    return [cls(settings) for cls, settings in build(config)]


def _first(protocols: Sequence[Protocol], handler: str, end: Any) -> Any:
    """Return the handler of the first protocol that does not merely pass on."""
    base = getattr(Protocol, handler)
    for protocol in protocols:
        if getattr(type(protocol), handler) is not base or handler in attributes(protocol):
            return getattr(protocol, handler)
    return end


def _fell_through(batch: Batch) -> None:
    raise AssertionError("a batch fell through the bottom of the stack: is there a transport?")


def _ignored(event: Event) -> None:
    return None


class StackLog(logging.LoggerAdapter[logging.Logger]):
    """Writes member and cluster into each record."""

    def __init__(self, logger: logging.Logger, stack: Stack) -> None:
        super().__init__(logger)
        self._stack = stack

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        extra = {"member": self._stack.name, "cluster": self._stack.cluster}
        kwargs["extra"] = {**extra, **kwargs.get("extra", {})}
        return f"{self._stack.name}/{self._stack.cluster}: {msg}", kwargs
