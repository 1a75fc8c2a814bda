"""The log of an owner: every change of its nodes, one entry at a time, to all of its holders.

An action that needs an entry to be safe waits here until all holders have the entry. Actions run at the end of the
step (``advance``), never in the middle of a change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.holders import Holders
from jgroups_py.buddy.journal import Journal
from jgroups_py.buddy.messages import AdoptedGroups, Op, Part
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.values import OwnedNode, Path, pieces
from jgroups_py.values.address import Address

Action = Callable[[], None]
Entry = tuple[tuple[Path, OwnedNode | None], ...]


def _value(change: tuple[Path, OwnedNode | None]) -> object:
    return change[1] and change[1].value


class WriteLog:
    """``seq``: the last entry. ``wrote``: the last entry that changed a value. ``acked``: the last entry that all
    holders have, with all before it."""

    def __init__(
        self,
        me: Address,
        config: BuddyConfig,
        holders: Holders,
        journals: list[Journal],
        out: BuddyOut,
    ) -> None:
        self._me = me
        self._config = config
        self._holders = holders
        self._journals = journals
        self._out = out
        self.seq = 0
        self.wrote = 0
        self.acked = 0
        self.waiting: deque[tuple[int, Action]] = deque()
        """Actions, each with the entry that all holders must have before."""
        self._touched: dict[Path, int] = {}
        self._entries: deque[tuple[int, tuple[Path, ...]]] = deque()

    def append(
        self,
        changes: Sequence[tuple[Path, OwnedNode | None]],
        adopted: AdoptedGroups = (),
        then: Action | None = None,
        *,
        wrote: bool = False,
    ) -> None:
        """Send an entry to every holder that is not dismissed, in messages of ``chunk_nodes`` and
        ``chunk_bytes``. ``then`` runs when all holders have it. ``wrote``: all its changes are new values."""
        self.seq += 1
        if len(changes) == 1:  # a write; this saves some calls for each
            path, node = changes[0]
            entry: Entry = ((path, node and self.replica(node)),)
            paths: tuple[Path, ...] = (path,)
        else:
            entry = tuple([(p, n and self.replica(n)) for p, n in changes])
            paths = tuple([path for path, _ in changes])
        if wrote:
            self.wrote = self.seq
            for journal in self._journals:
                journal.logged(self._me, self.seq, entry)
        receivers = self._holders.receivers()
        if len(entry) > 1 and receivers:
            config = self._config
            *first, last = pieces(entry, _value, config.chunk_nodes, config.chunk_bytes)
            for piece in first:
                self._send(receivers, Part(tuple(piece)))
            entry = tuple(last)
        self._send(receivers, Op(self.seq, entry, adopted, wrote))
        for path in paths:
            self._touched[path] = self.seq
        self._entries.append((self.seq, paths))
        if then is not None:
            self.waiting.append((self.seq, then))

    def _send(self, receivers: Sequence[Address], message: Part | Op) -> None:
        for member in receivers:
            self._out.send(member, message)

    @staticmethod
    def replica(node: OwnedNode) -> OwnedNode:
        """Return the node as holders keep it."""
        return node if node.to is None else replace(node, to=None)

    def when_acked(self, then: Action) -> None:
        """Run ``then`` when all holders have every entry logged so far."""
        self.waiting.append((self.seq, then))

    def stable(self, path: Path) -> bool:
        """Do all holders have the last change of ``path``?"""
        return self._touched.get(path, 0) <= self.acked

    @property
    def open(self) -> int:
        """The number of entries that not all holders have."""
        return self.seq - self.acked

    def advance(self) -> bool:
        """Count acknowledgements and departed holders, and run the actions that waited for them. False: nothing has
        changed."""
        moved = False
        if self.acked < self.seq:
            acked = self._holders.acked_by_all(self.seq)
            moved = acked > self.acked
        if moved:
            self.acked = acked
            entries, touched = self._entries, self._touched
            while entries and entries[0][0] <= acked:
                for path in entries.popleft()[1]:
                    if touched.get(path, acked + 1) <= acked:
                        del touched[path]
        ran = False
        while self.waiting and self.waiting[0][0] <= self.acked:
            ran = True
            self.waiting.popleft()[1]()
        return moved or ran
