"""Kinds: what a stateful object is (P3). A user's class derives from Stateful; its methods change it.

class Queue(Stateful):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def put(self, message: str) -> int:
        self.messages.append(message)
        return len(self.messages)
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Literal, TypeVar

import trio

from jgroups_py.livebackup.errors import BadOperation
from jgroups_py.livebackup.messages import checksum_of

Where = Literal["task", "thread"]
F = TypeVar("F", bound=Callable[..., Any])

_UNDO: Final = "__livebackup_undo__"
_OWN: Final = frozenset({"save", "load"})


class Stateful:
    """A kind of object. An object is made without arguments, on the live node and on the backup, when an operation first touches it.

    Every call of a public method counts as a change, those that only read included: an operation must read the same on both sides.
    A method's result depends on the object and its arguments alone; time and chance come from the operation (``Work.now``,
    ``Work.random``). A method may be async. It changes no other object.
    """

    runs_in: ClassVar[Where] = "task"
    """"thread": methods are not async and run in a worker thread, for work that holds the processor outside of the interpreter."""

    def save(self) -> Any:
        """The state as plain data (what msgpack has), for a snapshot. The default is all attributes."""
        return vars(self)

    def load(self, state: Any) -> None:
        """Take the state that ``save`` gave."""
        vars(self).clear()
        vars(self).update(state)


def undone_by(name: str) -> Callable[[F], F]:
    """Decorator of a method that changes the object: the method ``name`` reverses it. It is called with the result and the arguments.

    Without it the backup copies the object before each change, which is right for every object and slow for large ones. An async method is
    copied all the same, because it may be cancelled half-way.
    """

    def mark(method: F) -> F:
        setattr(method, _UNDO, name)
        return method

    return mark


Operation = Callable[..., Awaitable[Any]]
"""``async def operation(work, *arguments)``. The arguments and the value are plain data."""
_EFFECTS: Final = "__livebackup_effects__"


def by_effects(operation: F) -> F:
    """Decorator of an operation: backups do not run it again, they repeat its calls of methods, with their arguments.

    For operations that ask a clock, the system's chance or a foreign service. The arguments of their methods are plain data. The methods
    themselves depend on the object and their arguments alone, as always.
    """
    setattr(operation, _EFFECTS, True)
    return operation


def is_by_effects(operation: Operation) -> bool:
    return getattr(operation, _EFFECTS, False)


@dataclass(frozen=True)
class Catalogue:
    """Kinds and operations by name. All nodes have the same ones."""

    kinds: Mapping[str, type[Stateful]]
    operations: Mapping[str, Operation]
    names: Mapping[Operation, str] = field(repr=False)

    @staticmethod
    def of(kinds: Iterable[type[Stateful]], operations: Iterable[Operation]) -> Catalogue:
        """Raises TypeError for what is neither, and for two of one name."""
        by_kind: dict[str, type[Stateful]] = {}
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Stateful)):
                raise TypeError(f"a kind is a class that derives from Stateful, got {kind!r}")
            if kind.__name__ in by_kind:
                raise TypeError(f"two kinds are named {kind.__name__}")
            by_kind[kind.__name__] = kind
        by_name: dict[str, Operation] = {}
        for operation in operations:
            if not inspect.iscoroutinefunction(operation):
                raise TypeError(f"an operation is an async function, got {operation!r}")
            if operation.__name__ in by_name:
                raise TypeError(f"two operations are named {operation.__name__}")
            by_name[operation.__name__] = operation
        return Catalogue(by_kind, by_name, {op: name for name, op in by_name.items()})


def method_of(kind: type[Stateful], name: str, key: str) -> Callable[..., Any]:
    """The public method of a kind. Raises BadOperation, which names the object ``key``."""
    found = getattr(kind, name, None)
    if name.startswith("_") or name in _OWN or not inspect.isfunction(found):
        raise BadOperation(f"{key} has no public method {name}")
    return found


class Object:
    """A stateful object with its lock."""

    __slots__ = ("key", "lock", "state")

    def __init__(self, key: str, state: Stateful) -> None:
        self.key = key
        self.state = state
        self.lock = trio.Lock()

    def method(self, name: str) -> Callable[..., Any]:
        return partial(method_of(type(self.state), name, self.key), self.state)

    def checked(self, outcome: Outcome) -> tuple[Outcome, bytes]:
        """The outcome of a change and the checksum of the object after it. When ``save`` gives what is not plain data, the change has
        raised BadOperation, on both sides."""
        try:
            return outcome, checksum_of(self.state.save())
        except TypeError as error:
            problem = f"{self.key}: what save gives is not plain data: {error}"
            return Outcome(None, BadOperation(problem)), b""

    async def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        method = self.method(name)
        if self.state.runs_in == "thread":
            return await trio.to_thread.run_sync(method, *arguments)
        result = method(*arguments)
        return await result if inspect.isawaitable(result) else result

    async def call_undoable(
        self,
        name: str,
        arguments: tuple[Any, ...],
        keep: Callable[[dict[str, Any]], None] | None = None,
    ) -> tuple[Outcome, Undo]:
        """Call, and return what came and what reverses it. ``keep`` is given a copy of the attributes before the call."""
        method = getattr(type(self.state), name, None)
        undo_name = None if inspect.iscoroutinefunction(method) else getattr(method, _UNDO, None)
        before = copy.deepcopy(vars(self.state)) if keep or not undo_name else None
        if keep is not None:
            assert before is not None
            keep(before)
        try:
            outcome = await outcome_of(self.call(name, arguments))
        except BaseException:
            if before is not None:
                self._restore(before)
            raise
        if undo_name is None:
            assert before is not None
            return outcome, partial(self._restore, before)
        if outcome.error is not None:
            return (
                outcome,
                _nothing,
            )  # a method that raises must leave no change when it has an undo
        return outcome, partial(self.method(undo_name), outcome.value, *arguments)

    def _restore(self, before: dict[str, Any]) -> None:
        vars(self.state).clear()
        vars(self.state).update(before)


Undo = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value or the error that was raised."""

    value: Any
    error: Exception | None

    @property
    def raised(self) -> str:
        """The name of the error, or nothing."""
        return type(self.error).__name__ if self.error else ""

    def unwrap(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


async def outcome_of(running: Awaitable[Any]) -> Outcome:
    """Errors become an outcome; a cancellation goes on."""
    try:
        return Outcome(await running, None)
    except Exception as error:
        return Outcome(None, error)


def _nothing() -> None:
    pass


class Space:
    """All objects of a node, by key: ``Queue/orders``."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self._objects: dict[str, Object] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def object(self, key: str) -> Object:
        """The object, which is made if it is not there. Raises BadOperation for an unknown kind."""
        found = self._objects.get(key)
        if found is None:
            found = self._objects[key] = Object(key, self._kind(key)())
        return found

    def find(self, key: str) -> Object | None:
        """The object, if it is there."""
        return self._objects.get(key)

    def check(self, key: str, method: str) -> None:
        """Raises BadOperation when there is no such kind, or it has no such public method. Makes no object."""
        method_of(self._kind(key), method, key)

    def _kind(self, key: str) -> type[Stateful]:
        kind = key.partition("/")[0]
        if kind not in self.catalogue.kinds:
            raise BadOperation(
                f"{key}: no kind {kind}; there are {', '.join(sorted(self.catalogue.kinds))}"
            )
        return self.catalogue.kinds[kind]

    def drop(self, key: str) -> None:
        self._objects.pop(key, None)

    def saved(self, wanted: Callable[[str], bool] = lambda key: True) -> dict[str, Any]:
        """Key -> state, as plain data, of the objects whose keys are wanted."""
        return {key: found.state.save() for key, found in self._objects.items() if wanted(key)}

    def load(self, key: str, state: Any) -> None:
        """Take a state from a snapshot. Raises BadOperation for an unknown kind, and whatever the kind raises."""
        self.object(key).state.load(state)

    def clear(self) -> None:
        self._objects.clear()


def key_of(kind: type[Stateful], name: str) -> str:
    return f"{kind.__name__}/{name}"
