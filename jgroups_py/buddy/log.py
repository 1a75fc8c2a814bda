"""The log of an owner: every change of its nodes, one entry at a time, to all of its holders.

What is to be done when all holders have an entry waits here: a caller to be told, a former owner, a
new one. Actions run at the end of the step (``advance``), never in the middle of a change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jgroups_py.buddy.messages import AdoptedGroups, Op, Part
from jgroups_py.buddy.values import Node, Path, pieces
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine

Action = Callable[[], None]


def _value(change: tuple[Path, Node | None]) -> object:
    return change[1] and change[1].value


class Log:
    """``seq``: the last entry. ``wrote``: the last one that changed a value. ``acked``: all holders have everything up to
    here."""

    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.seq = 0
        self.wrote = 0
        self.acked = 0
        self._waiting: deque[tuple[int, Action]] = deque()
        self._touched: dict[Path, int] = {}
        self._entries: deque[tuple[int, tuple[Path, ...]]] = deque()

    def append(
        self,
        changes: Sequence[tuple[Path, Node | None]],
        adopted: AdoptedGroups = (),
        then: Action | None = None,
        *,
        wrote: bool = False,
    ) -> None:
        """Sends an entry to every holder that is not dismissed, in messages of ``chunk_nodes`` and
        ``chunk_bytes``; ``then`` once all holders have it. ``wrote``: all its changes are new values."""
        self.seq += 1
        entry = tuple([(p, n and self.replica(n)) for p, n in changes])
        if wrote:
            self.wrote = self.seq
            for journal in self.machine.journals:
                journal.logged(self.machine.me, self.seq, entry)
        receivers = self.machine.buddies.receivers()
        if len(entry) > 1 and receivers:
            config = self.machine.config
            *first, last = pieces(entry, _value, config.chunk_nodes, config.chunk_bytes)
            for piece in first:
                self._send(receivers, Part(tuple(piece)))
            entry = tuple(last)
        self._send(receivers, Op(self.seq, entry, adopted, wrote))
        for path, _ in changes:
            self._touched[path] = self.seq
        self._entries.append((self.seq, tuple([path for path, _ in changes])))
        if then is not None:
            self._waiting.append((self.seq, then))

    def _send(self, receivers: Sequence[Address], message: Part | Op) -> None:
        for member in receivers:
            self.machine.send(member, message)

    @staticmethod
    def replica(node: Node) -> Node:
        """As holders keep it."""
        return node if node.to is None else replace(node, to=None)

    def when_acked(self, then: Action) -> None:
        """``then`` once all holders have everything logged so far."""
        self._waiting.append((self.seq, then))

    def stable(self, path: Path) -> bool:
        """Do all holders have the last change of ``path``?"""
        return self._touched.get(path, 0) <= self.acked

    @property
    def open(self) -> int:
        """Entries that not all holders have."""
        return self.seq - self.acked

    def advance(self) -> bool:
        """Takes account of acknowledgements and of holders that have gone; runs what waited for them."""
        moved = False
        if self.acked < self.seq:
            acked = self.machine.buddies.acked_by_all(self.seq)
            moved = acked > self.acked
        if moved:
            self.acked = acked
            entries, touched = self._entries, self._touched
            while entries and entries[0][0] <= acked:
                for path in entries.popleft()[1]:
                    if touched.get(path, acked + 1) <= acked:
                        del touched[path]
        ran = False
        while self._waiting and self._waiting[0][0] <= self.acked:
            ran = True
            self._waiting.popleft()[1]()
        return moved or ran
