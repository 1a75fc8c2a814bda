"""Kinds: what a stateful object is (P3). A user's class derives from Stateful; its methods change it.

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
from typing import Any, ClassVar, Final, Literal, TypeVar

import trio

from jgroups_py.livebackup.errors import BadOperation

Where = Literal["task", "thread", "process"]
WHERE: Final[tuple[Where, ...]] = ("task", "thread", "process")
F = TypeVar("F", bound=Callable[..., Any])

_UNDO: Final = "__livebackup_undo__"
_READS: Final = "__livebackup_reads__"
REMOVAL: Final = "_remove"
"""In place of a method: the object is removed. No method of a kind has such a name."""
METHODS_MAX: Final = 1_000
"""Methods of kinds of which is kept whether they are async."""
_OWN: Final = frozenset({"save", "load"})


@lru_cache(METHODS_MAX)
def _is_async(method: Callable[..., Any]) -> bool:
    """Looked up once: it takes longer than most methods."""
    return inspect.iscoroutinefunction(method)


class Stateful:
    """A kind of object. An object is made without arguments, on the live node and on the backup, when an operation first touches it. It stays
    until an operation removes it (``Work.remove``); who touches it after that gets one that is made anew.

    Every call of a public method counts as a change, those that only read included: an operation must read the same on both sides.
    A method's result depends on the object and its arguments alone; time and chance come from the operation (``Work.now``,
    ``Work.random``). A method may be async. It changes no other object.
    """

    runs_in: ClassVar[Where] = "task"
    """"thread": methods are not async and run in a worker thread, for work that holds the processor outside of the interpreter.
    "process": they are not async, and the object lives in a process of its node, for work that holds the interpreter. Arguments, values and
    the attributes go through a pipe. The class stands in a module, not in a function."""

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


def only_reads(method: F) -> F:
    """Decorator of a method that changes nothing of its object. It counts as a change all the same, but a backup has nothing to reverse,
    so it does not copy the object."""
    setattr(method, _READS, True)
    return method


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
    """Whether the method has the decorator ``only_reads``."""
    return getattr(getattr(kind, name, None), _READS, False)


def undo_of(kind: type[Stateful], name: str) -> str | None:
    """The name of the method that reverses this one. None for an async method, which may be cancelled half-way."""
    method = getattr(kind, name, None)
    return None if method is None or _is_async(method) else getattr(method, _UNDO, None)


def method_of(kind: type[Stateful], name: str, key: str) -> Callable[..., Any]:
    """The public method of a kind. Raises BadOperation, which names the object ``key``."""
    found = _public(kind, name)
    if found is None:
        raise BadOperation(f"{key} has no public method {name}")
    return found


def _public(kind: type[Stateful], name: str) -> Callable[..., Any] | None:
    found = getattr(kind, name, None)
    is_public = not name.startswith("_") and name not in _OWN and inspect.isfunction(found)
    return found if is_public else None


@dataclass(frozen=True, slots=True)
class OperationOutcome:
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


async def outcome_of(running: Awaitable[Any]) -> OperationOutcome:
    """Errors become an outcome; a cancellation goes on, without the errors that came along with it from a nursery."""
    try:
        return OperationOutcome(await running, None)
    except Exception as error:
        return OperationOutcome(None, error)
    except BaseExceptionGroup as group:
        cancelled, others = group.split(trio.Cancelled)
        if cancelled is None or (others is not None and not isinstance(others, Exception)):
            raise
        raise cancelled from None


def key_of(kind: type[Stateful], name: str) -> str:
    return f"{kind.__name__}/{name}"
