"""The machine: time, timers and delayed calls; and the end of a stack."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Bind, Close, Received, SendTo
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Lag


def machine() -> Machine:
    return Machine("A", random=random.Random(0))


def noting(calls: list[str], what: str) -> Callable[[], None]:
    return lambda: calls.append(what)


# --- time and timers


def test_timers_fire_in_the_order_of_their_deadlines() -> None:
    a, calls = machine(), list[str]()
    for name, at in (("late", 3.0), ("soon", 1.0), ("same", 1.0), ("never", 9.0)):
        a.timer(noting(calls, name), name).start(at)
    assert a.next_deadline() == 1.0
    a.advance(5.0)
    assert calls == ["soon", "same", "late"]
    assert a.next_deadline() == 9.0


def test_a_cancelled_timer_neither_fires_nor_is_waited_for() -> None:
    a, calls = machine(), list[str]()
    timer = a.timer(noting(calls, "x"), "x")
    timer.start(1.0)
    timer.cancel()
    assert a.next_deadline() is None and not timer.armed
    a.advance(2.0)
    assert calls == []


def test_a_timer_that_is_started_again_fires_at_the_new_time_only() -> None:
    a, calls = machine(), list[str]()
    timer = a.timer(noting(calls, "x"), "x")
    timer.start(1.0)
    timer.start(3.0)
    a.advance(2.0)
    assert calls == [] and a.next_deadline() == 3.0
    a.advance(3.0)
    assert calls == ["x"] and not timer.armed
    a.advance(9.0)
    assert calls == ["x"]


def test_a_timer_may_start_itself_again() -> None:
    a, calls = machine(), list[float]()

    def again() -> None:
        calls.append(a.now)
        timer.start(1.0)

    timer = a.timer(again, "again")
    timer.start(1.0)
    for now in (1.0, 1.5, 2.0):
        a.advance(now)
    assert calls == [1.0, 2.0]


def test_time_never_goes_back() -> None:
    a = machine()
    a.advance(5.0)
    a.advance(3.0)
    a.handle([], 4.0)
    assert a.now == 5.0


def test_deferred_calls_run_in_order_after_the_handler() -> None:
    a, calls = machine(), list[str]()

    def second() -> None:
        calls.append("second")
        a.soon(noting(calls, "fourth"))

    a.enter()
    a.soon(noting(calls, "first"))
    a.soon(second)
    a.soon(noting(calls, "third"))
    calls.append("handler")
    a.leave()
    assert calls == ["handler", "first", "second", "third", "fourth"]


def test_taken_messages_are_not_given_again() -> None:
    a = machine()
    a.put(SendTo(1, b"x", ("127.0.0.1", 1)))
    assert len(a.take_outgoing()) == 1
    assert a.take_outgoing() == [] and not a.has_outgoing


def test_messages_sent_before_the_driver_takes_them_are_one_flush() -> None:
    a, calls = machine(), list[str]()
    flush = noting(calls, "flush")
    a.want_flush(flush)
    a.want_flush(flush)
    assert a.has_outgoing
    a.take_outgoing()
    assert calls == ["flush"]


def test_the_rest_is_done_once_and_is_a_step() -> None:
    a, calls = machine(), list[str]()
    rest = noting(calls, "rest")

    def last() -> None:
        assert a.is_in_step
        a.soon(noting(calls, "soon"))
        a.want_rest(rest)

    a.want_rest(rest)
    a.want_rest(last)
    a.want_rest(rest)
    assert a.has_rest and not a.has_outgoing
    a.do_rest()
    assert calls == ["rest", "soon"] and not a.is_in_step
    assert a.has_rest, "what the rest has asked for is the rest of the next turn"
    a.do_rest()
    assert calls == ["rest", "soon", "rest"] and not a.has_rest


# --- stacks


class Port(Protocol):
    """Opens a socket on demand; says goodbye when it stops."""

    def start(self) -> None:
        self.stopped = False
        self.received: list[bytes] = []

    def event_down(self, event: Event) -> None:
        self.handle = self.new_handle()
        self.open_port(Bind(self.handle, "udp", "127.0.0.1", 0))

    def on_input(self, item: Any) -> None:
        self.received.append(item.data)

    def stop(self) -> None:
        self.stopped = True
        self.machine.want_flush(lambda: self.put(SendTo(self.handle, b"bye", ("127.0.0.1", 1))))


class Layer(Protocol):
    """Remembers the events that pass."""

    def start(self) -> None:
        self.seen: list[Event] = []

    def event_up(self, event: Event) -> None:
        self.seen.append(event)
        self.pass_event_up(event)


class Floor(Layer):
    """Remembers the events that come down."""

    def event_down(self, event: Event) -> None:
        self.seen.append(event)


class Owner:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def deliver(self, batch: Batch) -> None:
        raise AssertionError(batch)

    def notify(self, event: Event) -> None:
        self.events.append(event)


def test_a_closed_stack_says_goodbye_and_then_closes_its_sockets() -> None:
    a, port = machine(), Port()
    stack = Stack(a, [port], Owner())
    stack.event_down(Event())
    a.take_outgoing()
    stack.close()
    goodbye, close = a.take_outgoing()
    assert isinstance(goodbye, SendTo) and close == Close(port.handle)
    a.handle([Received(port.handle, b"late")], 1.0)
    assert port.received == [] and a.unrouted == 1
    assert a.stacks == []


def test_child_stacks_are_closed_with_their_parent() -> None:
    a, port, other = machine(), Port(), Port()
    parent = Stack(a, [Layer()], Owner())
    for name, bottom, above in (("child", port, parent), ("other", other, None)):
        stack = Stack(a, [bottom], Owner(), name=name, parent=above)
        stack.event_down(Event())
    parent.close()
    assert port.stopped and not other.stopped
    assert [stack.name for stack in a.stacks] == ["other"]


def test_an_event_passes_every_layer_and_then_reaches_the_owner() -> None:
    a, owner = machine(), Owner()
    layers = [Layer(), Layer(), Layer()]
    stack = Stack(a, [Protocol(), *layers], owner)
    event = Event()
    stack.protocols[0].pass_event_up(event)
    assert [layer.seen for layer in layers] == [[event]] * 3
    assert owner.events == [event]


def test_a_machine_that_stood_still_tells_every_stack() -> None:
    a = machine()
    bottoms = [Floor(), Floor()]
    for bottom in bottoms:
        Stack(a, [bottom], Owner())
    assert not a.woke(10.0, 9.9, 9.9)
    assert [bottom.seen for bottom in bottoms] == [[], []]
    assert a.woke(20.0, 12.0, 11.0)
    assert [bottom.seen for bottom in bottoms] == [[Lag(9.0)], [Lag(9.0)]]


def test_a_stack_that_is_closed_by_the_one_before_it_is_not_told_that_time_was_lost() -> None:
    a = machine()
    seen: list[str] = []

    class Closes(Protocol):
        def event_down(self, event: Event) -> None:
            seen.append(self.stack.name)
            for stack in list(a.stacks):
                if stack is not self.stack:
                    stack.close()

    for name in "XY":
        Stack(a, [Closes()], Owner(), name=name)
    a.woke(9.0, 0.0, 0.0)
    assert seen == ["X"]
