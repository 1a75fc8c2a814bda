"""Methods that other members may call: the public methods of an object, or functions by name.

methods = Methods()

@methods.add
def add(a: int, b: int) -> int: ...

@methods.add("slow-add")
async def slowly(a: int, b: int) -> int: ...

@methods.add
@with_caller
def who(caller: Address) -> str: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

from jgroups_py.errors import LocalProtocolError
from jgroups_py.rpc.ours import NAME_MAX

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Method:
    """A method. ``function`` is called with the caller, if ``with_caller``, and the arguments."""

    function: Callable[..., Any]
    is_async: bool
    with_caller: bool


def with_caller(function: F) -> F:
    """Mark a method. Its first argument will be the address of the calling member."""
    function.__rpc_with_caller__ = True  # type: ignore[attr-defined]
    return function


class Methods(Mapping[str, Callable[..., Any]]):
    """Functions by name, filled with ``add``."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        for name, function in (functions or {}).items():
            self.add(name)(function)

    @overload
    def add(self, name: str) -> Callable[[F], F]: ...

    @overload
    def add(self, name: F) -> F: ...

    def add(self, name: str | F) -> Callable[[F], F] | F:
        """Add a function; a decorator, with or without a name of its own.

        Raises:
            LocalProtocolError: the name is taken, empty or longer than 255 bytes.
        """
        if not isinstance(name, str):
            return self._put(name.__name__, name)
        return partial(self._put, name)

    def _put(self, name: str, function: F) -> F:
        if not 0 < len(name.encode()) <= NAME_MAX:
            raise LocalProtocolError(f"a method's name has 1 to {NAME_MAX} bytes: {name[:50]!r}")
        if name in self._functions:
            raise LocalProtocolError(f"there is a method {name!r} already")
        self._functions[name] = function
        return function

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)


def methods_of(target: object) -> dict[str, Method]:
    """Return the callable methods of ``target``: every function of a mapping, or every public method of an object. The
    name of a public method does not begin with an underscore. Properties are not looked at."""
    if target is None:
        return {}
    if isinstance(target, Mapping):
        return {name: _method(function) for name, function in Methods(target).items()}
    found: dict[str, Method] = {}
    for name in dir(target):
        if name.startswith("_"):
            continue
        static = inspect.getattr_static(target, name)
        if isinstance(static, staticmethod | classmethod) or inspect.isroutine(static):
            found[name] = _method(getattr(target, name))
    return found


def _method(function: Callable[..., Any]) -> Method:
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    if not callable(inner):
        raise LocalProtocolError(f"{function!r} cannot be called")
    is_async = inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )
    return Method(function, is_async, getattr(inner, "__rpc_with_caller__", False))
