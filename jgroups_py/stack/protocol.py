"""A protocol: one layer of a stack. A machine, not a program.

Batches, events and timers come in; calls on its stack go out. It never awaits, sleeps, locks,
opens a socket, or reads a clock or the global random generator.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from random import Random
from typing import Any, ClassVar, TypeAlias, TypeVar

from jgroups_py.config.settings import Bytes, ConfigBase, Fraction, HostPorts, Seconds
from jgroups_py.stack.doorkeeper import Doorkeeper, Source, text_of
from jgroups_py.stack.exposure import PortUse, TransportPlace
from jgroups_py.stack.machine import Machine, Timer
from jgroups_py.stack.ports import Bind, Connect, Consult, Handle, In, JoinGroup, Out, Resolve
from jgroups_py.stack.protocol_settings import ProtocolSettings
from jgroups_py.stack.sides import StackOwner, StackSide
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Consumed, Event, Query, Suspect, Unsuspect, ViewChange
from jgroups_py.values.header import Header
from jgroups_py.values.native import attributes, has_settings, mypyc_attr

__all__ = [
    "Batch",
    "Bytes",
    "Event",
    "Fraction",
    "Header",
    "HostPorts",
    "Protocol",
    "Query",
    "Seconds",
    "Suspect",
    "Timer",
    "Unsuspect",
    "ViewChange",
]
"""A user's own protocol is written with these."""

C = TypeVar("C", bound="Protocol")


