"""Every table of a member, found by walking its objects, so that none can hide.

A table is a container (dict, list, set, deque, array, bytearray, cache of a function) that is
reached from a protocol, the machine, its timers, the driver or the channel. Its name is the way to
it: ``NAKACK2._windows`` is a dict, ``NAKACK2._windows[].received`` the sum of all its windows. The memory of a table's
entries (keys, values that are no tables themselves) counts as bytes of the table. Each object counts once, where it is
met first; shorter ways come before longer ones.
"""

from __future__ import annotations

import array
import enum
import functools
import gc
import logging
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jgroups_py.stack.machine import Machine
from jgroups_py.values.native import slots

DEPTH_MAX: Final = 24
"""The most steps from a root. Deeper objects are not entered, and counted in ``Tables.cut``."""

_ATOMS: Final = (str, bytes, int, float, complex, bool, type(None), enum.Enum)
_TABLES: Final = (dict, list, set, deque, array.array, bytearray)
_FIXED: Final = (tuple, frozenset)
_NOT_OURS: Final = (
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.CodeType,
    types.FrameType,
    logging.Logger,
    random.Random,
)
_STRANGERS: Final = ("trio", "outcome", "socket", "ssl", "_io", "threading", "click", "sniffio")
"""Packages whose objects are not entered."""


@dataclass(slots=True)
class TableSize:
    """Entries and bytes of one table, or of all tables of one name."""

    length: int = 0
    size: int = 0

    def add(self, other: TableSize) -> None:
        self.length += other.length
        self.size += other.size


@dataclass
class Tables:
    """Tables by name; ``cut``: ways that were longer than ``DEPTH_MAX``."""

    found: dict[str, TableSize] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)

    def at(self, name: str) -> TableSize:
        return self.found.setdefault(name, TableSize())

    @property
    def lengths(self) -> dict[str, int]:
        return {name: table.length for name, table in self.found.items()}

    @property
    def size(self) -> int:
        return sum(table.size for table in self.found.values())


def walk(roots: Mapping[str, Any], outside: Iterable[Any] = ()) -> Tables:
    """Return the tables reached from ``roots`` (name -> object). A root is entered from its own name only; ``outside``
    (the world around a member) is not entered."""
    tables = Tables()
    for name, thing, depth in _visit(roots, outside):
        if depth > DEPTH_MAX:
            tables.cut.append(name)
        elif isinstance(thing, _TABLES):
            table = tables.at(name)
            table.length += len(thing)
            table.size += sys.getsizeof(thing)
        elif depth:  # a root itself is not a table
            _owner(tables, name).size += sys.getsizeof(thing, 0)
    tables.found = {n: t for n, t in sorted(tables.found.items()) if t.length or t.size}
    return tables


def _visit(roots: Mapping[str, Any], outside: Iterable[Any]) -> Iterator[tuple[str, Any, int]]:
    """Yield every object on the ways from ``roots``, once: (name, object, steps from its root)."""
    seen = {id(thing) for thing in outside}
    todo: deque[tuple[str, Any, int]] = deque()
    for name, root in roots.items():
        seen.add(id(root))
        todo.append((name, root, 0))
    while todo:
        name, thing, depth = todo.popleft()
        yield name, thing, depth
        if depth > DEPTH_MAX or isinstance(thing, _ATOMS) or _is_strange(thing):
            continue
        for way, inner in _inside(name, thing):
            if inner is None or isinstance(inner, (int, float, enum.Enum, *_NOT_OURS)):
                continue
            if id(inner) not in seen:
                seen.add(id(inner))
                todo.append((way, inner, depth + 1))


def _owner(tables: Tables, name: str) -> TableSize:
    """Return the table of which an object on the way ``name`` is an entry."""
    end = name.rfind("[]")
    return tables.at(name[:end] if end >= 0 else name.partition(".")[0])


def _is_strange(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] in _STRANGERS


def _inside(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """Yield the objects to which an object refers, each with the way to it."""
    if isinstance(thing, dict):
        for key, value in thing.items():
            yield f"{name}[]", key
            yield f"{name}[]", value
    elif isinstance(thing, bytearray | array.array):
        pass
    elif isinstance(thing, (*_TABLES, *_FIXED)):
        for value in thing:
            yield f"{name}[]" if isinstance(thing, _TABLES) else name, value
    elif isinstance(thing, types.MethodType):
        yield name, thing.__self__
        yield name, thing.__func__
    elif isinstance(thing, types.FunctionType):
        for cell in thing.__closure__ or ():
            yield f"{name}()", _content(cell)
        yield f"{name}()", thing.__defaults__
    elif isinstance(thing, functools.partial):
        for value in (thing.func, *thing.args, *thing.keywords.values()):
            yield f"{name}()", value
    elif isinstance(thing, memoryview):
        yield name, thing.obj
    else:
        yield from _attributes(name, thing)
    if isinstance(thing, (*_TABLES, *_FIXED)) and hasattr(thing, "__dict__"):
        yield from _attributes(name, thing)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _attributes(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    known = getattr(thing, "__dict__", None)
    outside = slots(type(thing))
    if known is None and not outside:
        for value in gc.get_referents(thing):  # iterators, generators, caches in C
            yield f"{name}~", value
        return
    # A copy: reading an attribute may fill a cached property.
    for attribute, value in list((known or {}).items()):
        yield f"{name}.{attribute}", value
    for attribute in outside:
        try:
            yield f"{name}.{attribute}", getattr(thing, attribute)
        except AttributeError:
            pass


def roots_of(machine: Machine) -> dict[str, Any]:
    """Return the machine, stacks and protocols by name. The names in a child stack (RELAY's bridge) have its cluster as
    prefix."""
    roots: dict[str, Any] = {"machine": machine}
    for stack in machine.stacks:
        place = "" if stack.parent is None else f"{stack.cluster}:"
        roots[f"{place}stack"] = stack
        for protocol in stack.protocols:
            roots[f"{place}{protocol.name}"] = protocol
    return roots


def of_process() -> Tables:
    """Return the tables that belong to no member: of the package's modules and classes, and the caches of their
    functions."""
    tables = Tables()
    seen: set[int] = set()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "jgroups_py":
            continue
        for attribute, value in list(vars(module).items()):
            way = f"{name.removeprefix('jgroups_py.')}.{attribute}"
            if isinstance(value, enum.EnumType):
                continue
            if isinstance(value, type) and value.__module__ == name:
                for inner, held in list(vars(value).items()):
                    _note(tables, f"{way}.{inner}", held, seen)
            elif getattr(value, "__module__", name) == name:
                _note(tables, way, value, seen)
    return tables


def counted() -> int:
    """Count the bytes of all objects that the collector knows, frozen ones excluded, and of objects that they refer
    to."""
    total = 0
    seen: set[int] = set()
    for thing in gc.get_objects():
        total += sys.getsizeof(thing, 0)
        for inner in gc.get_referents(thing):
            if not gc.is_tracked(inner) and id(inner) not in seen:
                seen.add(id(inner))
                total += sys.getsizeof(inner, 0)
    return total


def _note(tables: Tables, name: str, value: Any, seen: set[int]) -> None:
    if name.endswith("__") or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _TABLES):
        table = tables.at(name)
        table.length, table.size = len(value), sys.getsizeof(value)
    elif hasattr(value, "cache_info"):
        tables.at(name).length = value.cache_info().currsize
