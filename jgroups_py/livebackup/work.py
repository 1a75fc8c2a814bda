"""Work: an operation while it runs. Its changes are collected in the context of its task (P8).

An operation gets objects from its work and calls their methods, one after the other:

    async def send(work: Work, session: str, queue: str, message: str) -> int:
        await work.get(Session, session).sent()
        return await work.get(Queue, queue).put(message)
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from functools import lru_cache, partial
from types import CoroutineType, FunctionType
from typing import Any, ClassVar, Final

import trio

from jgroups_py.livebackup.applier import RECORD_MAX
from jgroups_py.livebackup.errors import BadOperation, OutsideOperation
from jgroups_py.livebackup.kinds import (
    OWN,
    REMOVAL,
    OperationOutcome,
    Stateful,
    is_awaited,
    key_of,
    outcome_of,
    raise_cancelled,
)
from jgroups_py.livebackup.locks import Locks
from jgroups_py.livebackup.messages import plain
from jgroups_py.livebackup.objects import Object, Space
from jgroups_py.livebackup.tickets import NAME_MAX, Counters, Ticket

REST_EVERY: Final = 100
"""The number of changes without a wait after which an operation gives other tasks their turn."""
KINDS_MAX: Final = 1_000
"""The most kinds whose classes of handles are kept."""
_GONE: Final = object()
_new: Final = tuple.__new__
"""Make a named tuple in half of the time."""
CURRENT: Final[ContextVar[Work | None]] = ContextVar("jgroups_py.livebackup", default=None)


class Work:
    """One running operation on one node. Made by the node."""

    effects: list[tuple[str, list[Any], str]] | None = None
    """Method, arguments and error of each change, for an operation that backups do not run again."""
    checksums: Sequence[tuple[int, bytes]] = ()
    """Place in the record, and the checksum of the object after that change."""
    _random: random.Random | None = None
    _busy = False
    _changes = 0

    def __init__(self, name: str, now: float, seed: int) -> None:
        self.name, self.seed = name, seed
        self.now = now
        """The live node's time when it began the operation, in seconds since 1970: the same on the backup."""

    @property
    def random(self) -> random.Random:
        """Return a random generator that draws the same on the backup. It is made on demand, because seeding costs more
        than most operations."""
        if self._random is None:
            self._random = random.Random(self.seed)
        return self._random

    def get(self, kind: type[Stateful], name: str) -> Handle:
        """Return a handle on the object of that kind and name. The first call of a method creates the object."""
        handle = _handle_of(kind)  # type: ignore[arg-type]  # a class has a hash
        if type(name) is str and name.isascii() and len(name) <= handle._short:
            return handle(self, handle._prefix + name)
        return handle(self, key_of(kind, name))

    async def remove(self, kind: type[Stateful], name: str, *, unless: str = "") -> bool:
        """Remove the object, as a change like others. Return whether it existed and is gone.

        The name may be used again for a new object, even in this operation. ``unless``: a method without arguments that
        only reads; if it returns a true value, the object stays. The object does not change between that call and the
        removal. Raises that method's errors.
        """
        arguments = (unless,) if unless else ()
        removed: bool = await self.change(key_of(kind, name), REMOVAL, arguments)
        return removed

    async def change(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of an object. One change of an operation ends before the next one begins."""
        if CURRENT.get() is not self:
            raise OutsideOperation(f"{key}.{method}: operation {self.name} is over")
        if self._busy:
            raise BadOperation(
                f"{key}.{method}: operation {self.name} makes one change after the other, and a method changes no other object"
            )
        if self._changes >= RECORD_MAX:
            raise BadOperation(
                f"{key}.{method}: operation {self.name} has made {RECORD_MAX} changes, and may make no more"
            )
        self._changes += 1
        self._busy = True
        try:
            if not self._changes % REST_EVERY:
                await trio.lowlevel.checkpoint()
            return await self.make(key, method, arguments)
        finally:
            self._busy = False

    async def make(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        """Make the change, as the live node or a backup does it."""
        raise NotImplementedError

    async def run(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> Any:
        """Run the operation in the context of this task."""
        token = CURRENT.set(self)
        try:
            return await function(self, *arguments)
        finally:
            CURRENT.reset(token)


class Handle:
    """An object in an operation. Each of its public methods is awaited."""

    __slots__ = ("_key", "_work")
    _prefix: ClassVar[str]
    """The beginning of the keys of its kind."""
    _short: ClassVar[int]
    """The most characters of a name that is surely short enough."""

    def __init__(self, work: Work, key: str) -> None:
        self._work, self._key = work, key

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name[:1] == "_":
            raise AttributeError(name)
        return partial(_caller_of(name), self)

    def __repr__(self) -> str:
        return f"<{self._key}>"


def _caller_of(method: str) -> Callable[..., Awaitable[Any]]:
    def call(handle: Handle, *arguments: Any) -> Awaitable[Any]:
        return handle._work.change(handle._key, method, arguments)

    return call


@lru_cache(KINDS_MAX)
def _handle_of(kind: type[Stateful]) -> type[Handle]:
    """Return a class of handles that has the kind's methods. ``Handle`` finds all names, but in three times the time."""
    known = vars(Handle)
    names = [name for name in dir(kind) if name[:1] != "_" and name not in known]
    prefix = key_of(kind, "")
    own = {"__slots__": (), "_prefix": prefix, "_short": NAME_MAX - len(prefix)}
    return type("Handle", (Handle,), {**own, **{n: _caller_of(n) for n in names}})


class LiveObjects:
    """The objects of a live node in one term, as its operations need them."""

    __slots__ = ("checksum_every", "counters", "find", "locks", "space")

    def __init__(
        self, space: Space, counters: Counters, locks: Locks, checksum_every: int = 0
    ) -> None:
        self.space, self.counters, self.locks = space, counters, locks
        self.find = space.find
        self.checksum_every = checksum_every


class LiveWork(Work):
    """An operation on the live node: it locks each object in turn and takes its number (P6, P7)."""

    _notes = False
    """Do backups need more of a change than its number?"""

    def __init__(self, name: str, now: float, seed: int, objects: LiveObjects) -> None:
        self.name, self.now, self.seed = name, now, seed
        self._objects = objects
        self.record: list[Ticket] = []
        self.removed: dict[str, int] = {}
        """The number of an object's removal, by object."""
        if objects.checksum_every:
            self._notes = True
            self._sums: list[tuple[int, bytes]] = []
            self.checksums = self._sums

    def note_effects(self) -> None:
        """Note the effects of changes: backups do not run this operation again."""
        self.effects, self._notes = [], True

    async def change(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        """As in ``Work``, which makes all changes but the common one: that of an object that exists and is free. The common one
        calls as few functions as it can."""
        objects, record = self._objects, self.record
        number = self._changes + 1
        if (
            (found := objects.find(key)) is None
            or not found.is_here
            or self._notes
            or self._busy
            or CURRENT.get() is not self
            or not number % REST_EVERY
            or number > RECORD_MAX
            or type(function := getattr(type(found.state), method, None)) is not FunctionType
            or method[:1] == "_"
            or method in OWN
            or (lock := found.lock).is_held  # as in ``ObjectLock.take``
            or not (record or (not lock.beginning and objects.locks.may_begin(lock)))
        ):
            return await super().change(key, method, arguments)
        self._changes = number
        self._busy = lock.is_held = True
        try:
            counters = objects.counters
            count = counters[key] = counters[key] + 1
            record.append(_new(Ticket, (key, count)))
            value = function(found.state, *arguments)
            return await value if type(value) is CoroutineType or is_awaited(value) else value
        except BaseExceptionGroup as group:
            if isinstance(group, Exception):
                raise
            raise_cancelled(group)
        finally:
            self._busy = lock.is_held = False
            if lock.going_on or lock.beginning:  # as in ``ObjectLock.free``
                lock.look_again(objects.locks)

    async def make(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        function = self._objects.space.check(key, method, arguments)
        if self.effects is not None:
            arguments = tuple(plain(arguments))
        locks = self._objects.locks
        while True:
            found, is_new = self._objects.space.obtain(key)
            begins = not self.record
            if found.lock.take(begins, locks):
                try:
                    value = await self._change(found, is_new, function, method, arguments)
                except BaseExceptionGroup as group:
                    if isinstance(group, Exception):
                        raise
                    raise_cancelled(group)
                finally:
                    found.lock.free(locks)
            else:
                change = partial(self._change, found, is_new, function, method, arguments)
                value = await found.lock.change_in_line(begins, change, locks)
            if value is not _GONE:
                return value

    async def _change(
        self,
        found: Object,
        is_new: bool,
        function: Callable[..., Any] | None,
        method: str,
        arguments: tuple[Any, ...],
    ) -> Any:
        """Make the change, with the right to change the object. _GONE: it was removed meanwhile."""
        key = found.key
        if self._objects.space.find(key) is not found:
            return _GONE
        ticket = self._objects.counters.next(key)
        self.record.append(ticket)
        if function is not None and found.is_here and not self._notes:
            try:
                value = function(found.state, *arguments)
                return await value if is_awaited(value) else value
            except BaseExceptionGroup as group:
                if isinstance(group, Exception):
                    raise
                raise_cancelled(group)
        if method == REMOVAL:
            outcome = await self._objects.space.remove(found, is_new, arguments)
            if self._objects.space.find(key) is None:
                self.removed[key] = ticket.number
        else:
            outcome = await outcome_of(found.call, method, arguments)
        if self._notes:
            outcome = await self._noted(ticket, method, arguments, outcome)
        return outcome.unwrap()

    async def _noted(
        self, ticket: Ticket, method: str, arguments: tuple[Any, ...], outcome: OperationOutcome
    ) -> OperationOutcome:
        """Note the checksum and the effect of a change, if backups need them. Return its outcome."""
        if self._objects.checksum_every and ticket.number % self._objects.checksum_every == 0:
            outcome, checksum = await self._objects.space.checked(ticket.object, outcome)
            self._sums.append((len(self.record) - 1, checksum))
        if self.effects is not None:
            self.effects.append((method, list(arguments), outcome.raised))
        return outcome


class AloneWork(Work):
    """One operation at a time, without numbers: the reference (P1)."""

    def __init__(self, name: str, now: float, seed: int, space: Space) -> None:
        super().__init__(name, now, seed)
        self._space = space

    async def make(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        self._space.check(key, method, arguments)
        if method == REMOVAL:
            outcome = await self._space.remove(*self._space.obtain(key), arguments)
            return outcome.unwrap()
        return (await outcome_of(self._space.object(key).call, method, arguments)).unwrap()
