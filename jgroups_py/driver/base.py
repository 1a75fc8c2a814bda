"""What every trio driver has: turns, one timer wait, lateness.

A turn: let the owners hand down what they collected (``before_flush``), take what the machine
wants done, do it, hand in what that caused. Turns run when sockets were drained, when a timer
fired, and when somebody called ``wake``; everything sent since the last turn leaves together.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol as Interface

import trio

from jgroups_py.driver.unwrap import reraise
from jgroups_py.stack.lateness import Lateness
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Endpoint, In, Out

log = logging.getLogger("jgroups_py.driver")


@dataclass(frozen=True, kw_only=True)
class DriverLimits:
    """What a driver does at most. Times are seconds, sizes bytes."""

    datagrams_per_drain: int = 32
    """Datagrams read from one socket before the others have their turn."""
    reads_per_drain: int = 4
    """Reads from one connection before the others have their turn."""
    read_size: int = 262_144
    """Bytes asked for by one read of a connection."""
    accepts_per_drain: int = 16
    """Connections accepted before the others have their turn."""
    connections_max: int = 1024
    """Open connections, accepted ones included; more are closed at once."""
    datagram_queue_max: int = 4 * 1024 * 1024
    """Bytes of datagrams one socket keeps while the kernel takes none; more are dropped."""
    stream_queue_max: int = 64 * 1024 * 1024
    """Unsent bytes of one connection; at more it is reset (its protocol ignored Writable)."""
    socket_buffer: int = 4 * 1024 * 1024
    """Kernel buffers of datagram sockets where the stack asks for nothing."""
    lookups_max: int = 4
    """Names of hosts looked up at the same time, each in a thread; more wait. As many directories are asked."""
    consults_waiting_max: int = 100
    """Requests to directories of one kind that wait; more are not carried out."""
    linger: float = 1.0
    """How long a closed connection may take to send what was written."""
    tick: float = 0.25
    """The driver looks at its own lateness at least this often."""
    timer_slack: float = 0.001
    """Timers due within this time fire together."""
    lag_threshold: float = 0.5
    """Lateness that is told to the stacks as Lag, and puts their timers off."""
    lag_allowance: float = 10.0
    """Most by which own lateness lengthens a time-out; a single lag longer than this is forgiven
    wholly."""
    held_max: int = 10_000
    """Inputs delayed by a fault filter; more are dropped."""
    rounds_max: int = 100
    """Rounds of doing and handing in within one turn."""


class Transport(Interface):
    """Where machines find each other: real sockets, or a network in memory."""

    def driver(self, machine: Machine) -> Driver:
        """A driver for ``machine``, not running yet."""


class Driver:
    """Runs one machine; subclasses execute the Outs. ``before_flush``: called first each turn."""

    def __init__(self, machine: Machine, limits: DriverLimits | None = None) -> None:
        self.machine = machine
        self.limits = limits or DriverLimits()
        machine.lateness = Lateness(self.limits.lag_threshold, self.limits.lag_allowance)
        self.before_flush: list[Callable[[], None]] = []
        self.clock: Callable[[], float] = trio.current_time
        """The time of the loop that runs it."""
        self.turns = 0
        self._inputs: list[In] = []
        self._woken = False
        self._in_turn = False
        self._parked: trio.lowlevel.Task | None = None
        self._due = math.inf
        self._fired = -math.inf
        self._timer_scope: trio.CancelScope | None = None
        self._nursery: trio.Nursery | None = None
        self._failure: Exception | None = None

    # --- what the owner calls

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until ``stop`` or cancelled; then everything it opened is closed."""
        self.clock = trio.lowlevel.current_clock().current_time  # two calls less each time
        self.machine.now = self.clock()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._due = self.machine.now + self.limits.tick
                nursery.start_soon(self._run_timers)
                nursery.start_soon(self._run_turns)
                task_status.started()
        except BaseExceptionGroup as group:
            reraise(group)
        finally:
            self._nursery = None
            self.close_all()
        if self._failure is not None:
            raise self._failure

    def wake(self) -> None:
        """A turn is wanted soon. Cheap; any number of calls before the turn make one turn."""
        self._woken = True
        if self._parked is not None and not self._in_turn:  # else: looked at when that ends
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)

    def fail(self, error: Exception) -> None:
        """A step of the machine raised ``error`` in a task of its owner: it cannot be used any more, and ``run`` raises
        it, so that it ends the same way wherever it happened."""
        if self._failure is None:
            self._failure = error
        self.wake()

    @property
    def failed(self) -> bool:
        """Did a step of the machine raise?"""
        return self._failure is not None

    def guarded(self, step: Callable[[], None]) -> None:
        """Runs ``step``, which touches the machine, in a task of the owner. What it raises, ``run`` raises."""
        if self._failure is None:
            try:
                step()
            except Exception as error:
                self.fail(error)

    def at_once(self, step: Callable[[], None]) -> None:
        """Runs ``step``, and a turn in the same breath, not when the loop comes round to it: for who waits
        for an answer to what ``step`` sends and has nothing to be bundled with."""
        if self._in_turn or self._nursery is None:
            step()
            return
        self._in_turn = True
        try:
            step()
        finally:
            self._in_turn = False
            self.guarded(self.turn)

    async def stop(self) -> None:
        """Sends what is left, waits for it (bounded by ``linger``), and ends ``run``."""
        self.guarded(self.turn)
        if self._failure is None:
            with trio.move_on_after(self.limits.linger):
                await self.drained()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def turn(self) -> None:
        """See the module's docstring. Not from within a step of the machine."""
        now = self.clock()
        self._notice(now)
        self._turn(now)

    def _turn(self, now: float) -> None:
        machine = self.machine
        if now > machine.now:
            machine.now = now
        self._woken, self._in_turn = False, True
        self.turns += 1
        try:
            for hook in self.before_flush:
                hook()
            for _ in range(self.limits.rounds_max):
                if not (machine.has_outgoing or self._inputs):
                    break
                self.execute(machine.take_outgoing())
                if self._inputs:
                    inputs, self._inputs = self._inputs, []
                    machine.handle(inputs, self.clock())
            else:
                self._woken = True
        finally:
            self._in_turn = False
        if self._woken:
            self.wake()
        self._rearm()

    def take(self, inputs: Sequence[In]) -> None:
        """Things happened: hands them in, and runs a turn."""
        now = self.clock()
        self._notice(now)
        self._in_turn = True
        try:
            self.machine.handle(inputs, now)
        finally:
            self._in_turn = False
        self._turn(now)

    # --- what subclasses do

    def execute(self, outs: Sequence[Out]) -> None:
        """Does it, in order. What is known at once is appended with ``happened``."""
        raise NotImplementedError

    def close_all(self) -> None:
        """Closes every socket at once. Must be callable twice."""
        raise NotImplementedError

    async def drained(self) -> None:
        """Returns when nothing that was written waits in this process any more."""

    def neighbours(self, groups: Sequence[Endpoint]) -> list[str]:
        """What is known of others on this machine, for a member alone in ``groups``: hints in words."""
        return []

    def happened(self, item: In) -> None:
        """For ``execute``: handed in within the same turn."""
        self._inputs.append(item)

    @property
    def nursery(self) -> trio.Nursery:
        assert self._nursery is not None, "the driver is not running"
        return self._nursery

    @property
    def running(self) -> bool:
        return self._nursery is not None

    def statistics(self) -> dict[str, int]:
        """Counters: public int attributes, and how late this process has been (milliseconds)."""
        lateness = self.machine.lateness
        return {
            **{k: v for k, v in vars(self).items() if type(v) is int and k[0] != "_"},
            "lags": lateness.lags,
            "late_longest_ms": round(1000 * lateness.longest),
            "late_recent_ms": round(1000 * lateness.recent(self.machine.now)),
        }

    # --- tasks

    async def _run_turns(self) -> None:
        task = trio.lowlevel.current_task()
        while True:
            if self._failure is not None:
                raise self._failure
            if self._woken:
                self.turn()
                if self._woken:
                    await trio.lowlevel.checkpoint()
                continue
            self._parked = task
            await trio.lowlevel.wait_task_rescheduled(self._unpark)

    def _unpark(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def _run_timers(self) -> None:
        machine, limits = self.machine, self.limits
        while True:
            with trio.CancelScope(deadline=self._due) as scope:
                self._timer_scope = scope
                await trio.sleep_forever()
            self._timer_scope = None
            now = self.clock()
            if not self._notice(now):
                machine.woke(now, self._due, now)  # how late we are in good times, too
            self._fired = now
            machine.advance(now)
            self._due = now + limits.tick
            self.turn()

    def _notice(self, now: float) -> bool:
        """Before anything is handed in: was this process stopped, or its loop blocked?"""
        late = now - self._due
        if late <= self.limits.lag_threshold:
            return False
        log.info("%s: this process was late by %.1f s", self.machine.name, late)
        due, self._due = self._due, now + self.limits.tick
        if self._timer_scope is not None:
            self._timer_scope.deadline = self._due
        return self.machine.woke(now, due, min(due, self.machine.now))

    def _rearm(self) -> None:
        """Moves the timer wait forward where needed; a wait that is too early only looks."""
        due = self.machine.next_deadline()
        if due is None or due >= self._due:
            return
        due = max(due, self._fired + self.limits.timer_slack)
        if due < self._due:
            self._due = due
            if self._timer_scope is not None:
                self._timer_scope.deadline = due
