"""A machine: all parts of one member that a driver runs, without any I/O of its own.

To its driver a machine looks like one connection: things that happened come in with the time
(``handle``), due timers fire (``advance``), things to do come out (``take_outgoing``), and one
deadline is named (``next_deadline``). The trio driver and the simulator call the same four.

Inside, one machine holds one stack and the child stacks its protocols opened (RELAY's bridge);
they share the clock, the handles and the heap of timers.
"""

from __future__ import annotations

import heapq
import os
import random as _random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from jgroups_py.config.model import StackConfig
from jgroups_py.stack.key_pairs import new_key_pair
from jgroups_py.stack.lateness import Lateness
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
from jgroups_py.stack.sides import ProtocolSide, StackSide
from jgroups_py.values.events import Lag
from jgroups_py.values.native import mypyc_attr
from jgroups_py.values.turned_away import TurnedAway

Trace = Callable[[float, str, str, str, dict[str, Any]], None]
"""Called with time, member's name, protocol's name, event and details."""


class Timer:
    """A named, cancellable timer of one protocol. A second start moves it. While this process does not
    run, the timer's time stands still (lateness.py). Once ``owner``'s stack is closed, it runs no more."""

    __slots__ = ("_callback", "_machine", "_put_off", "_token", "deadline", "name", "owner")

    def __init__(
        self, machine: Machine, callback: Callable[[], None], name: str, owner: ProtocolSide | None
    ) -> None:
        self._machine = machine
        self.owner = owner
        self._callback = callback
        self._token = 0
        self._put_off = 0.0
        self.name = name
        self.deadline: float | None = None

    @property
    def armed(self) -> bool:
        return self.deadline is not None

    def start(self, delay: float) -> None:
        self.start_at(self._machine.now + delay)

    def start_at(self, deadline: float) -> None:
        if deadline == self.deadline or (self.owner is not None and self.owner.stack.closed):
            return
        self._put_off = 0.0
        self._move(deadline)

    def _move(self, deadline: float) -> None:
        self.deadline = deadline
        self._token += 1
        self._machine._push_timer(deadline, self, self._token)

    def _forgive(self, lag: float, lateness: Lateness) -> None:
        assert self.deadline is not None
        more = lateness.forgiven(lag, self._put_off)
        if more > 0:
            self._put_off += more
            self._move(self.deadline + more)

    def cancel(self) -> None:
        self.deadline = None
        self._token += 1

    def _is_current(self, token: int) -> bool:
        return token == self._token and self.deadline is not None

    def _fire(self) -> None:
        self.deadline = None
        self._callback()


