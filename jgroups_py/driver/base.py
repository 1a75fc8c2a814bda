"""The base of every trio driver: turns, one timer wait, lateness.

A turn lets the owners hand down their collected messages (``before_flush``), takes the machine's outputs, executes
them, and hands in the results. Then follows what can wait until the messages are on their way (``want_rest``).
A turn runs when sockets were drained, when a timer fired, and after ``wake``. All messages since the last turn leave together.
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
from jgroups_py.values.batch import Batch

log = logging.getLogger("jgroups_py.driver")


@dataclass(frozen=True, kw_only=True)
class DriverLimits:
    """Limits of a driver. Times are seconds, sizes bytes."""

    datagrams_per_drain: int = 32
    """The most datagrams that are read from one socket before the others have their turn."""
    reads_per_drain: int = 4
    """The most reads from one connection before the others have their turn."""
    read_size: int = 262_144
    """Bytes asked for by one read of a connection."""
    accepts_per_drain: int = 16
    """The most connections that are accepted before the others have their turn."""
    connections_max: int = 1024
    """The most open connections, with accepted ones. Further ones are closed at once."""
    datagram_queue_max: int = 4 * 1024 * 1024
    """The most bytes of datagrams that one socket keeps while the kernel takes none. Further ones are dropped."""
    stream_queue_max: int = 64 * 1024 * 1024
    """The most unsent bytes of one connection. Beyond that it is reset, because its protocol ignored Writable."""
    socket_buffer: int = 4 * 1024 * 1024
    """The size of kernel buffers of datagram sockets, if the stack does not set it."""
    lookups_max: int = 4
    """The most host names that are looked up at the same time, each in a thread. Further ones wait. It is also the most
    directories that are asked at the same time."""
    consults_waiting_max: int = 100
    """The most requests that wait for directories of one kind. Further ones are not carried out."""
    linger: float = 1.0
    """The longest time in which a closed connection may send its last bytes."""
    directory_linger: float = 5.0
    """A driver that ends waits at most this long until directories have its last requests. Otherwise stale entries of a
    departed member would lead others there."""
    watch: float = 0.0003
    """The longest time in which a caller looks for its answer in its own step (answer_watch.py), and a called member for the next
    request (request_watch.py), while other tasks wait. 0: never."""
    watched_max: int = 16
    """The most answers, or requests, that a task takes so one after the other before other tasks run."""
    tick: float = 0.25
    """The most seconds between two looks of the driver at its own lateness."""
    timer_slack: float = 0.001
    """Timers due within this time fire together."""
    lag_threshold: float = 0.5
    """A lateness of this many seconds goes to the stacks as Lag, and puts their timers off."""
    lag_allowance: float = 10.0
    """The most by which own lateness lengthens a time-out. A single longer lag is forgiven wholly."""
    held_max: int = 10_000
    """The most inputs that a fault filter delays. Further ones are dropped."""
    rounds_max: int = 100
    """The most rounds of executing and handing in within one turn."""


class Transport(Interface):
    """The network of machines: real sockets, or a network in memory."""

    def driver(self, machine: Machine) -> Driver:
        """Return a driver for ``machine`` that does not run yet."""


class Driver:
    """Runs one machine. Subclasses execute the Outs. The functions in ``before_flush`` are called first in each turn."""

    def __init__(self, machine: Machine, limits: DriverLimits | None = None) -> None:
        self.machine = machine
        self.limits = limits or DriverLimits()
        machine.lateness = Lateness(self.limits.lag_threshold, self.limits.lag_allowance)
        self.before_flush: list[Callable[[], None]] = []
        self.clock: Callable[[], float] = trio.current_time
        """The time of the loop that runs it."""
        self.turns = 0
        self.answered = 0
        """Requests among the inputs that were taken last that are answered: the next ones may come soon. A block that answers counts
        them."""
        self._inputs: list[In] = []
        self._woken = False
        self._in_turn = False
        self._parked: trio.lowlevel.Task | None = None
        self._due = math.inf
        self._fired = -math.inf
        self._timer_scope: trio.CancelScope | None = None
        self._nursery: trio.Nursery | None = None
        self._failure: Exception | None = None

    # --- calls of the owner

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run until ``stop`` or until it is cancelled. Then close all sockets that it opened."""
        self.clock = trio.lowlevel.current_clock().current_time  # saves two calls each time
        self.machine.now = self.clock()
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self._due = self.machine.now + self.limits.tick
                self.machine.timers_moved = True
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
        """Ask for a turn soon. Any number of calls before the turn make one turn."""
        self._woken = True
        # Within a turn, the end of the turn looks at ``_woken``.
        if self._parked is not None and not self._in_turn:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task)

    def want_rest(self, do: Callable[[], None]) -> None:
        """Call ``do`` once when the outputs of a turn are executed. Within a step its turn does it; a task that has its answer by
        then leaves it to the next turn."""
        self.machine.want_rest(do)
        if not self._in_turn:
            self.wake()

    def fail(self, error: Exception) -> None:
        """Note that a step of the machine raised ``error`` in a task of its owner. The machine cannot be used any more. ``run``
        raises the error, so that the driver ends the same way wherever it happened."""
        if self._failure is None:
            self._failure = error
        self._woken = True
        task, self._parked = self._parked, None
        if task is not None:  # within a step, too: the turn that follows forgets ``_woken``
            trio.lowlevel.reschedule(task)

    @property
    def failed(self) -> bool:
        """True when a step of the machine raised."""
        return self._failure is not None

    def guarded(self, step: Callable[[], None]) -> None:
        """Run ``step``, which touches the machine, in a task of the owner. ``run`` raises its error."""
        if self._failure is None:
            try:
                step()
            except Exception as error:
                self.fail(error)

    def at_once(self, step: Callable[[], None]) -> None:
        """Run ``step`` and a turn at once, not when the loop comes to it. It is for a caller that waits for an answer
        to the messages of ``step``, when there are no others to bundle with them. Within a step of the machine the messages leave with
        its turn."""
        if self._in_turn or self._nursery is None or self.machine.is_in_step:
            step()
            return
        self.guarded(self._begin)
        self._in_turn = True
        try:
            step()
        finally:
            self._in_turn = False
            self.guarded(self.turn)

    def _begin(self) -> None:
        """Note the time before a step of the machine."""
        now = self.clock()
        if now > self._due:
            self._notice(now)
        if now > self.machine.now:
            self.machine.now = now

    @property
    def is_between_turns(self) -> bool:
        """True when ``send_at_once`` may be called."""
        return not self._in_turn and self._nursery is not None and self._failure is None

    def send_at_once(self, send: Callable[[Batch], None], batch: Batch) -> None:
        """Give ``send``, which is the stack's, a message and run a turn, as ``at_once``. ``run`` raises its error."""
        try:
            self._begin()
            self._in_turn = True
            try:
                send(batch)
            finally:
                self._in_turn = False
            self._turn(self.machine.now)
        except Exception as error:
            self.fail(error)

    def watch(self, is_over: Callable[[], bool]) -> bool:
        """Take arriving inputs, in this step of a task, until ``is_over`` or for ``limits.watch`` seconds. Return
        whether it is over. A driver that cannot do so returns False at once."""
        return False

    async def stop(self) -> None:
        """Send the rest, wait for its end (for ``linger`` at most), then for the answers of directories (for
        ``directory_linger`` at most), and end ``run``."""
        self.guarded(self.turn)
        if self._failure is None:
            with trio.move_on_after(self.limits.linger):
                await self.drained()
            with trio.move_on_after(self.limits.directory_linger):
                await self.filed()
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()

    def turn(self) -> None:
        """Run a turn; see the module's docstring. Do not call it within a step of the machine."""
        now = self.clock()
        if now > self._due:
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
            self._exchange()
            if machine.has_rest:
                machine.do_rest()
                if machine.has_outgoing:
                    self._exchange()
        finally:
            self._in_turn = False
        if self._woken or machine.has_rest:
            self.wake()
        if machine.timers_moved:
            self._rearm()

    def _exchange(self) -> None:
        """Execute the machine's outputs, and hand in their results, until there are no more."""
        machine = self.machine
        for _ in range(self.limits.rounds_max):
            outgoing = machine.take_outgoing()
            if outgoing:
                self.execute(outgoing)
            if not self._inputs:
                return  # without inputs there are no further outputs
            inputs, self._inputs = self._inputs, []
            machine.handle(inputs, self.clock())
        self._woken = True

    def take(self, inputs: Sequence[In]) -> None:
        """Hand inputs in, and run a turn."""
        self._turn(self._hand_in(inputs))

    def take_answer(self, inputs: Sequence[In]) -> None:
        """Hand inputs in for a task that waits for them. Run a turn only if there may be something to send."""
        now = self._hand_in(inputs)
        if self._woken or self.machine.has_outgoing:
            self._turn(now)
            return
        if self.machine.timers_moved:
            self._rearm()
        if self.machine.has_rest:
            self.wake()

    def _hand_in(self, inputs: Sequence[In]) -> float:
        """Hand inputs in. Return the time."""
        now = self.clock()
        if now > self._due:
            self._notice(now)
        self._in_turn = True
        self.answered = 0
        try:
            self.machine.handle(inputs, now)
        finally:
            self._in_turn = False
        return now

    # --- for subclasses

    def execute(self, outs: Sequence[Out]) -> None:
        """Execute the outputs in order. Results that are known at once are added with ``happened``."""
        raise NotImplementedError

    def close_all(self) -> None:
        """Close every socket at once. It may be called twice."""
        raise NotImplementedError

    async def filed(self) -> None:
        """Wait until directories have answered all requests."""

    async def drained(self) -> None:
        """Return when no written bytes wait in this process any more."""

    def neighbours(self, groups: Sequence[Endpoint]) -> list[str]:
        """Describe the others on this machine, as far as they are known, for a member that is alone in ``groups``."""
        return []

    def happened(self, item: In) -> None:
        """Hand an input in within the same turn. ``execute`` uses it."""
        self._inputs.append(item)

    @property
    def nursery(self) -> trio.Nursery:
        assert self._nursery is not None, "the driver is not running"
        return self._nursery

    @property
    def running(self) -> bool:
        return self._nursery is not None

    def statistics(self) -> dict[str, int]:
        """Return counters: public int attributes, and the delays of this process (milliseconds)."""
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
                machine.woke(now, self._due, now)  # lateness counts in good times, too
            self._fired = now
            self.advance(now)
            self._due = now + limits.tick
            machine.timers_moved = True  # deadlines that were later than the wait may be sooner now
            self.turn()

    def advance(self, now: float) -> None:
        """Run the timers that are due."""
        self.machine.advance(now)

    def _notice(self, now: float) -> bool:
        """Notice, before inputs are handed in, whether this process was stopped or its loop blocked."""
        late = now - self._due
        if late <= self.limits.lag_threshold:
            return False
        log.info("%s: this process was late by %.1f s", self.machine.name, late)
        due, self._due = self._due, now + self.limits.tick
        self.machine.timers_moved = True
        if self._timer_scope is not None:
            self._timer_scope.deadline = self._due
        return self.machine.woke(now, due, min(due, self.machine.now))

    def _rearm(self) -> None:
        """Move the timer wait forward where needed. A wait that ends too early only looks again."""
        self.machine.timers_moved = False
        due = self.machine.next_deadline()
        if due is None or due >= self._due:
            return
        due = max(due, self._fired + self.limits.timer_slack)
        if due < self._due:
            self._due = due
            if self._timer_scope is not None:
                self._timer_scope.deadline = due
