"""The numbers at which a member begins: the digests for joiners, the digests of a state, and the messages that wait for
them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.wire import Known, Record, ViewKey
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View

SNAPSHOTS_MAX: Final = 8
"""Views whose digests are remembered for their joiners."""
SNAPSHOT_SECONDS: Final = 300.0
"""The time for which they are remembered. A joiner that was cut off may still come back and ask."""
EARLY_MAX: Final = 1000
"""The most records that are kept for later views."""


@dataclass(slots=True)
class _Remembered:
    """The knowledge with which joiners of one view begin. ``waiting``: members that may still ask for it."""

    known: Known
    at: float
    waiting: dict[Address, None]


class Joining:
    """While this member ``waits``, RELAYED and the relay's records stay in a queue of ``limit`` messages."""

    def __init__(self, out: RelayOut, roles: Roles, limit: int) -> None:
        self.joined_with: ViewKey | None = None
        """The view with which this member joined, until the digests for it have come."""
        self.blind = False
        """True: no member could tell where to begin, so this member takes all unacknowledged messages."""
        self.blind_since = 0.0
        self.state_due = False
        self.state_marks: dict[Address, Known] = {}
        """By provider of a state: the digests of the moment of the request."""
        self.marked_by: Address | None = None
        """The provider of a state whose digests have not come yet."""
        self.queue: deque[Batch] = deque()
        self.queued = 0
        self.snapshots: dict[ViewKey, _Remembered] = {}
        self.fresh: dict[Address, None] = {}
        """Members that may not know where they begin."""
        self.begun_said: ViewKey | None = None
        """The last view in which this member, as relay, announced that all have begun."""
        self.early: dict[tuple[Address, type], tuple[Address, Any]] = {}
        """Records of views that this member has not installed."""
        self.early_until = 0.0
        self._out = out
        self._roles = roles
        self._limit = limit

    @property
    def waits(self) -> bool:
        """Does this member not know yet where it begins?"""
        return self._roles.view is None or self.joined_with is not None or self.state_due

    # --- for joiners

    def remember_view(self, joined: list[Address], known_here: Callable[[], Known]) -> None:
        """Remember the present digests. Joiners of this view begin with them, and so do earlier joiners that may
        have missed theirs."""
        self.fresh.update(dict.fromkeys(joined))
        self.fresh = {m: None for m in self.fresh if m in self._roles.line}
        if self.fresh:
            known = known_here()
            self.snapshots[self._roles.key] = _Remembered(known, self._out.now, dict(self.fresh))
        self._forget_snapshots()

    def snapshot(self, view: ViewKey) -> Known | None:
        """Return the digests for joiners of ``view``, if they are remembered."""
        found = self.snapshots.get(view)
        return None if found is None else found.known

    def all_have_begun(self) -> bool:
        """Note that all members have reported in this view. True: the relay must announce it."""
        if not self.fresh or self.begun_said == self._roles.key:
            return False
        self.begun_said = self._roles.key
        return True

    def on_begun(self, members: Sequence[bytes]) -> None:
        for member in members:
            self.fresh.pop(UUID(member), None)
            for snapshot in self.snapshots.values():
                snapshot.waiting.pop(UUID(member), None)
        self._forget_snapshots()

    def _forget_snapshots(self) -> None:
        oldest = self._out.now - SNAPSHOT_SECONDS
        kept = [(k, s) for k, s in self.snapshots.items() if s.waiting and s.at > oldest]
        self.snapshots = dict(kept[-SNAPSHOTS_MAX:])

    # --- first numbers of this member

    def join(self, view: ViewKey) -> None:
        """Begin to wait for the digests: this member joined with ``view``."""
        self.joined_with = view

    def begin_anywhere(self) -> None:
        """Begin blindly: this member is the first, or no member is left that knows the numbers."""
        if self.joined_with is not None:
            self.blind = True
            self.blind_since = self._out.now
        self.joined_with = None
        self.end_state()

    def see_again(self, wait: float) -> bool:
        """Forget old views after ``wait``: members beyond a partition had time to come back. True: this member is blind
        still."""
        if self.blind and self._out.now >= self.blind_since + wait:
            self.blind = False
        return self.blind

    def begin(self) -> None:
        """End the wait: the digests have come."""
        self.joined_with = None

    # --- a state

    def expect_state(self) -> None:
        self.end_state()
        self.state_due = True

    def mark(self, provider: Address, known: Known) -> bool:
        """Keep the digests of a provider's state. STATE_TRANSFER holds them back, so they come right behind the state.
        True: the member begins with them."""
        if not self.state_due:
            return False
        self.state_marks[provider] = known
        return provider == self.marked_by

    def mark_of(self, provider: Address | None) -> Known | None:
        return None if provider is None else self.state_marks.get(provider)

    def await_mark(self, provider: Address) -> None:
        """Wait for the digests of a state that came before them."""
        self.marked_by = provider

    def end_state(self) -> None:
        self.state_due = False
        self.state_marks = {}
        self.marked_by = None

    # --- waiting records

    def enqueue(self, batch: Batch) -> bool:
        """Keep ``batch`` while this member waits. False: the queue is full."""
        if self.queued + len(batch) > self._limit:
            return False
        self.queue.append(batch)
        self.queued += len(batch)
        return True

    def take_queue(self) -> deque[Batch]:
        queue, self.queue = self.queue, deque()
        self.queued = 0
        return queue

    def keep_early(self, src: Address, record: Record, wait: float) -> bool:
        """Keep a record of a view that this member has not installed yet, for ``wait`` seconds. False: there are too
        many."""
        if len(self.early) < EARLY_MAX or (src, type(record)) in self.early:
            self.early[src, type(record)] = (src, record)
            self.early_until = self._out.now + wait
            return True
        return False

    def take_early(self) -> list[tuple[Address, Any]]:
        early, self.early = self.early, {}
        return list(early.values())

    def forget_early(self) -> bool:
        """Forget records whose view has not come in time: the view is not ours, and askers ask again. True: some are
        left."""
        if self._out.now >= self.early_until:
            self.early.clear()
        return bool(self.early)

    def keep(self, view: View) -> None:
        """Forget the records of members that are not in ``view``."""
        for key in [k for k in self.early if k[0] not in view.members]:
            del self.early[key]
