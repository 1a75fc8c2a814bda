"""Cut: the view of a reader on a backup: all objects after exactly the confirmed operations.

The confirmed operations are a prefix of each object's history (ledger.py). The state of an object in the cut is
therefore the one before its oldest unconfirmed change. The backup copies an object before each change; the copies are
kept here until the change is confirmed.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from jgroups_py.livebackup.kinds import Stateful, key_of
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.tickets import Ticket

S = TypeVar("S", bound=Stateful)


class Copies:
    """The states of one backup before its unconfirmed changes."""

    def __init__(self) -> None:
        self._before: dict[str, deque[tuple[int, Mapping[str, Any]]]] = {}

    def __len__(self) -> int:
        """Count the objects with unconfirmed changes."""
        return len(self._before)

    def keep(self, ticket: Ticket, state: Mapping[str, Any]) -> None:
        """Keep the attributes of an object before a change. They must not be changed any more."""
        self._before.setdefault(ticket.object, deque()).append((ticket.number, state))

    def confirmed(self, tickets: Iterable[Ticket]) -> None:
        """Note that these changes and those before them are confirmed."""
        for key, number in tickets:
            before = self._before.get(key)
            while before and before[0][0] <= number:
                before.popleft()
            if before is not None and not before:
                del self._before[key]

    def oldest(self, key: str) -> Mapping[str, Any] | None:
        """Return the attributes of the object in the cut. None: the present attributes are those of the cut."""
        before = self._before.get(key)
        return before[0][1] if before else None


class Cut:
    """Given to the function of ``Node.read``, for as long as it runs."""

    def __init__(self, space: Space, copies: Copies, operations: int) -> None:
        self._space, self._copies = space, copies
        self.operations = operations
        """Operations that this node has confirmed since it was opened."""

    def get(self, kind: type[S], name: str) -> S:
        """Return a copy of the object. If there is none, the copy is a new object."""
        key = key_of(kind, name)
        found = self._space.find(key)
        state = self._copies.oldest(key)
        if state is None and found is not None:
            state = vars(found.state)
        made = kind()
        if state is not None:
            vars(made).clear()
            vars(made).update(copy.deepcopy(dict(state)))
        return made
