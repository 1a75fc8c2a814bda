"""A protocol: one layer of a stack. It is a machine, not a program.

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
from jgroups_py.wire import batches as batches  # values.batch measures payloads with it
from jgroups_py.wire.own_headers import register_header

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
    "register_header",
]
"""The names for a user's own protocol."""

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

    A protocol with headers of its own has a ``protocol_id`` of 1024 or more. A nested ``Config`` has its attributes. Change state before you pass on
    a batch or an event, because that may call back.
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
    """True if its connections lead to others than members, such as a gossip router. They have no keys of the group, so
    a door (doors.py) lets these connections pass as they are."""

    turns_away: ClassVar[Mapping[str, str]] = {}
    """The causes of ``turn_away``: a word each, and a sentence for the log. They are counters from the start."""

    writable: ClassVar[frozenset[str]] = frozenset()
    """Settings that may be changed while the stack runs (inspection.py): the protocol reads ``self.config`` each time."""

    @classmethod
    def port_uses(cls, config: Any, place: TransportPlace) -> Sequence[PortUse]:
        """Return the ports that this protocol opens or connects to with such settings (exposure.py). ``place``: the
        transport's place."""
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
        """Return the kinds of traffic (exposure.py) that this protocol encrypts with such settings over any carrier,
        and how."""
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
        self._statistics_failures = 0  # the first one is logged (inspection.py)
        # Replaced by direct references to the neighbours when the stack is built.
        self.pass_up: Callable[[Batch], None]
        self.pass_down: Callable[[Batch], None]
        self.pass_event_up: Callable[[Event], None]
        self.pass_event_down: Callable[[Event], None]

    # --- handlers to override

    def start(self) -> None:
        """Make timers and tables: the stack is complete."""

    def stop(self) -> None:
        """Clean up: the stack is being closed. It closes this protocol's sockets itself."""

    def up(self, batch: Batch) -> None:
        """Take a batch from below."""
        self.pass_up(batch)

    def down(self, batch: Batch) -> None:
        """Take a batch from above."""
        self.pass_down(batch)

    def event_up(self, event: Event) -> None:
        """Take an event from below."""
        self.pass_event_up(event)

    def event_down(self, event: Event) -> None:
        """Take an event from above."""
        self.pass_event_down(event)

    def answer(self, query: Query) -> Any:
        """Answer a query of another protocol. None lets the next one answer."""
        return None

    def on_input(self, item: In) -> None:
        """Take an input of a handle that was opened with ``open_port``, or of a connection accepted on such a
        handle."""
        raise AssertionError(f"{self.name} opened a port but does not handle {item}")

    def check(self) -> None:
        """Assert the invariants."""

    def statistics(self) -> dict[str, int | float]:
        """Return counters and sizes by name. Counters are public int attributes set in ``start``, and refusals as
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
        """Return changing attributes that are words, by name: members, roles. Not for messages or secrets."""
        return {}

    def memory_limits(self, members: int) -> dict[str, int]:
        """Return the most bytes that an attribute lets this protocol hold in a group of ``members``, by attribute.
        Count Python's overhead, not payload alone."""
        return {}

    # --- for a protocol to use

    @property
    def now(self) -> float:
        """Return the member's time in seconds."""
        return self.machine.now

    @property
    def random(self) -> Random:
        """Return the member's random generator, which a simulation seeds."""
        return self.machine.random

    @property
    def local_address(self) -> UUID:
        """Return the address of this member."""
        return self.stack.address

    @property
    def cluster(self) -> str:
        """Return the name of the cluster."""
        return self.stack.cluster

    def timer(self, callback: Callable[[], None], name: str | None = None) -> Timer:
        """Make a timer, which does not run yet. ``callback`` is a method of ours, named ``_on_...``."""
        return self.machine.timer(callback, name or callback.__name__, self)

    def patience(self, seconds: float) -> float:
        """Lengthen a time-out that waits for another member, when this process is late itself."""
        machine = self.machine
        return seconds + machine.lateness.patience(machine.now)

    def ask_down(self, query: Query) -> Any:
        """Return the first answer of the protocols below, top down. None: no protocol answers."""
        return self.stack.ask(query, self, -1)

    def ask_up(self, query: Query) -> Any:
        """Return the first answer of the protocols above, bottom up. None: no protocol answers."""
        return self.stack.ask(query, self, 1)

    def name_of(self, member: Address | None) -> str:
        """Return the logical name if known, else the address as text."""
        return self.stack.name_of(member)

    def consume(self, batch: Batch) -> None:
        """Give back the flow-control credits of ``batch``, which this layer does not pass on."""
        if batch.credits:
            self.pass_event_down(Consumed(batch.credits))

    def open_port(self, out: Bind | JoinGroup | Connect | Resolve | Consult) -> None:
        """Open a socket or connection under a handle from ``new_handle``. Its result goes to ``on_input``."""
        stack = self.stack
        stack.ports[out.handle] = self
        if stack.doorway is None:
            self.machine.open(self, out)
        else:
            stack.doorway.open(out)

    def new_handle(self) -> Handle:
        """Return a new handle for ``open_port``."""
        return self.machine.new_handle()

    def put(self, out: Out) -> None:
        """Hand an output to the driver. A door of this stack (doors.py) gets it first."""
        doorway = self.stack.doorway
        if doorway is None:
            self.machine.put(out)
        else:
            doorway.put(out)

    def adopt(self, handle: Handle) -> None:
        """Take the inputs of an accepted connection. Call it on ``Accepted``."""
        stack = self.stack
        stack.ports[handle] = self
        if stack.doorway is None:
            self.machine.route(handle, self)
        else:
            stack.doorway.adopt(handle)

    def forget_port(self, handle: Handle) -> None:
        """Forget a handle that was closed, by us or by the peer. No more input comes from it."""
        self.stack.ports.pop(handle, None)
        self.machine.unroute(handle)

    def open_stack(self, stack: str, cluster: str, owner: StackOwner, **options: Any) -> StackSide:
        """Open a child stack of the same member (stack file name or path). It is not connected yet."""
        return self.stack.open_child(stack, cluster, owner, **options)

    def turn_away(self, cause: str, source: Source = None, count: int = 1) -> None:
        """Count, trace and report that something from ``source`` was refused (doorkeeper.py). ``cause`` is one of
        ``turns_away``. Neither argument may contain the refused message."""
        if self._doorkeeper is None:
            self._doorkeeper = Doorkeeper(
                self.name, self.machine, self.log, self.turns_away, owner=self
            )
        self._doorkeeper.turn_away(cause, source, count)
        if self.machine.trace is not None:
            where = {} if source is None else {"source": text_of(source)}
            self.trace("turned away", cause=cause, **where)

    def trace(self, what: str, **details: Any) -> None:
        """Report an event to a watching simulator or log. It costs nothing without a watcher."""
        trace = self.machine.trace
        if trace is not None:
            trace(self.machine.now, self.machine.name, self.name, what, details)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{f.name}={getattr(self.config, f.name)!r}" for f in fields(self.config) if f.repr
        )
        return f"{self.name}({shown})"


has_settings(Protocol, ProtocolSettings)
