"""LiveSide: the node that runs operations first, sends them to the backups and answers when they have confirmed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import trio

from jgroups_py.livebackup.changed import Changed
from jgroups_py.livebackup.confirming import BackupLag, Confirming
from jgroups_py.livebackup.crew import Job
from jgroups_py.livebackup.errors import BadOperation, NotLive, OutcomeUnknown
from jgroups_py.livebackup.kinds import (
    EFFECTS,
    Operation,
    OperationOutcome,
    outcome_of,
    raise_cancelled,
)
from jgroups_py.livebackup.locks import Locks
from jgroups_py.livebackup.messages import (
    MESSAGE_MAX,
    NOT_PLAIN,
    Op,
    OperationArguments,
    Part,
    Whole,
    encode,
    given,
)
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.outgoing import Outgoing
from jgroups_py.livebackup.pace import ObjectPace
from jgroups_py.livebackup.settings import LiveBackupSettings
from jgroups_py.livebackup.snapshots import SnapshotAsk
from jgroups_py.livebackup.tickets import Counters
from jgroups_py.livebackup.wake import WAKE, waited
from jgroups_py.livebackup.work import CURRENT, AloneWork, LiveObjects, LiveWork, Work
from jgroups_py.values.address import Address

PART_BYTES = 256_000
"""Bytes of a snapshot in one message, roughly."""
STATE_MAX = MESSAGE_MAX - 2 * PART_BYTES
"""The most bytes of the state of one object in a snapshot."""
FREE_MAX = 16
"""The most operations that begin without a look at the limits of the lag, after one that found less than half of each."""
FREE_SECONDS = 0.001
"""The longest time for which they do."""
PART_REMOVED = 1_000
"""The most removed objects of a snapshot in one message."""


class _Answer:
    """The answer for a waiting caller. It wakes the caller's task, without an event between them."""

    __slots__ = ("begun", "begun_after", "is_confirmed", "is_given", "outcome", "task")

    def __init__(self, begun: float, begun_after: int) -> None:
        """``begun_after``: the newest operation that was sent before this one began."""
        self.begun, self.begun_after = begun, begun_after
        self.is_given = False
        self.task: trio.lowlevel.Task | None = None
        """The task that waits for it."""
        self.is_confirmed = False
        self.outcome: OperationOutcome | None = None

    def give(self) -> None:
        """End the caller's wait."""
        self.is_given = True
        if self.task is not None and self.task.custom_sleep_data is self:
            trio.lowlevel.reschedule(self.task, WAKE)

    async def wait(self) -> None:
        """Wait until it is given."""
        if self.is_given:
            await trio.lowlevel.checkpoint()
            return
        self.task = trio.lowlevel.current_task()
        self.task.custom_sleep_data = self
        await waited()


