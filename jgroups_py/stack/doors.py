"""Doors stand between the protocols of one stack and its driver.

A protocol installs a door in its ``start`` (``Stack.install``), before any port is open. From then on the door gets
every output of the protocols of that stack before the driver, and every input of the driver for their handles before
the protocols. For each item it passes on the same item, another one, several, none, or an item in the other direction.
Each stack of a machine has a door of its own or none; a child stack (the bridge of RELAY) does not inherit its
parent's. A stack without a door pays one look at an attribute.

    class Rot13(Door):
        def outgoing(self, item: Out) -> None:              # a protocol put it out
            if type(item) is SendTo:
                item = SendTo(item.handle, rot13(item.data), item.dest)
            self.outside(item)                              # to the driver

        def incoming(self, item: In) -> None:               # the driver handed it in
            if type(item) is Datagram:
                item = Datagram(item.handle, rot13(item.data), item.source)
            self.inside(item)                               # to the protocol that has the handle

``outside`` and ``inside`` may be called any number of times, from either method and from a timer. A door has no timers
and no settings of its own: it uses those of the protocol that installed it (``self.timer(...)``). If that protocol
itself needs an answer (``Consult``), it opens its port as usual, through its own door.

A door for streams (SEAL, TLS) lets a connection in when its peer has proved itself, not before:

    Accepted(listener, handle, peer)    call ``hold(handle)``: inputs of the connection go to the door, and no
                                        protocol knows it. Keep the item.
    Received(handle, data)              feed the handshake. Answer with ``outside(Write(handle, ...))``.
    the peer has proved itself          ``inside(the Accepted)``: its listener's protocol adopts the handle. Then
                                        ``inside(Received(handle, plain))``.
    it has not, or too late             ``outside(Close(handle, abort=True))``, ``drop(handle)``: nobody has seen it.
    Connected(handle, local)            of our own connection: do the handshake, then ``inside`` the item; or
                                        ``inside(ConnectFailed(handle, False, why))`` and ``outside(Close(handle, True))``.
    Closed of a held connection         forget it, ``drop(handle)``. Of another one: forget it, ``inside`` the item.
    Close(handle) from a protocol       forget the connection; say goodbye with a Write first if there is one.
    Writable(handle, unsent)            counts bytes as the driver sent them: about those that the protocol wrote.

If no protocol has the item's handle any more, the machine counts the item (``unrouted``) and drops it. ``inside`` calls
the protocol at once. The protocol may put something out, close the connection, or close the whole stack: look at your
own tables again after the call.
"""

from __future__ import annotations

from typing import Any

from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Connect,
    Consult,
    Handle,
    In,
    JoinGroup,
    Out,
    Resolve,
)
from jgroups_py.stack.sides import StackSide


class Door:
    """Base of doors. It passes on every item. See the module's docstring."""

    name = "door"
    """Its name in traces and on the security pages: ``SEAL``, ``TLS``."""

    def __init__(self) -> None:
        self._way: Doorway

    # --- for a door to override

    def outgoing(self, item: Out) -> None:
        """Take an ``item`` that a protocol put out."""
        self.outside(item)

    def incoming(self, item: In) -> None:
        """Take an ``item`` of the driver, for a handle of this stack or one that the door holds."""
        self.inside(item)

    # --- for a door to use

    def outside(self, item: Out) -> None:
        """Give ``item`` to the driver."""
        self._way.machine.put(item)

    def inside(self, item: In) -> None:
        """Hand ``item`` to the protocol that has its handle."""
        self._way.inside(item)

    def hold(self, handle: Handle) -> None:
        """Take the inputs of an accepted connection that no protocol has. The stack closes it when it closes."""
        self._way.hold(handle)

    def drop(self, handle: Handle) -> None:
        """Give a held handle up: no more input comes from it."""
        self._way.drop(handle)


class Doorway:
    """The place of a door in its stack. To the machine it stands for all protocols of the stack."""

    def __init__(self, machine: Machine, stack: StackSide, door: Door) -> None:
        self.machine = machine
        self.stack = stack
        self.door = door
        self.name = door.name
        self._entered: dict[Any, None] = {}
        self._held: dict[Handle, None] = {}
        door._way = self

    # --- calls of the stack and its protocols

    def open(self, item: Bind | JoinGroup | Connect | Resolve | Consult) -> None:
        """``Protocol.open_port``: the handle is in the stack's table already."""
        self.machine.route(item.handle, self)
        self.door.outgoing(item)

    def adopt(self, handle: Handle) -> None:
        """``Protocol.adopt``: the handle is in the stack's table already."""
        self._held.pop(handle, None)
        self.machine.route(handle, self)

    def put(self, item: Out) -> None:
        """``Protocol.put``."""
        self.door.outgoing(item)

    def close_held(self) -> tuple[Handle, ...]:
        """Return, as the stack closes, the handles that no protocol has."""
        held = tuple(self._held)
        self._held.clear()
        return held

    # --- calls of the machine

    def on_input(self, item: In) -> None:
        """Hand an input to the door."""
        self.door.incoming(item)

    def check(self) -> None:
        """Check the protocols that an input has entered since the last check."""
        entered, self._entered = self._entered, {}
        for protocol in entered:
            protocol.check()

    # --- calls of the door

    def inside(self, item: In) -> None:
        handle = item.listener if type(item) is Accepted else item.handle
        protocol = self.stack.ports.get(handle)
        if protocol is None:
            self.machine.unrouted += 1
            return
        self._entered[protocol] = None
        protocol.on_input(item)

    def hold(self, handle: Handle) -> None:
        self._held[handle] = None
        self.machine.route(handle, self)

    def drop(self, handle: Handle) -> None:
        if self._held.pop(handle, 0) is None:
            self.machine.unroute(handle)
