"""Header: the base of all headers.

A header belongs to one protocol of the stack (by protocol id) and has one class on the wire (by
magic id). ``headers.py`` is the catalogue.

Consecutive messages of one sender usually differ in one number only. A header class names that field in ``sequence``. In a
batch the header is that of the first message; the header of message ``i`` is advanced by ``i``. The header of a class
without such a field is the same for all messages of its batch.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from jgroups_py.values.light import light


@light
@dataclass(frozen=True, slots=True)
class Header:
    """Base of all headers. Subclasses are frozen dataclasses in the order of the wire."""

    magic_id: ClassVar[int]
    sequence: ClassVar[str | None] = None

    def at(self, index: int) -> Self:
        """Return the header of message ``index`` of a run that starts with this one."""
        name = self.sequence
        if name is None or index == 0:
            return self
        cls: Callable[..., Self] = type(self)
        place, getter, _ = _fields(type(self))
        values = getter(self)
        return cls(*values[:place], values[place] + index, *values[place + 1 :])

    def is_followed_by(self, other: Header, distance: int = 1) -> bool:
        """Return whether ``other == self.at(distance)``, but faster."""
        cls, name = type(self), self.sequence
        if type(other) is not cls:
            return False
        if name is None:
            return self == other
        if getattr(other, name) != getattr(self, name) + distance:
            return False
        _, _, rest = _fields(cls)
        return bool(rest(self) == rest(other))


_Getter = Callable[[Header], Any]
_FIELDS: dict[type, tuple[int, _Getter, _Getter]] = {}


def _fields(cls: type[Header]) -> tuple[int, _Getter, _Getter]:
    """Return the field that advances, a getter for all fields as a tuple, and one for all but that field."""
    found = _FIELDS.get(cls)
    if found is not None:
        return found
    names = [f.name for f in dataclasses.fields(cls)]
    place = names.index(cls.sequence or "")
    others = names[:place] + names[place + 1 :]
    found = place, _getter(names), _getter(others)
    _FIELDS[cls] = found
    return found


def _getter(names: list[str]) -> _Getter:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda header: tuple([getattr(header, name) for name in names])
