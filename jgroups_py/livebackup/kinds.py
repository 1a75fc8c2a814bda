"""Kinds: the classes of stateful objects (P3). A user's class derives from Stateful; its methods change it.

class Queue(Stateful):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def put(self, message: str) -> int:
        self.messages.append(message)
        return len(self.messages)
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CoroutineType, FunctionType, NoneType
from typing import Any, ClassVar, Final, Literal, NoReturn, TypeVar

import msgspec
import trio

from jgroups_py.livebackup.errors import BadOperation
from jgroups_py.livebackup.tickets import NAME_MAX

Where = Literal["task", "thread", "process"]
WHERE: Final[tuple[Where, ...]] = ("task", "thread", "process")
F = TypeVar("F", bound=Callable[..., Any])

_UNDO: Final = "__livebackup_undo__"
_READS: Final = "__livebackup_reads__"
REMOVAL: Final = "_remove"
"""Stands for a removal in place of a method name. No method of a kind has such a name."""
METHODS_MAX: Final = 1_000
"""The most methods for which it is remembered whether they are async."""
OWN: Final = frozenset({"save", "load"})
"""Public methods that no operation calls."""
_PLAIN: Final = frozenset({NoneType, bool, int, float, str, bytes, list, tuple, dict})


@lru_cache(METHODS_MAX)
def _is_async(method: Callable[..., Any]) -> bool:
    """Is the method async? Remembered, because the check takes longer than most methods."""
    return inspect.iscoroutinefunction(method)


class Stateful:
    """A kind of object. An object is made without arguments, on the live node and on the backup, when an operation
    first touches it. It stays until an operation removes it (``Work.remove``); a later access makes a new one.

    Every call of a public method counts as a change, reads included: an operation must read the same on both sides.
    A method's result depends on the object and its arguments alone; time and chance come from the operation (``Work.now``,
    ``Work.random``). A method may be async. It changes no other object. While operations wait for the object, one task
    runs their methods. Each method still has its operation's context variables, and is cancelled with its operation.
    """

    runs_in: ClassVar[Where] = "task"
    """"thread": methods are not async and run in a worker thread, for computations outside of the interpreter lock.
    "process": methods are not async and the object lives in a process of its node, for computations in Python.
    Arguments, values and attributes go through a pipe; the class is in a module, not in a function."""

    def save(self) -> Any:
        """Return the state as plain data (msgpack's types), for a snapshot. By default all attributes."""
        return vars(self)

    def load(self, state: Any) -> None:
        """Take a state that ``save`` returned."""
        vars(self).clear()
        vars(self).update(state)


def undone_by(name: str) -> Callable[[F], F]:
    """Decorate a method that changes the object: the method ``name`` reverses it, called with the result and the
    arguments.

    Without it the backup copies the object before each change, which is right for every object and slow for large ones.
    Before an async method the object is copied in any case, because the method may be cancelled half-way.
    """

    def mark(method: F) -> F:
        setattr(method, _UNDO, name)
        return method

    return mark


def only_reads(method: F) -> F:
    """Decorate a method that does not change its object. It still counts as a change, but a backup need not copy the
    object."""
    setattr(method, _READS, True)
    return method


Operation = Callable[..., Awaitable[Any]]
"""``async def operation(work, *arguments)``. The arguments and the value are plain data."""
EFFECTS: Final = "__livebackup_effects__"
"""The mark of an operation that backups do not run again."""


def by_effects(operation: F) -> F:
    """Decorate an operation that backups do not run again: they repeat its method calls with their arguments.

    Use it for operations that need a clock, random numbers of the system or a foreign service. The arguments of their
    methods are plain data. The methods themselves depend on the object and their arguments alone, as always.
    """
    setattr(operation, EFFECTS, True)
    return operation


def is_by_effects(operation: Operation) -> bool:
    return getattr(operation, EFFECTS, False)


@dataclass(frozen=True)
class Catalogue:
    """Kinds and operations by name. All nodes have the same ones."""

    kinds: Mapping[str, type[Stateful]]
    operations: Mapping[str, Operation]
    names: Mapping[Operation, str] = field(repr=False)

    @staticmethod
    def of(kinds: Iterable[type[Stateful]], operations: Iterable[Operation]) -> Catalogue:
        """Make a catalogue. TypeError: an item is neither a kind nor an operation, or two have one name."""
        by_kind: dict[str, type[Stateful]] = {}
        for kind in kinds:
            if not (isinstance(kind, type) and issubclass(kind, Stateful)):
                raise TypeError(f"a kind is a class that derives from Stateful, got {kind!r}")
            if kind.runs_in not in WHERE:
                raise TypeError(
                    f"{kind.__name__}.runs_in is one of {', '.join(WHERE)}, got {kind.runs_in!r}"
                )
            for name, method in inspect.getmembers(kind, inspect.iscoroutinefunction):
                if kind.runs_in != "task" and not name.startswith("_"):
                    raise TypeError(f"{method.__qualname__} is async and runs in a {kind.runs_in}")
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


def is_only_reading(kind: type[Stateful], name: str) -> bool:
    """Does the method have the decorator ``only_reads``?"""
    return getattr(getattr(kind, name, None), _READS, False)


def undo_of(kind: type[Stateful], name: str) -> str | None:
    """Return the name of the method that reverses this one. None for an async method, which may be cancelled
    half-way."""
    method = getattr(kind, name, None)
    return None if method is None or _is_async(method) else getattr(method, _UNDO, None)


def method_of(kind: type[Stateful], name: str, key: str) -> Callable[..., Any]:
    """Return the public method of a kind. Raises BadOperation, which names the object ``key``."""
    found = getattr(kind, name, None)
    if type(found) is not FunctionType or name[:1] == "_" or name in OWN:
        raise BadOperation(f"{key} has no public method {name}")
    return found


def is_awaited(result: Any) -> bool:
    """Return whether a method's result is to be awaited. Most results are plain, and the general check takes longer
    than most methods."""
    kind = type(result)
    return kind is CoroutineType or (kind not in _PLAIN and inspect.isawaitable(result))


class OperationOutcome(msgspec.Struct):
    """A value or the error that was raised."""

    value: Any
    error: Exception | None

    @property
    def raised(self) -> str:
        """Return the name of the error. Empty: none was raised."""
        return type(self.error).__name__ if self.error else ""

    def unwrap(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


async def outcome_of(function: Callable[..., Any], *arguments: Any) -> OperationOutcome:
    """Call a function, which may return an awaitable. Turn an error into an outcome. A cancellation passes, without errors
    that a nursery raised with it."""
    try:
        result = function(*arguments)
        return OperationOutcome(await result if is_awaited(result) else result, None)
    except Exception as error:
        return OperationOutcome(None, error)
    except BaseExceptionGroup as group:
        raise_cancelled(group)


def raise_cancelled(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Raise the cancellation of a group without the errors that a nursery raised with it. Raise the group itself if it
    has another reason to end the task."""
    cancelled, others = group.split(trio.Cancelled)
    if cancelled is None or (others is not None and not isinstance(others, Exception)):
        raise group
    raise cancelled from None


def key_of(kind: type[Stateful], name: str) -> str:
    """Return the key of an object. BadOperation: other nodes would refuse this key. Nothing was changed."""
    if not isinstance(name, str):
        raise BadOperation(f"the name of an object must be a str, got {name!r:.80}")
    key = f"{kind.__name__}/{name}"
    if len(key) > NAME_MAX:
        raise BadOperation(
            f"{key[:40]}...: kind and name of an object have at most {NAME_MAX} characters, got {len(key)}"
        )
    if not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
        raise BadOperation(f"{key!r:.80}: the name has half of a character (a lone surrogate)")
    return key