@mypyc_attr(allow_interpreted_subclasses=True)
class Machine:
    """See the module's docstring.

    ``name``: the member's logical name. ``random``: its own generator (UUIDs, intervals, picks).
    ``host``: the address to bind to where a stack file names none. ``lateness``: how late this process is, and the
    silence of others that this excuses. ``secrets(n)``: n bytes that nobody can guess (keys, nonces, tokens); only a
    simulation takes them from a generator with a seed. ``key_pairs(bits)``: a new private key of RSA.
    """

    def __init__(
        self,
        name: str,
        *,
        random: _random.Random,
        now: float = 0.0,
        host: str = "127.0.0.1",
        trace: Trace | None = None,
        lateness: Lateness | None = None,
        secrets: Callable[[int], bytes] = os.urandom,
        key_pairs: Callable[[int], bytes] = new_key_pair,
    ) -> None:
        self.name = name
        self.lateness = lateness or Lateness()
        self.random = random
        self.secrets = secrets
        self.key_pairs = key_pairs
        self.now = now
        self.host = host
        self.trace = trace
        self.files_max: int | None = None
        """The most files that this process may have open, if its driver knows a limit."""
        self.prepare: Callable[[StackConfig], StackConfig] | None = None
        """A function for the stack files of child stacks: it turns host names into numbers. The simulator
        sets none."""
        self.turned_away: dict[str, int] = {}
        """Refusals by ``protocol.cause``; of all stacks, closed ones included."""
        self.on_turned_away: Callable[[TurnedAway], None] | None = None
        """Gets each TurnedAway. It must not raise."""
        self.stacks: list[StackSide] = []
        self._outgoing: list[Out] = []
        self._handles: dict[Handle, ProtocolSide] = {}
        self._next_handle = 1
        self._timers: list[tuple[float, int, Timer, int]] = []
        self._timer_count = 0
        self.timers_moved = False
        """Whether a timer was started since the driver, which clears this, last asked for the next deadline."""
        self._soon: deque[Callable[[], None]] = deque()
        self._flushers: dict[Callable[[], None], None] = {}
        self.has_rest = False
        """Whether ``do_rest`` has something to do. Then the driver calls it when it has executed the outputs."""
        self._rest: dict[Callable[[], None], None] = {}
        self._depth = 0
        self.timers_fired = 0
        self.unrouted = 0
        """Inputs for handles that were gone already."""

    # --- calls of the driver

    def handle(self, inputs: Iterable[In], now: float) -> None:
        """Take inputs, in order."""
        if now > self.now:
            self.now = now
        self._depth += 1
        handles = self._handles
        for item in inputs:
            handle = item.listener if type(item) is Accepted else item.handle
            protocol = handles.get(handle)
            if protocol is None:
                self.unrouted += 1
                continue
            protocol.on_input(item)
            if self._soon:
                self._run_soon()
        self._depth -= 1
        if self._depth == 0 and self._soon:
            self._run_soon()

    def advance(self, now: float) -> None:
        """Fire every timer that is due, in the order of deadlines."""
        self.enter(now)
        timers = self._timers
        while timers and timers[0][0] <= now:
            _, _, timer, token = heapq.heappop(timers)
            if timer._is_current(token):
                self.timers_fired += 1
                timer._fire()
                if self._soon:
                    self._run_soon()
        self.leave()

    def woke(self, now: float, wanted: float, since: float) -> bool:
        """The driver calls this before ``handle`` or ``advance``. It wanted to run this machine at ``wanted``, which is
        past. The last time it could was ``since``. Returns True if that is a lag. After a lag, timers are put off by
        the time since then, and the stacks hear of it."""
        if not self.lateness.note(now - wanted, now):
            return False
        late = now - since
        self.enter(now)
        for _, _, timer, token in list(self._timers):
            if timer._is_current(token):
                timer._forgive(late, self.lateness)
        for stack in list(self.stacks):
            if not stack.closed:
                stack.event_down(Lag(late))
        self.leave()
        return True

    def next_deadline(self) -> float | None:
        """Return the latest time to call ``advance``. None: no timer runs."""
        timers = self._timers
        while timers:
            deadline, _, timer, token = timers[0]
            if token == timer._token and timer.deadline is not None:
                return deadline
            heapq.heappop(timers)
        return None

    def take_outgoing(self) -> list[Out]:
        """Return the things to do, each once. Bundles all messages that were sent since the last call."""
        if self._flushers:
            self.take_flushes()
        out, self._outgoing = self._outgoing, []
        return out

    def do_rest(self) -> None:
        """Do what can wait until the outputs are executed. There may be new outputs."""
        self.has_rest = False
        rest, self._rest = self._rest, {}
        self._depth += 1
        for do in rest:
            do()
        self.leave()

    @property
    def is_in_step(self) -> bool:
        """True within a step: no turn of the driver may begin."""
        return self._depth > 0

    @property
    def has_outgoing(self) -> bool:
        """Return whether ``take_outgoing`` would return something."""
        return bool(self._outgoing or self._flushers)

    def check(self) -> None:
        """Check the invariants of every protocol. Simulator and tests call this after a step."""
        for stack in self.stacks:
            for check in stack.checks:
                check()

    def check_step(self) -> None:
        """Check the invariants that a step may have broken. Here these are all. The simulator's machine knows which."""
        self.check()

    # --- calls of stacks and protocols

    def enter(self, now: float | None = None) -> None:
        """Begin a step: every call from outside is one."""
        if now is not None and now > self.now:
            self.now = now
        self._depth += 1

    def leave(self) -> None:
        """End a step, and run work that was put off."""
        self._depth -= 1
        if self._depth == 0 and self._soon:
            self._run_soon()

    def soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` when the handler that is running now has returned."""
        self._soon.append(callback)

    def _run_soon(self) -> None:
        soon = self._soon
        self._depth += 1
        while soon:
            soon.popleft()()
        self._depth -= 1

    def take_flushes(self) -> None:
        """Bundle waiting messages, and leave them outgoing. A stack that closes calls this first."""
        while self._flushers:
            flushers, self._flushers = self._flushers, {}
            for flush in flushers:
                flush()
            if self._soon:
                self._run_soon()

    def want_flush(self, flush: Callable[[], None]) -> None:
        """Call ``flush`` once when the driver next takes outputs."""
        self._flushers[flush] = None

    def want_rest(self, do: Callable[[], None]) -> None:
        """Call ``do`` once when the driver has executed the outputs. Others may wait for these; nobody waits for ``do``."""
        self._rest[do] = None
        self.has_rest = True

    def put(self, out: Out) -> None:
        self._outgoing.append(out)

    def open(
        self, protocol: ProtocolSide, out: Bind | JoinGroup | Connect | Resolve | Consult
    ) -> None:
        """Put ``out`` and route its handle's inputs to ``protocol``."""
        self._handles[out.handle] = protocol
        self._outgoing.append(out)

    def route(self, handle: Handle, protocol: ProtocolSide) -> None:
        """Route inputs for ``handle`` (an accepted connection) to ``protocol``."""
        self._handles[handle] = protocol

    def unroute(self, handle: Handle) -> None:
        self._handles.pop(handle, None)

    def new_handle(self) -> Handle:
        handle = self._next_handle
        self._next_handle += 1
        return handle

    def timer(
        self, callback: Callable[[], None], name: str, owner: ProtocolSide | None = None
    ) -> Timer:
        return Timer(self, callback, name, owner)

    def linked(self, stack: StackSide) -> None:
        """Note that a stack is complete and about to start. The simulator's machine begins to watch it here."""

    def drop_timers(self, stack: StackSide) -> None:
        """Drop a closed stack's timers at once: each would keep the whole stack until it is due."""
        gone = [
            e for e in self._timers if (owner := e[2].owner) is not None and owner.stack is stack
        ]
        for _, _, timer, _ in gone:
            timer.cancel()
        # In place: a timer that fires now may close the stack.
        self._timers[:] = [entry for entry in self._timers if entry[2].deadline is not None]
        heapq.heapify(self._timers)

    def _push_timer(self, deadline: float, timer: Timer, token: int) -> None:
        self._timer_count += 1
        self.timers_moved = True
        heapq.heappush(self._timers, (deadline, self._timer_count, timer, token))
