"""What every header has in common.

A header belongs to one protocol of the stack (by protocol id) and has one class on the wire (by
magic id). ``headers.py`` is the catalogue.

Runs: consecutive messages of one sender usually differ in one number only. A header class names
that field in ``sequence``; in a batch the header stands for the first message, and message ``i``
has it advanced by ``i``. A class without one is the same for all messages of its batch.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True)
class Header:
    """Base of all headers. Subclasses are frozen dataclasses in the order of the wire."""

    magic_id: ClassVar[int]
    sequence: ClassVar[str | None] = None

    def at(self, index: int) -> Self:
        """The header of message ``index`` of a run that starts with this one."""
        name = self.sequence
        if name is None or index == 0:
            return self
        values = {n: getattr(self, n) for n in _others(type(self))[0]}
        values[name] = getattr(self, name) + index
        return type(self)(**values)

    def is_followed_by(self, other: Header, distance: int = 1) -> bool:
        """True when ``other == self.at(distance)``, faster."""
        cls, name = type(self), self.sequence
        if type(other) is not cls:
            return False
        if name is None:
            return self == other
        if getattr(other, name) != getattr(self, name) + distance:
            return False
        rest = _others(cls)[1]
        return bool(rest(self) == rest(other))


_OTHERS: dict[type, tuple[tuple[str, ...], Callable[[Header], object]]] = {}


def _others(cls: type[Header]) -> tuple[tuple[str, ...], Callable[[Header], object]]:
    """The fields besides the one that advances: their names, and a getter for all of them."""
    found = _OTHERS.get(cls)
    if found is not None:
        return found
    names = tuple([f.name for f in dataclasses.fields(cls) if f.name != cls.sequence])
    found = names, operator.attrgetter(*names) if names else (lambda header: None)
    _OTHERS[cls] = found
    return found
