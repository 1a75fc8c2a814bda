"""Objects: the stateful objects of a node, with their locks, in this process or in a worker's."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import CoroutineType, FunctionType
from typing import Any, Final

import trio

from jgroups_py.livebackup.errors import BadOperation, WorkerLost
from jgroups_py.livebackup.kinds import (
    OWN,
    REMOVAL,
    Catalogue,
    OperationOutcome,
    Stateful,
    is_awaited,
    is_only_reading,
    method_of,
    outcome_of,
    raise_cancelled,
    undo_of,
)
from jgroups_py.livebackup.locks import ObjectLock
from jgroups_py.livebackup.messages import checksum_of
from jgroups_py.livebackup.processes import Workers
from jgroups_py.stack.raised import said, text_of

Undo = Callable[[], Any]


class Object:
    """A stateful object with its lock."""

    __slots__ = ("is_here", "key", "lock", "state")

    def __init__(self, key: str, state: Stateful) -> None:
        self.key = key
        self.state = state
        self.is_here = state.runs_in == "task"
        """Do its methods run in the operation's own task?"""
        self.lock = ObjectLock(key)

    def method(self, name: str) -> Callable[..., Any]:
        return partial(method_of(type(self.state), name, self.key), self.state)

    async def checked(self, outcome: OperationOutcome) -> tuple[OperationOutcome, bytes]:
        """Return the outcome of a change and the checksum of the object after it. If ``save`` returns other than plain
        data, or raises, the outcome is BadOperation, on both sides."""
        try:
            return outcome, checksum_of(await _saved(self))
        except BadOperation as error:
            return OperationOutcome(None, error), b""
        except TypeError as error:
            return OperationOutcome(None, _not_plain(self.key, error)), b""

    async def save(self) -> Any:
        """Return the state as plain data."""
        return self.state.save()

    async def load(self, state: Any) -> None:
        """Take a state. Raises the errors of the kind."""
        self.state.load(state)

    async def forget(self) -> None:
        """Forget the state: the object is removed."""

    async def leave(self) -> Undo:
        """Remove the object. Return a function that restores its state."""
        return _nothing

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method. Return its value or an awaitable of it, for ``outcome_of``."""
        state = self.state
        method = method_of(type(state), name, self.key)
        if not self.is_here:
            return trio.to_thread.run_sync(method, state, *arguments)
        return method(state, *arguments)

    async def call_undoable(
        self,
        name: str,
        arguments: tuple[Any, ...],
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> tuple[OperationOutcome, Undo]:
        """Call a method. Return the outcome and its undo. ``keep`` gets a copy of the attributes before the call."""
        state = self.state
        method = getattr(type(state), name, None)
        if type(method) is not FunctionType or name[:1] == "_" or name in OWN:
            method = method_of(type(state), name, self.key)  # it raises
        undo_name = None
        if method.__dict__:  # it has a mark
            if is_only_reading(type(state), name):
                return await outcome_of(self.call, name, arguments), _nothing
            undo_name = undo_of(type(state), name)
        before = _copied(vars(state)) if keep or not undo_name else None
        if keep is not None:
            assert before is not None
            keep(before)
        try:
            result = method(state, *arguments) if self.is_here else self.call(name, arguments)
            if type(result) is CoroutineType or is_awaited(result):
                result = await result
            outcome = OperationOutcome(result, None)
        except Exception as error:
            outcome = OperationOutcome(None, error)
        except BaseException as error:
            if before is not None:
                self._restore(before)
            if isinstance(error, BaseExceptionGroup):
                raise_cancelled(error)
            raise
        if undo_name is None:
            assert before is not None
            return outcome, partial(self._restore, before)
        if outcome.error is not None:
            return outcome, _nothing  # a method that raises has made no change
        return outcome, partial(self.method(undo_name), outcome.value, *arguments)

    def _restore(self, before: dict[str, Any]) -> None:
        vars(self.state).clear()
        vars(self.state).update(before)


class OwnedObject(Object):
    """An object in a process of its node. ``state`` is a blank object; only its class counts.

    A running call runs to its end even if its operation is cancelled.
    """

    __slots__ = ("_workers",)

    def __init__(self, key: str, state: Stateful, workers: Workers) -> None:
        super().__init__(key, state)
        self._workers = workers

    async def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """As in ``Object``."""
        reply = await self._workers.ask("call", self.key, name, *arguments)
        return OperationOutcome(reply.value, reply.error).unwrap()

    async def call_undoable(
        self,
        name: str,
        arguments: tuple[Any, ...],
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> tuple[OperationOutcome, Undo]:
        if is_only_reading(type(self.state), name):
            return await outcome_of(self.call, name, arguments), _nothing
        undo_name = undo_of(type(self.state), name)
        ask = self._workers.ask
        reply = await ask("call" if undo_name else "undoable", self.key, name, *arguments)
        outcome = OperationOutcome(reply.value, reply.error)
        if undo_name is None:
            return outcome, partial(ask, "restore", self.key, "", reply.before)
        if outcome.error is not None:
            return outcome, _nothing
        return outcome, partial(ask, "call", self.key, undo_name, outcome.value, *arguments)

    async def save(self) -> Any:
        reply = await self._workers.ask("save", self.key)
        return OperationOutcome(reply.value, reply.error).unwrap()

    async def load(self, state: Any) -> None:
        reply = await self._workers.ask("load", self.key, "", state)
        OperationOutcome(None, reply.error).unwrap()

    async def forget(self) -> None:
        await self._workers.ask("drop", self.key)

    async def leave(self) -> Undo:
        reply = await self._workers.ask("take", self.key)
        return partial(self._workers.ask, "restore", self.key, "", reply.before)


def _nothing() -> None:
    pass


_NEVER_CHANGE: Final = frozenset({int, str, bytes, float, bool, type(None)})


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """Copy deeply. Most values of many objects never change, and copy.deepcopy would visit each of them."""
    if _NEVER_CHANGE.issuperset(map(type, attributes.values())):
        return attributes.copy()
    rest = {n: value for n, value in attributes.items() if type(value) not in _NEVER_CHANGE}
    return {**attributes, **copy.deepcopy(rest)}


class Space:
    """All objects of a node, by key: ``Queue/orders``."""

    def __init__(self, catalogue: Catalogue, workers: Workers | None = None) -> None:
        """``workers``: for kinds that run in a process."""
        self.catalogue = catalogue
        self._workers = workers
        self._objects: dict[str, Object] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def object(self, key: str) -> Object:
        """Return the object; create it if it is missing. BadOperation: an unknown kind."""
        return self.obtain(key)[0]

    def obtain(self, key: str) -> tuple[Object, bool]:
        """Return the object as ``object`` does, and whether it was created."""
        found = self._objects.get(key)
        if found is not None:
            return found, False
        found = self._objects[key] = self._made(key, self._kind(key)())
        return found, True

    def _made(self, key: str, state: Stateful) -> Object:
        if state.runs_in != "process":
            return Object(key, state)
        assert self._workers is not None, "the node has no processes"
        return OwnedObject(key, state, self._workers)

    @property
    def objects(self) -> tuple[Object, ...]:
        return tuple(self._objects.values())

    def find(self, key: str) -> Object | None:
        """Return the object, if it exists."""
        return self._objects.get(key)

    def check(
        self, key: str, method: str, arguments: Sequence[Any] = ()
    ) -> Callable[..., Any] | None:
        """Check a call without creating an object. Return the method, or None for a removal. BadOperation: no such kind or
        public method."""
        found = self._objects.get(key)
        kind = self._kind(key) if found is None else type(found.state)
        if method != REMOVAL:
            return method_of(kind, method, key)
        for name in arguments:
            method_of(kind, name, key)
        return None

    def _kind(self, key: str) -> type[Stateful]:
        kind = key.partition("/")[0]
        if kind not in self.catalogue.kinds:
            raise BadOperation(
                f"{key}: no kind {kind}; there are {', '.join(sorted(self.catalogue.kinds))}"
            )
        return self.catalogue.kinds[kind]

    async def drop(self, key: str) -> None:
        """Remove the object, if it exists. The caller holds its lock."""
        found = self._objects.get(key)
        if found is not None:
            await found.forget()
            del self._objects[key]

    def change_undoable(
        self,
        key: str,
        method: str,
        arguments: tuple[Any, ...],
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> Awaitable[tuple[OperationOutcome, Undo]]:
        """Make a change, perhaps a removal, when it is awaited, which must be done. Return the outcome and its undo. ``keep``
        gets a copy of the attributes before it."""
        found, is_new = self.obtain(key)
        if method == REMOVAL:
            return self._remove_undoable(found, is_new, arguments, keep)
        change = found.call_undoable(method, arguments, keep)
        return self._first_change(found, change) if is_new else change

    async def _first_change(
        self, found: Object, change: Awaitable[tuple[OperationOutcome, Undo]]
    ) -> tuple[OperationOutcome, Undo]:
        """Make the change that the object was created for."""
        try:
            outcome, _ = await change
        except BaseException:
            del self._objects[found.key]
            raise
        return outcome, partial(self.drop, found.key)

    async def remove(self, found: Object, is_new: bool, unless: Sequence[str]) -> OperationOutcome:
        """Remove the object, unless the method ``unless`` returns a true value. ``is_new``: it was created for this
        call. The outcome: did it exist and is it gone?"""
        for name in () if is_new else unless:
            outcome = await outcome_of(found.call, name, ())
            if outcome.error is not None or outcome.value:
                return OperationOutcome(False, outcome.error)
        if self._objects.get(found.key) is found:  # ``unless`` may have waited until another term
            await self.drop(found.key)
        return OperationOutcome(not is_new, None)

    async def _remove_undoable(
        self,
        found: Object,
        is_new: bool,
        unless: Sequence[str],
        keep: Callable[[dict[str, Any]], None] | None,
    ) -> tuple[OperationOutcome, Undo]:
        undo: Undo = _nothing
        for name in () if is_new else unless:
            outcome, undo = await found.call_undoable(name, (), keep)
            if outcome.error is not None or outcome.value:
                return OperationOutcome(False, outcome.error), undo
        if keep is not None:
            keep(vars(found.state))
        restore = await found.leave()
        del self._objects[found.key]
        if is_new:
            return OperationOutcome(False, None), _nothing
        return OperationOutcome(True, None), partial(self._bring_back, found, restore, undo)

    async def _bring_back(self, found: Object, *undos: Undo) -> None:
        self._objects[found.key] = found
        for undo in undos:
            done = undo()
            if is_awaited(done):
                await done

    async def checked(self, key: str, outcome: OperationOutcome) -> tuple[OperationOutcome, bytes]:
        """Check as ``Object.checked``. The checksum of a missing object is empty."""
        found = self._objects.get(key)
        return (outcome, b"") if found is None else await found.checked(outcome)

    def those_there(self, vector: Mapping[str, int]) -> dict[str, int]:
        """Return those of the counters whose objects exist."""
        return {key: number for key, number in vector.items() if key in self._objects}

    async def saved(self, wanted: Callable[[str], bool] = lambda key: True) -> dict[str, Any]:
        """Return the states of the wanted objects by key, as plain data. No operation is running. BadOperation: a
        ``save`` raised."""
        chosen = [found for found in self._objects.values() if wanted(found.key)]
        return {found.key: await _saved(found) for found in chosen}

    async def load(self, key: str, state: Any) -> None:
        """Take a state from a snapshot. Raises BadOperation for an unknown kind, and the kind's own errors."""
        await self.object(key).load(state)

    def clear(self) -> None:
        """Remove all objects. No operation is running."""
        self._objects.clear()
        if self._workers is not None:
            self._workers.clear()


async def _saved(found: Object) -> Any:
    """Return the saved state of an object. BadOperation: the kind's ``save`` raised; the text has the error."""
    try:
        return await found.save()
    except WorkerLost:
        raise
    except TypeError as error:  # from a process, which reports data that is not plain
        raise _not_plain(found.key, error) from error
    except Exception as error:
        raise BadOperation(f"{found.key}: save raised {said(error):.200}") from error


def _not_plain(key: str, error: Exception) -> BadOperation:
    return BadOperation(f"{key}: save() returned no plain data: {text_of(error)}")
