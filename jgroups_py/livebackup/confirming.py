"""Confirming: when the live node may answer a client, and the lag of the backups. Without I/O.

    all      every backup has confirmed
    quorum   a majority of all nodes, the live one included
    first    one backup has confirmed

Without backups an operation is answered at once, unless ``backups_min`` asks for some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

Rule = Literal["all", "quorum", "first"]
RULES: Final[tuple[Rule, ...]] = ("all", "quorum", "first")
COMING_MAX: Final = 100_000
"""The most operations noted for a member whose snapshot is on its way. Beyond this the member's lag counts only
unanswered operations."""
B = TypeVar("B")


class BackupLag(NamedTuple):
    """The lag of the slowest backup."""

    operations: int
    bytes: int
    seconds: float


class _Sent(msgspec.Struct, Generic[B], gc=False):
    """An operation, and the backups that have confirmed it and are still backups."""

    size: int
    at: float
    by: tuple[B, ...] = ()  # most have one backup, which is not noted

    def confirmed(self, by: B) -> None:
        """Note a confirmation. A backup that says that it is ready once more may confirm again."""
        if by not in self.by:
            self.by = (*self.by, by)


class _Backup(msgspec.Struct, Generic[B]):
    behind: dict[int, _Sent[B]] = {}
    """Operations that the backup has not confirmed, the oldest first."""
    bytes: int = 0


class Confirming(Generic[B]):
    """Confirmations of one live node in one term. Operations have growing numbers."""

    def __init__(self, rule: Rule, backups_min: int = 0, awaited: Iterable[B] = ()) -> None:
        """``awaited``: members with the live node's state that have not yet said that they follow it. No client is
        answered before."""
        self._awaited = dict.fromkeys(awaited)
        self._rule = rule
        self._backups_min = backups_min
        self.backlogs: dict[B, _Backup[B]] = {}
        """The backups, each with the operations that it has not confirmed. For reading only."""
        self._coming: dict[B, _Backup[B]] = {}
        """Members with a snapshot that are not ready yet, and the operations since."""
        self._open: dict[int, _Sent[B]] = {}
        """Unanswered operations."""
        self.is_open: Callable[[int], bool] = self._open.__contains__
        """Returns whether a sent operation is not yet confirmed by as many backups as its client waits for."""

    @property
    def backups(self) -> tuple[B, ...]:
        return tuple(self.backlogs)

    @property
    def members(self) -> tuple[B, ...]:
        """Return the backups, awaited ones included."""
        return (*self.backlogs, *self._awaited)

    def __len__(self) -> int:
        """Count the unanswered operations."""
        return len(self._open)

    def sent(self, number: int, size: int, now: float) -> list[int]:
        """Note an operation sent to all backups. Return the operations that may be answered."""
        sent: _Sent[B] = _Sent(size, now)
        self._open[number] = sent
        for backup in self.backlogs.values():
            backup.behind[number] = sent
            backup.bytes += size
        if self._coming:
            self._note_for_coming(number, sent)
        return [] if self.backlogs else self._answers((number,))

    def _note_for_coming(self, number: int, sent: _Sent[B]) -> None:
        for member, backup in list(self._coming.items()):
            backup.behind[number] = sent
            backup.bytes += sent.size
            if len(backup.behind) > COMING_MAX:
                del self._coming[member]

    def confirmed(self, by: B, numbers: Iterable[int]) -> list[int]:
        """Note confirmations. Return the operations that may be answered. Unknown numbers are ignored."""
        backup = self.backlogs.get(by)
        if backup is None:
            return []
        numbers = list(numbers)
        take, size, one_is_enough = backup.behind.pop, 0, self._needed() == 1
        answers: list[int] = []
        for number in numbers:
            sent = take(number, None)
            if sent is None:
                continue
            size += sent.size
            if not one_is_enough:
                sent.confirmed(by)
            elif self._open.pop(number, None) is not None:
                answers.append(number)
        backup.bytes -= size
        return answers if one_is_enough else self._answers(numbers)

    def given(self, member: B) -> None:
        """Note a snapshot made for a member. When the member is ready, it lags by all operations sent since, answered
        or not."""
        self._coming[member] = _Backup()

    def joined(self, backup: B, last: int) -> list[int]:
        """Note a ready backup, whose snapshot confirms the operations up to ``last``. Return the operations that may be
        answered."""
        self._awaited.pop(backup, None)
        known = self._coming.pop(backup, _Backup()).behind | self._open
        behind = {number: known[number] for number in sorted(known) if number > last}
        self.backlogs[backup] = _Backup(behind, sum(sent.size for sent in behind.values()))
        for number, sent in self._open.items():
            if number <= last:
                sent.confirmed(backup)
        return self.all_open()

    def left(self, backup: B) -> list[int]:
        """Forget a backup. Return the operations that may be answered without it."""
        self._awaited.pop(backup, None)
        self._coming.pop(backup, None)
        if self.backlogs.pop(backup, None) is not None:
            for sent in self._open.values():
                sent.by = tuple(one for one in sent.by if one != backup)
        return self._answers(list(self._open))

    def all_open(self) -> list[int]:
        """Return the operations that may be answered now."""
        return self._answers(list(self._open))

    def is_settled(self, number: int) -> bool:
        """Is a sent operation answered, and confirmed by every present and coming backup?"""
        if number in self._open:
            return False
        for some in (self.backlogs, self._coming):
            for one in some.values():
                if number in one.behind:
                    return False
        return True

    def lag(self, now: float, running_since: float = math.inf) -> BackupLag:
        """Return the lag. ``running_since``: as for ``behind``."""
        operations, size, oldest = self.behind(running_since)
        return BackupLag(operations, size, 0.0 if oldest is None else now - oldest)

    def behind(self, running_since: float = math.inf) -> tuple[int, int, float | None]:
        """Return the most operations and bytes that a backup has not confirmed, and the time of the oldest operation.

        ``running_since``: when the operation began that runs for longest on the live node. The oldest one is sought among
        those sent before it: a backup may have to wait for that one, and it is not late then.
        """
        operations = size = 0
        oldest: float | None = None
        for one in self.backlogs.values():
            behind = one.behind
            if behind:
                operations = len(behind) if len(behind) > operations else operations
                size = one.bytes if one.bytes > size else size
                at = next(iter(behind.values())).at
                if at < running_since and (oldest is None or at < oldest):
                    oldest = at
        return operations, size, oldest

    def _answers(self, numbers: Iterable[int]) -> list[int]:
        needed = self._needed()
        if needed is None:
            return []
        is_open, answers = self._open, []
        for number in numbers:
            sent = is_open.get(number)
            if sent is not None and len(sent.by) >= needed:
                del is_open[number]
                answers.append(number)
        return answers

    def _needed(self) -> int | None:
        """Return the number of backups that must have confirmed an operation. None: no client is answered now."""
        there = len(self.backlogs)
        if self._awaited or there < self._backups_min:
            return None
        match self._rule:
            case "all":
                return there
            case "quorum":
                return (there + 1) // 2  # more than half of the nodes, with the live node
            case "first":
                return min(1, there)
