"""Work: an operation while it runs. Its changes are collected in the context of its task (P8).

An operation gets objects from its work and calls their methods, one after the other:

    async def send(work: Work, session: str, queue: str, message: str) -> int:
        await work.get(Session, session).sent()
        return await work.get(Queue, queue).put(message)
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Final

import trio

from jgroups_py.livebackup.applier import RECORD_MAX
from jgroups_py.livebackup.errors import BadOperation, OutsideOperation
from jgroups_py.livebackup.kinds import (
    REMOVAL,
    OperationOutcome,
    Stateful,
    is_awaited,
    key_of,
    method_of,
    outcome_of,
    raise_cancelled,
)
from jgroups_py.livebackup.locks import Locks
from jgroups_py.livebackup.messages import plain
from jgroups_py.livebackup.objects import Object, Space
from jgroups_py.livebackup.tickets import Counters, Ticket

REST_EVERY: Final = 100
"""The number of changes without a wait after which an operation gives other tasks their turn."""
KINDS_MAX: Final = 1_000
"""The most kinds whose classes of handles are kept."""
_GONE: Final = object()
CURRENT: Final[ContextVar[Work | None]] = ContextVar("jgroups_py.livebackup", default=None)


class Work:
    """One running operation on one node. Made by the node."""

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

    def is_special(self) -> bool:
        """Does the next change need more checks: is it refused, or a pause due before it?"""
        number = self._changes + 1
        return (
            self._busy
            or not number % REST_EVERY
            or number > RECORD_MAX
            or CURRENT.get() is not self
        )

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

    def enter(self) -> None:
        """Make this the operation of a context that ends with it, as that of a crew's job does."""
        CURRENT.set(self)


class Handle:
    """An object in an operation. Each of its public methods is awaited."""

    __slots__ = ("_key", "_work")

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
    return type("Handle", (Handle,), {"__slots__": (), **{n: _caller_of(n) for n in names}})


class LiveWork(Work):
    """An operation on the live node: it locks each object in turn and takes its number (P6, P7)."""

    effects: list[tuple[str, list[Any], str]] | None = None
    """Method, arguments and error of each change, for an operation that backups do not run again."""

    def __init__(
        self,
        name: str,
        now: float,
        seed: int,
        space: Space,
        counters: Counters,
        *,
        locks: Locks,
        checksum_every: int = 0,
        by_effects: bool = False,
    ) -> None:
        self.name, self.now, self.seed = name, now, seed
        self._space, self._counters, self._locks = space, counters, locks
        self._checksum_every = checksum_every
        self._notes = by_effects or checksum_every > 0
        """Do backups need more of a change than its number?"""
        self.record: list[Ticket] = []
        self.removed: dict[str, int] = {}
        """The number of an object's removal, by object."""
        self.checksums: list[tuple[int, bytes]] = []
        """Place in the record, and the checksum of the object after that change."""
        if by_effects:
            self.effects = []

    async def change(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        """As in ``Work``, which makes all changes but the common one: that of an object that exists and is free."""
        found = self._space.find(key)
        if (
            found is None
            or not found.is_here
            or self._notes
            or method == REMOVAL
            or self.is_special()
            or not found.lock.take(not self.record, self._locks)
        ):
            return await super().change(key, method, arguments)
        self._changes += 1
        self._busy = True
        try:
            function = method_of(type(found.state), method, key)
            self.record.append(self._counters.next(key))
            value = function(found.state, *arguments)
            return await value if is_awaited(value) else value
        except BaseExceptionGroup as group:
            if isinstance(group, Exception):
                raise
            raise_cancelled(group)
        finally:
            self._busy = False
            found.lock.free(self._locks)

    async def make(self, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
        function = self._space.check(key, method, arguments)
        if self.effects is not None:
            arguments = tuple(plain(arguments))
        locks = self._locks
        while True:
            found, is_new = self._space.obtain(key)
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
        if self._space.find(key) is not found:
            return _GONE
        ticket = self._counters.next(key)
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
            outcome = await self._space.remove(found, is_new, arguments)
            if self._space.find(key) is None:
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
        if self._checksum_every and ticket.number % self._checksum_every == 0:
            outcome, checksum = await self._space.checked(ticket.object, outcome)
            self.checksums.append((len(self.record) - 1, checksum))
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
