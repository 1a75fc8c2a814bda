"""Doors: all items between the protocols of a stack and its driver pass the stack's door, and no items of other
stacks."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.stack.doors import Door
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Datagram,
    In,
    Out,
    Received,
    SendTo,
    Write,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.testing.sim import World
from jgroups_py.testing.sim.touched import CheckedMachine
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event

PEER = ("10.0.0.2", 7800)


class Owner:
    def deliver(self, batch: Batch) -> None: ...

    def notify(self, event: Event) -> None: ...


class Turning(Door):
    """Reverses the bytes of datagrams and streams. It admits a connection after ``open sesame``."""

    name = "TURNING"

    def __init__(self) -> None:
        super().__init__()
        self.waiting: dict[int, Accepted] = {}

    def outgoing(self, item: Out) -> None:
        if isinstance(item, SendTo):
            item = SendTo(item.handle, item.data[::-1], item.dest)
        self.outside(item)

    def incoming(self, item: In) -> None:
        if isinstance(item, Datagram):
            item = Datagram(item.handle, item.data[::-1], item.source)
        elif isinstance(item, Accepted):
            self.waiting[item.handle] = item
            self.hold(item.handle)
            return
        elif item.handle in self.waiting:
            if isinstance(item, Received) and item.data == b"open sesame":
                self.outside(Write(item.handle, b"welcome"))
                self.inside(self.waiting.pop(item.handle))
                return
            del self.waiting[item.handle]
            self.outside(Close(item.handle, True))
            self.drop(item.handle)
            return
        self.inside(item)


class House(Protocol):
    """A protocol with sockets that records its inputs. With ``door`` it installs that."""

    def __init__(self, door: Door | None = None) -> None:
        super().__init__()
        self.door = door
        self.heard: list[In] = []
        self.checked = 0

    def start(self) -> None:
        if self.door is not None:
            self.stack.install(self.door)
        self.udp, self.tcp = self.new_handle(), self.new_handle()

    def open(self) -> None:
        self.open_port(Bind(self.udp, "udp", "10.0.0.1", 0))
        self.open_port(Bind(self.tcp, "tcp", "10.0.0.1", 0))

    def on_input(self, item: In) -> None:
        self.heard.append(item)
        if isinstance(item, Accepted):
            self.adopt(item.handle)
        elif isinstance(item, Closed):
            self.forget_port(item.handle)

    def check(self) -> None:
        self.checked += 1


def house(door: Door | None, machine: Machine | None = None) -> House:
    machine = machine or Machine("A", random=random.Random(0))
    made = House(door)
    Stack(machine, [made], Owner())
    made.open()
    machine.take_outgoing()
    return made


def test_the_output_and_the_input_of_a_protocol_pass_the_door() -> None:
    a = house(Turning())
    a.put(SendTo(a.udp, b"abc", PEER))
    assert a.machine.take_outgoing() == [SendTo(a.udp, b"cba", PEER)]
    a.machine.handle([Datagram(a.udp, b"fed", PEER)], 1.0)
    assert a.heard == [Datagram(a.udp, b"def", PEER)]


def test_a_door_lets_a_stranger_s_connection_in_only_when_it_says_so() -> None:
    a = house(Turning())
    accepted = Accepted(a.tcp, -1, PEER)
    a.machine.handle([accepted], 1.0)
    assert a.heard == []
    a.machine.handle([Received(-1, b"open sesame")], 1.0)
    assert a.machine.take_outgoing() == [Write(-1, b"welcome")]
    a.machine.handle([Received(-1, b"hello"), Closed(-1, False)], 1.0)
    assert a.heard == [accepted, Received(-1, b"hello"), Closed(-1, False)]
    a.machine.handle([Received(-1, b"late")], 1.0)
    assert len(a.heard) == 3 and a.machine.unrouted == 1


def test_a_connection_that_a_door_turns_away_reaches_no_protocol() -> None:
    a = house(Turning())
    a.machine.handle([Accepted(a.tcp, -1, PEER), Received(-1, b"open simsim")], 1.0)
    assert a.machine.take_outgoing() == [Close(-1, True)]
    a.machine.handle([Received(-1, b"open sesame")], 1.0)
    assert a.heard == [] and a.machine.unrouted == 1 and a.stack.ports.keys() == {a.udp, a.tcp}


def test_a_closing_stack_closes_connections_that_its_door_holds() -> None:
    a = house(Turning())
    a.machine.handle([Accepted(a.tcp, -1, PEER), Accepted(a.tcp, -2, PEER)], 1.0)
    a.machine.handle([Received(-2, b"open sesame")], 1.0)
    a.machine.take_outgoing()
    a.stack.close()
    closed = {out.handle: out.abort for out in a.machine.take_outgoing() if type(out) is Close}
    assert closed == {a.udp: False, a.tcp: False, -2: False, -1: True}
    a.machine.handle([Received(-1, b"x"), Received(-2, b"x")], 1.0)
    assert a.machine.unrouted == 2


def test_a_handle_that_no_protocol_has_any_more_is_counted() -> None:
    a = house(Turning())
    a.forget_port(a.udp)
    door: Any = a.door
    door.inside(Datagram(a.udp, b"abc", PEER))
    assert a.heard == [] and a.machine.unrouted == 1


class Closing(Door):
    """A door whose stack closes while the door hands it an input."""

    def incoming(self, item: In) -> None:
        self._way.stack.close()
        self.inside(item)


def test_a_closed_stack_takes_no_input() -> None:
    a = house(Closing())
    a.machine.handle([Datagram(a.udp, b"abc", PEER)], 1.0)
    assert a.heard == [] and a.machine.unrouted == 1


def test_each_stack_of_a_machine_has_its_own_door_or_none() -> None:
    machine = Machine("A", random=random.Random(0))
    a, b = house(Turning(), machine), house(None, machine)
    b.put(SendTo(b.udp, b"abc", PEER))
    assert machine.take_outgoing() == [SendTo(b.udp, b"abc", PEER)]
    machine.handle([Datagram(b.udp, b"abc", PEER), Datagram(a.udp, b"abc", PEER)], 1.0)
    assert b.heard == [Datagram(b.udp, b"abc", PEER)]
    assert a.heard == [Datagram(a.udp, b"cba", PEER)]


def test_a_stack_has_one_door() -> None:
    a = house(Turning())
    with pytest.raises(ConfigError, match="a stack has one door, and this one has two: TURNING"):
        a.stack.install(Door())


def test_a_door_that_changes_nothing_lets_everything_pass() -> None:
    a = house(Door())
    handle = a.new_handle()
    outs: list[Out] = [Connect(handle, PEER, 1.0), Write(handle, b"x"), Close(handle)]
    a.open_port(outs[0])  # type: ignore[arg-type]
    for out in outs[1:]:
        a.put(out)
    assert a.machine.take_outgoing() == outs
    ins: list[In] = [
        Bound(a.udp, PEER),
        Connected(handle, PEER),
        Received(handle, b"x"),
        ConnectFailed(handle, True, "x"),
    ]
    a.machine.handle(ins, 1.0)
    assert a.heard == ins


def test_the_simulator_checks_a_protocol_that_a_door_has_handed_something() -> None:
    machine = CheckedMachine("A", random=random.Random(0))
    a = house(Turning(), machine)
    machine.check_step()
    before = a.checked
    machine.handle([Datagram(a.udp, b"abc", PEER)], 1.0)
    machine.check_step()
    assert a.checked == before + 1
    machine.check_step()
    assert a.checked == before + 1


# --- random values


def test_secrets_come_from_the_system_and_in_a_simulation_from_the_seed() -> None:
    assert Machine("A", random=random.Random(0)).secrets is os.urandom
    drawn = []
    for seed in (1, 1, 2):
        world = World(seed)
        a = world.start("A", "sim.xml", "demo")
        drawn.append(a.host.machine.secrets(16))
    assert drawn[0] == drawn[1] != drawn[2]
