"""The parts of a history: operations, and the model of their effects."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar


class _Unknown:
    """The result of an operation that may or may not have happened."""

    def __repr__(self) -> str:
        return "?"


UNKNOWN: Final = _Unknown()
NEVER: Final = math.inf
"""The return time of an operation that has not returned, or that may or may not have happened."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of one caller.

    Args: caller: for people only. what: the request, for the model. call, returned: times on one clock. An operation
        may have happened at any time from one to the
            other. NEVER: it has not returned, or ended with an error that does not say whether it happened;
            then it may have happened at any time after ``call``, or not at all, and ``result`` is UNKNOWN.
            Operations that certainly did not happen are left out of a history.
        result: the returned value.
        copy: set for a read of a copy that follows the others: the name of that copy. Such reads see all changes that
            had returned before the read was called, and reads of one copy never go back in time. Two copies may
            be at different changes. Empty: an operation like any other.
    """

    caller: str
    what: Any
    call: float
    returned: float
    result: Any = None
    copy: str = ""

    @property
    def known(self) -> bool:
        """Has it certainly happened?"""
        return self.returned != NEVER

    def precedes(self, other: Operation) -> bool:
        """Must it have happened before ``other``?"""
        if not self.returned < other.call:
            return False
        return not self.copy or not other.copy or self.copy == other.copy


State = TypeVar("State", bound=Hashable)


class Model(ABC, Generic[State]):
    """The effect of operations, one at a time. It has no state of its own."""

    @abstractmethod
    def initial(self) -> State:
        """Return the state before the first operation."""

    @abstractmethod
    def step(self, state: State, what: Any, result: Any) -> tuple[bool, State]:
        """Return whether ``what``, done in ``state``, can have had this result, and the state afterwards.
        ``result`` may be UNKNOWN: then any result will do."""

    def keys(self, what: Any) -> Sequence[Hashable] | None:
        """Return the parts of the state that the operation reads and writes. None: all of it. Operations that share no
        key, not even through others, are checked separately."""
        return None

    def only_reads(self, what: Any) -> bool:
        """Does the operation change no state?"""
        return False

    # Four methods make the search quick where values are written once. The check is as exact without them.

    def never_changes(self, what: Any, result: Any) -> bool:
        """Is there no state in which the operation has this result and changes something? True for reads, and for a
        compare-and-set that has failed."""
        return self.only_reads(what)

    def facts(self, state: State) -> frozenset[Hashable]:
        """Return the facts of a state, as far as ``wants`` may name them."""
        return frozenset()

    def wants(self, what: Any, result: Any) -> Sequence[Hashable]:
        """Return the facts without which the operation cannot have had this result."""
        return ()

    def gives(self, what: Any) -> Sequence[Hashable] | None:
        """Return the facts that the operation may bring about. None: any."""
        return None

    def text(self, what: Any, result: Any) -> str:
        """Return the text for the time line."""
        return f"{what} -> {result}"
