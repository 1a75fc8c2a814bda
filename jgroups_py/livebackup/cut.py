"""Cut: what a reader of a backup sees. All objects as they are after the confirmed operations, and nothing of any other operation.

The confirmed operations are a prefix of each object's history (ledger.py). So the state of an object in the cut is the one before its oldest
change that is not confirmed. The backup copies an object before each change; these copies are kept here until the change is confirmed.
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
    """Of one backup: the states before the changes that are not confirmed."""

    def __init__(self) -> None:
        self._before: dict[str, deque[tuple[int, Mapping[str, Any]]]] = {}

    def __len__(self) -> int:
        """Objects with changes that are not confirmed."""
        return len(self._before)

    def keep(self, ticket: Ticket, state: Mapping[str, Any]) -> None:
        """The attributes of an object before this change, which is about to be made. Nobody changes them any more."""
        self._before.setdefault(ticket.object, deque()).append((ticket.number, state))

    def confirmed(self, tickets: Iterable[Ticket]) -> None:
        """These changes are confirmed, and so are those before them."""
        for key, number in tickets:
            before = self._before.get(key)
            while before and before[0][0] <= number:
                before.popleft()
            if before is not None and not before:
                del self._before[key]

    def oldest(self, key: str) -> Mapping[str, Any] | None:
        """The attributes of the object in the cut. None: those that it has now."""
        before = self._before.get(key)
        return before[0][1] if before else None


class Cut:
    """Given to the function of ``Node.read``, for as long as it runs."""

    def __init__(self, space: Space, copies: Copies, operations: int) -> None:
        self._space, self._copies = space, copies
        self.operations = operations
        """Operations that this node has confirmed since it was opened."""

    def get(self, kind: type[S], name: str) -> S:
        """A copy of the object. An object that no operation has touched yet is as it is made."""
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