class LiveSide:
    """One term of a live node."""

    def __init__(
        self,
        term: int,
        space: Space,
        counters: Mapping[str, int],
        settings: LiveBackupSettings,
        start: Callable[[Job], None],
        *,
        start_next: Callable[[Job], None],
        wall: Callable[[], float],
        chance: Callable[[], int],
        out: Outgoing[Address],
        awaited: Iterable[Address] = (),
    ) -> None:
        """``start`` runs a job in a task that ends with the term, and ``start_next`` does so before all jobs that wait."""
        self.term = term
        self.space = space
        self.counters = Counters(counters.items())
        self.last = 0
        """The newest operation that was sent."""
        self.confirming: Confirming[Address] = Confirming(
            settings.confirm, settings.backups_min, awaited
        )
        self.slowed = 0
        """Operations that waited because a backup was too far behind."""
        self._settings = settings
        self._start = start
        self._how = self._parallel if settings.mode == "parallel" else self._alone
        self._wall, self._chance = wall, chance
        self._running: dict[_Answer, str] = {}
        """Operations that have begun and not run to their end, the oldest first, with their names."""
        self._pausing = 0
        self._moved = trio.Event()
        self._waiting = 0
        """Callers that wait for ``_moved``."""
        self._free = 0
        """So many operations may begin without a look at the limits of the lag, until ``_free_until``."""
        self._free_until = 0.0
        self._answers: dict[int, _Answer] = {}
        self._clock = trio.lowlevel.current_clock().current_time
        """Twice as fast as trio.current_time."""
        self.pace = ObjectPace(settings.lag_aim, self.confirming.is_open, self._clock)
        self.locks = Locks(self.pace.may_begin, start_next)
        self._objects = LiveObjects(space, self.counters, self.locks, settings.checksum_every)
        self._changed = Changed(self.counters)
        self._one_at_a_time = trio.Lock()
        self.ended = False
        self._out = out

    @property
    def is_quiet(self) -> bool:
        return not self._running

    @property
    def oldest_running(self) -> str:
        """Return the name of the operation that has been running longest, or an empty text."""
        return next(iter(self._running.values()), "")

    def lag(self) -> BackupLag:
        """Return the lag of the slowest backup."""
        return self.confirming.lag(trio.current_time(), self._running_since())

    def _running_since(self) -> float:
        """Return when the operation began that runs for longest."""
        oldest = next(iter(self._running), None)
        return math.inf if oldest is None else oldest.begun

    # --- operations

    async def run(self, name: str, operation: Operation, arguments: tuple[Any, ...]) -> Any:
        """Run an operation; return its value when it is confirmed. A caller that is cancelled does not end the operation.

        Raises the operation's own error, after the confirmation, and OutcomeUnknown.
        """
        has = given(arguments)
        now = self._clock()
        self._free -= 1
        if self._free < 0 or now > self._free_until:
            if self._pausing or self.ended or self._is_behind():
                await self._turn()
                now = self._clock()
        answer = _Answer(now, self.last)
        self._running[answer] = name
        self._start(partial(self._how, answer, name, operation, has))
        # As ``_Answer.wait`` does, without its coroutine.
        answer.task = task = trio.lowlevel.current_task()
        task.custom_sleep_data = answer
        await waited()
        outcome = answer.outcome
        if not answer.is_confirmed or outcome is None:
            raise OutcomeUnknown(f"operation {name}: this node is not live any more")
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def _parallel(
        self, answer: _Answer, name: str, operation: Operation, has: OperationArguments
    ) -> None:
        work = LiveWork(name, self._wall(), self._chance(), self._objects)
        if getattr(operation, EFFECTS, False):
            work.note_effects()
        CURRENT.set(work)
        changed, record = self._changed, work.record
        try:
            try:
                outcome = OperationOutcome(await operation(work, *has.values), None)
            except Exception as error:
                outcome = OperationOutcome(None, error)
            except BaseExceptionGroup as group:
                raise_cancelled(group)
            finally:
                del self._running[answer]
                if self._waiting:
                    self.wake()
            if self._objects.space is not self.space:  # the term is over
                answer.give()
                return
            raised = "" if outcome.error is None else outcome.raised
            forgotten = self._forgotten(answer) if changed.removals else ()
            op = self._op(work, has, record, raised, forgotten)
            changed.sent(op.number, record, work.removed)
            answer.outcome = outcome
            now = self._clock()
            if record and self.confirming.backlogs:
                self.pace.sent(record[0].object, op.number, now)
            self._sent(op, answer, now)
        except BaseException:  # the term ends
            answer.give()
            raise

    def _forgotten(self, answer: _Answer) -> Sequence[str]:
        """Return the removed objects that are forgotten with the operation of ``answer``, which has just ended."""
        oldest = next(iter(self._running), answer)
        begun_after = min(oldest.begun_after, answer.begun_after)
        return self._changed.forgotten(self.confirming.is_settled, begun_after)

    async def _alone(
        self, answer: _Answer, name: str, operation: Operation, has: OperationArguments
    ) -> None:
        confirmed = _Answer(answer.begun, self.last)
        try:
            async with self._one_at_a_time:
                work = AloneWork(name, self._wall(), self._chance(), self.space)
                self._sent(self._op(work, has, None, ""), confirmed, self._clock())
                await confirmed.wait()
                if confirmed.is_confirmed:
                    answer.outcome = await outcome_of(work.run, operation, tuple(has.values))
                    answer.is_confirmed = True
        finally:
            del self._running[answer]
            self.wake()
            answer.give()

    def _op(
        self,
        work: Work,
        has: OperationArguments,
        record: list[Any] | None,
        raised: str,
        forgotten: Any = (),
    ) -> Op:
        """Make the message of an operation with its number."""
        number = self.last = self.last + 1
        encoded: Any = has.encoded
        sums: Any = work.checksums
        return Op(
            self.term,
            number,
            work.name,
            encoded,
            work.now,
            work.seed,
            record,
            raised,
            sums,
            work.effects,
            forgotten,
        )

    def _sent(self, op: Op, answer: _Answer, now: float) -> None:
        """Send an operation. ``answer`` is given when it is confirmed."""
        data, number = encode(op), op.number
        self._answers[number] = answer
        answered = self.confirming.sent(number, len(data), now)
        self._out.operation(data)
        if answered:
            self.answer(answered)

    def answer(self, numbers: list[int]) -> None:
        """Answer confirmed operations, and wake waiting callers."""
        take, wake = self._answers.pop, trio.lowlevel.reschedule
        for number in numbers:
            answer = take(number)
            answer.is_confirmed = answer.is_given = True
            task = answer.task
            if task is not None and task.custom_sleep_data is answer:
                wake(task, WAKE)
        if self._waiting:
            self.wake()
        for lock in self.pace.confirmed():
            lock.look_again(self.locks)

    def give_up(self) -> None:
        """End all waits for answers: the callers get OutcomeUnknown. No task of the term runs any more, so no operation in
        ``_running`` ends by itself."""
        self.end()
        answers, self._answers = self._answers, {}
        for answer in (*answers.values(), *self._running):
            answer.give()

    # --- turns, lag, pauses

    async def _turn(self) -> None:
        slowed = False
        while self._pausing or self._is_behind():
            if not slowed and not self._pausing:
                slowed = True
                self.slowed += 1
            await self._wait_moved()
        if self.ended:
            raise NotLive("this node is not live any more")

    def _is_behind(self) -> bool:
        """Is a limit of the lag reached? Far from all limits the next operations begin without this question."""
        if self.ended or self._pausing:
            return False
        limits, out, confirming = self._settings, self._out, self.confirming
        operations, size, oldest = confirming.behind(self._running_since())
        most = max(operations, len(confirming), out.operations)
        most += len(self._running)
        size = max(size, out.bytes)
        now = self._clock()
        age = 0.0 if oldest is None else now - oldest
        parts = most / limits.lag_operations, size / limits.lag_bytes, age / limits.lag_seconds
        if 2 * max(parts) < 1:
            self._free = min(FREE_MAX, limits.lag_operations // 4)
            self._free_until = now + min(FREE_SECONDS, limits.lag_seconds / 4)
            return False
        return most >= limits.lag_operations or size > limits.lag_bytes or age > limits.lag_seconds

    def wake(self) -> None:
        """Wake waiting callers, so that they look again."""
        if self._waiting:
            self._moved.set()
            self._moved = trio.Event()

    async def _wait_moved(self) -> None:
        self._waiting += 1
        try:
            await self._moved.wait()
        finally:
            self._waiting -= 1

    async def quiet(self) -> None:
        """Wait until no operation is running."""
        while self._running:
            await self._wait_moved()

    async def _ended_before(self) -> None:
        """Wait until the operations that run now have ended. Others may begin meanwhile."""
        before = set(self._running)
        while self._running and next(iter(self._running)) in before:
            await self._wait_moved()

    def end(self) -> None:
        """Let no further operation begin."""
        self.ended = True
        self._free = 0
        self.wake()

    def leave_objects(self) -> None:
        """Give operations that still run other objects, because those of the node belong to another term now. A cancelled
        operation goes on if it waits for a thread: then it may make changes without a checkpoint."""
        self._objects.space = others = Space(self.space.catalogue)
        self._objects.find = others.find

    # --- snapshots

    async def snapshot(self, asked: SnapshotAsk) -> list[bytes]:
        """Return the messages of a snapshot: the wanted objects with their counters, at a moment without running
        operations. New operations wait only when those that ran before have ended. So an operation that never ends
        holds up the joiner, and not the clients.

        Raises trio.TooSlowError if one of these two waits is longer than ``snapshot_wait``, and BadOperation for an
        object whose ``save`` raises, or returns other than plain data, or more than STATE_MAX.
        """
        with trio.fail_after(self._settings.snapshot_wait):
            await self._ended_before()
        self._pausing += 1
        self._free = 0
        try:
            with trio.fail_after(self._settings.snapshot_wait):
                await self.quiet()
            return await self._parts(asked)
        finally:
            self._pausing -= 1
            self.wake()

    async def _parts(self, asked: SnapshotAsk) -> list[bytes]:
        ask, since = asked.number, self._changed.since(asked.since)
        found: list[bytes] = []
        objects: list[tuple[str, int, Any]] = []
        size = 0
        saved = await self.space.saved(lambda key: self._changed.is_changed(key, since))
        for key, state in saved.items():
            entry = (key, self.counters[key], state)
            try:
                length = len(encode(entry))
            except NOT_PLAIN as error:
                raise BadOperation(f"{key}: save() returned no plain data: {error}") from error
            if length > STATE_MAX:
                raise BadOperation(
                    f"{key}: its state has {length:,} bytes; at most {STATE_MAX:,} are taken"
                )
            size += length
            objects.append(entry)
            if size > PART_BYTES:
                found.append(encode(Part(self.term, ask, objects)))
                objects, size = [], 0
        if objects:
            found.append(encode(Part(self.term, ask, objects)))
        removed = self._changed.removed()
        for first in range(0, len(removed), PART_REMOVED):
            some = removed[first : first + PART_REMOVED]
            found.append(encode(Part(self.term, ask, [], some)))
        number = len(saved) + len(removed)
        found.append(encode(Whole(self.term, ask, number, self.last, since)))
        return found
