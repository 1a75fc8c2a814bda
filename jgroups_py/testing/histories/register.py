"""Registers by name: read, write, compare-and-set, increment."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, NamedTuple

from jgroups_py.testing.histories.operation import UNKNOWN, Model


class Use(NamedTuple):
    """The requests to a register.

    read        result: the value
    write       ``value``; no result
    cas         ``value`` in place of ``expected``; result: was it there?
    add         ``value`` to the number that is there (None counts as 0); result: the sum
    """

    do: Literal["read", "write", "cas", "add"]
    name: str
    value: Any = None
    expected: Any = None


class Registers(Model[tuple[tuple[str, Any], ...]]):
    """Each is None at first, or has the value of ``begin``. Values must be hashable."""

    def __init__(self, begin: dict[str, Any] | None = None) -> None:
        self._begin = tuple(sorted((begin or {}).items()))

    def initial(self) -> tuple[tuple[str, Any], ...]:
        return self._begin

    def step(
        self, state: tuple[tuple[str, Any], ...], what: Use, result: Any
    ) -> tuple[bool, tuple[tuple[str, Any], ...]]:
        values = dict(state)
        value = values.get(what.name)
        any_result = result is UNKNOWN
        match what.do:
            case "read":
                return any_result or result == value, state
            case "write":
                values[what.name] = what.value
            case "cas":
                there = value == what.expected
                if there:
                    values[what.name] = what.value
                if not any_result and result != there:
                    return False, state
            case "add":
                values[what.name] = (value or 0) + what.value
                if not any_result and result != values[what.name]:
                    return False, state
        return True, tuple(sorted(values.items()))

    def keys(self, what: Use) -> Sequence[Hashable]:
        return (what.name,)

    def facts(self, state: tuple[tuple[str, Any], ...]) -> frozenset[Hashable]:
        return frozenset(state)

    def wants(self, what: Use, result: Any) -> Sequence[Hashable]:
        if what.do == "read" and result is not None and result is not UNKNOWN:
            return ((what.name, result),)
        if what.do == "cas" and result is True and what.expected is not None:
            return ((what.name, what.expected),)
        return ()

    def gives(self, what: Use) -> Sequence[Hashable] | None:
        if what.do == "add":
            return None
        return () if what.do == "read" else ((what.name, what.value),)

    def only_reads(self, what: Use) -> bool:
        return what.do == "read"

    def never_changes(self, what: Use, result: Any) -> bool:
        return what.do == "read" or (what.do == "cas" and result is False)

    def text(self, what: Use, result: Any) -> str:
        match what.do:
            case "read":
                return f"read {what.name} -> {result}"
            case "write":
                return f"write {what.name} = {what.value}"
            case "cas":
                return f"cas {what.name} {what.expected} to {what.value} -> {result}"
        return f"add {what.value} to {what.name} -> {result}"
