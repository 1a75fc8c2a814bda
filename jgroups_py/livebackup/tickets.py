"""A ticket means "the n-th change of this object". An operation's record is the list of its tickets, in the order of
its changes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import msgspec

from jgroups_py.livebackup.errors import BadOperation

_TEXT: Final = re.compile(r"\s*([^\s(),]+)\s*\((\d{1,19})\)\s*")


Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
NAME_MAX: Final = 1_000
"""The most characters of kind and name of an object."""
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX)]


class Ticket(NamedTuple):
    """Change ``number`` of ``object``; the first change has number 1 (P6)."""

    object: Key
    number: Number

    def __str__(self) -> str:
        return f"{self.object}({self.number})"


_new: Final = tuple.__new__
Record = tuple[Ticket, ...]
"""All changes of one operation (P7)."""


def write_record(record: Iterable[Ticket]) -> str:
    """Return the record as text for people: ``S1(12), Q1(102)``."""
    return ", ".join(str(ticket) for ticket in record)


def read_record(text: str) -> Record:
    """Read the text of ``write_record``. Raises BadOperation with the place that is no ticket."""
    tickets = []
    for part in text.split(",") if text.strip() else []:
        match = _TEXT.fullmatch(part)
        if match is None:
            raise BadOperation(f'"{part.strip()[:60]}" is no ticket; one looks like S1(12)')
        tickets.append(Ticket(match[1], int(match[2])))
    return tuple(tickets)


class Counters(dict[str, int]):
    """The number of changes of each object, its removal included. Unchanged objects count 0 and take no room."""

    def __init__(self, start: Iterable[tuple[str, int]] = ()) -> None:
        super().__init__((name, number) for name, number in start if number)

    def __missing__(self, name: str) -> int:
        return 0

    def next(self, name: str) -> Ticket:
        """Return the ticket of the next change. The caller holds the object's lock until the change is made."""
        number = self[name] + 1
        self[name] = number
        return _new(Ticket, (name, number))  # Ticket(...) takes twice as long

    def back(self, ticket: Ticket) -> None:
        """Take back a ticket: the change, the newest one of its object, was reversed."""
        assert self[ticket.object] == ticket.number, f"{ticket} is not the newest change"
        if ticket.number == 1:
            del self[ticket.object]
        else:
            self[ticket.object] = ticket.number - 1

    def forget(self, name: str) -> None:
        """Forget a removed object: its name begins anew."""
        self.pop(name, None)

    def vector(self) -> dict[str, int]:
        """Return a copy: the numbers of newest changes, by object."""
        return dict(self)