@mypyc_attr(allow_interpreted_subclasses=True)
class Protocol:
    """Base of all protocols. Derive from it and override the handlers that you need:

        up(batch), down(batch)              messages; pass_up / pass_down forwards
        event_up(event), event_down(event)  events;   pass_event_up / pass_event_down forwards
        answer(query)                       the answer to a query, or None
        on_input(item)                      sockets and connections opened with open_port
        start(), stop()                     the stack is being opened / closed
        check()                             assert what must hold after every step

    A protocol with headers of its own has a ``protocol_id`` of 1024 or more. A nested ``Config`` has its attributes. Change
    state before you pass anything on, because passing on may call back.
    """

    protocol_id: ClassVar[int] = 0
    """The id of our headers (jg-protocol-ids of JGroups; user protocols take 1024 and above)."""

    provides: ClassVar[tuple[str, ...]] = ()
    """Services of this protocol (services.py). A protocol that takes the place of GMS has ``("views",)``."""
    needs_below: ClassVar[tuple[str, ...]] = ()
    """Services that a protocol below this one must provide, or the stack cannot work."""
    needs_above: ClassVar[tuple[str, ...]] = ()
    """Services that a protocol above this one must provide, or the stack cannot work."""
    wants_below: ClassVar[tuple[str, ...]] = ()
    """As ``needs_below``, but the stack works: ``jgroups-py validate`` warns."""
    wants_above: ClassVar[tuple[str, ...]] = ()
    """As ``needs_above``, but the stack works: ``jgroups-py validate`` warns."""

    outsiders: ClassVar[bool] = False
    """Its connections lead to others than members, such as a gossip router. They have no keys of the group, so a door
    (doors.py) lets these connections pass as they are."""

    turns_away: ClassVar[Mapping[str, str]] = {}
    """The causes of ``turn_away``: a word each, and a sentence for the log. They are counters from the start."""

    writable: ClassVar[frozenset[str]] = frozenset()
    """Settings that may be changed while the stack runs (inspection.py): the protocol reads ``self.config`` each time."""

    @classmethod
    def port_uses(cls, config: Any, place: TransportPlace) -> Sequence[PortUse]:
        """The ports that this protocol opens or connects to with such settings (exposure.py). ``place``: where the
        transport is."""
        return ()

    @classmethod
    def packet_max(cls, config: Any) -> int | None:
        """Return the most bytes of one packet with such settings (sizes.py). None: no transport, or no limit."""
        return None

    @classmethod
    def piece_max(cls, config: Any) -> int | None:
        """Return the most bytes of a message that this protocol lets pass in one piece (sizes.py). None: it cuts nothing."""
        return None

    @classmethod
    def protects(cls, config: Any) -> Mapping[str, str]:
        """Kinds of traffic (exposure.py) that this protocol encrypts with such settings, whoever carries them, and how."""
        return {}

    Config: TypeAlias = ProtocolSettings

    config: Any

    def __init__(self, config: ConfigBase | None = None, **attributes: Any) -> None:
        self.config = self.Config(**attributes) if config is None else config
        self.stack: StackSide
        self.machine: Machine
        self.name = type(self).__name__
        self.log: logging.LoggerAdapter[logging.Logger]
        self._doorkeeper: Doorkeeper | None = None
        # Replaced by direct references to the neighbours when the stack is built.
        self.pass_up: Callable[[Batch], None]
        self.pass_down: Callable[[Batch], None]
        self.pass_event_up: Callable[[Event], None]
        self.pass_event_down: Callable[[Event], None]

    # --- handlers: override what you need

    def start(self) -> None:
        """The stack is complete. Make timers and tables here."""

    def stop(self) -> None:
        """The stack is being closed. It closes the sockets of this protocol itself."""

    def up(self, batch: Batch) -> None:
        """Takes a batch from below."""
        self.pass_up(batch)

    def down(self, batch: Batch) -> None:
        """Takes a batch from above."""
        self.pass_down(batch)

    def event_up(self, event: Event) -> None:
        """Takes an event from below."""
        self.pass_event_up(event)

    def event_down(self, event: Event) -> None:
        """Takes an event from above."""
        self.pass_event_down(event)

    def answer(self, query: Query) -> Any:
        """Answers a query of another protocol. None lets the next one answer."""
        return None

    def on_input(self, item: In) -> None:
        """Something happened to a handle opened with ``open_port`` (or accepted on one)."""
        raise AssertionError(f"{self.name} opened a port but does not handle {item}")

    def check(self) -> None:
        """Assert the invariants."""

    def statistics(self) -> dict[str, int | float]:
        """Counters and sizes by name. Counters are public int attributes set in ``start``, and what was turned away as
        ``turned_away_CAUSE``."""
        refused = self._doorkeeper.counts if self._doorkeeper else dict.fromkeys(self.turns_away, 0)
        return {
            **{
                key: value
                for key, value in attributes(self).items()
                if type(value) in (int, float) and not key.startswith("_")
            },
            **{f"turned_away_{cause}": count for cause, count in refused.items()},
        }

    def texts(self) -> dict[str, str]:
        """Attributes that are words and change while the stack runs, by name: members, roles. Not for messages or secrets."""
        return {}

    def memory_limits(self, members: int) -> dict[str, int]:
        """Attribute -> the bytes that this protocol holds at most for a group of ``members``, as the attribute
        says. Count what Python needs, not payload alone."""
        return {}

    # --- what a protocol may use

    @property
    def now(self) -> float:
        """The member's time in seconds."""
        return self.machine.now

    @property
    def random(self) -> Random:
        """The member's generator, which a simulation seeds."""
        return self.machine.random

    @property
    def local_address(self) -> UUID:
        """The address of this member."""
        return self.stack.address

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.stack.cluster

    def timer(self, callback: Callable[[], None], name: str | None = None) -> Timer:
        """Makes a timer, which does not run yet. ``callback`` is a method of ours, named ``_on_...``."""
        return self.machine.timer(callback, name or callback.__name__, self)

    def patience(self, seconds: float) -> float:
        """Lengthens a time-out that waits for somebody else, when this process is late itself."""
        machine = self.machine
        return seconds + machine.lateness.patience(machine.now)

    def ask_down(self, query: Query) -> Any:
        """The first answer of the protocols below, top down. None: nobody answers."""
        return self.stack.ask(query, self, -1)

    def ask_up(self, query: Query) -> Any:
        """The first answer of the protocols above, bottom up. None: nobody answers."""
        return self.stack.ask(query, self, 1)

    def name_of(self, member: Address | None) -> str:
        """The logical name if known, else the address as text."""
        return self.stack.name_of(member)

    def consume(self, batch: Batch) -> None:
        """Gives the flow-control credits of ``batch`` back, which this layer keeps to itself."""
        if batch.credits:
            self.pass_event_down(Consumed(batch.credits))

    def open_port(self, out: Bind | JoinGroup | Connect | Resolve | Consult) -> None:
        """Opens a socket or connection under a handle from ``new_handle``. Its result goes to ``on_input``."""
        stack = self.stack
        stack.ports[out.handle] = self
        if stack.doorway is None:
            self.machine.open(self, out)
        else:
            stack.doorway.open(out)

    def new_handle(self) -> Handle:
        """A handle for ``open_port`` that no other port has."""
        return self.machine.new_handle()

    def put(self, out: Out) -> None:
        """Gives the driver something to do. A door of this stack (doors.py) has it first."""
        doorway = self.stack.doorway
        if doorway is None:
            self.machine.put(out)
        else:
            doorway.put(out)

    def adopt(self, handle: Handle) -> None:
        """Takes the inputs of an accepted connection. Call it on ``Accepted``."""
        stack = self.stack
        stack.ports[handle] = self
        if stack.doorway is None:
            self.machine.route(handle, self)
        else:
            stack.doorway.adopt(handle)

    def forget_port(self, handle: Handle) -> None:
        """The handle was closed, by us or by the peer. No more input comes from it."""
        self.stack.ports.pop(handle, None)
        self.machine.unroute(handle)

    def open_stack(self, stack: str, cluster: str, owner: StackOwner, **options: Any) -> StackSide:
        """Opens a child stack of the same member (stack file name or path). It is not connected yet."""
        return self.stack.open_child(stack, cluster, owner, **options)

    def turn_away(self, cause: str, source: Source = None, count: int = 1) -> None:
        """Counts, traces and tells that something from ``source`` was refused (doorkeeper.py). ``cause`` is one of
        ``turns_away``. A refused message must not be in either."""
        if self._doorkeeper is None:
            self._doorkeeper = Doorkeeper(
                self.name, self.machine, self.log, self.turns_away, owner=self
            )
        self._doorkeeper.turn_away(cause, source, count)
        if self.machine.trace is not None:
            where = {} if source is None else {"source": text_of(source)}
            self.trace("turned away", cause=cause, **where)

    def trace(self, what: str, **details: Any) -> None:
        """Tells a watching simulator or log what happens. Costs nothing when nobody watches."""
        trace = self.machine.trace
        if trace is not None:
            trace(self.machine.now, self.machine.name, self.name, what, details)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{f.name}={getattr(self.config, f.name)!r}" for f in fields(self.config) if f.repr
        )
        return f"{self.name}({shown})"


has_settings(Protocol, ProtocolSettings)
