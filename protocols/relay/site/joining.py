"""Where a member begins: joiners, state transfer, and what waits until it is known."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jgroups_py.protocols.relay.wire import Known, Lack, Need, Record, Snapshot, ViewKey
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch

if TYPE_CHECKING:
    from jgroups_py.protocols.relay.protocol import RELAY

SNAPSHOTS_MAX: Final = 8
"""Views of which the digests are remembered for members that joined with them."""
SNAPSHOT_SECONDS: Final = 300.0
"""For so long, where somebody who joined is cut off: it may come back and ask still."""
EARLY_MAX: Final = 1000
"""Records of views to come that are kept."""


@dataclass(slots=True)
class _Remembered:
    """What joiners of one view begin with; ``waiting``: who may still ask for it."""

    known: Known
    at: float
    waiting: dict[Address, None]


class Joining:
    """RELAYED and the relay's records wait in ``queue`` while this member ``waits``."""

    def __init__(self, relay: RELAY) -> None:
        self.relay = relay
        self.joined_with: ViewKey | None = None
        """The view with which this member joined, until the digests for it have come."""
        self.blind = False
        """Nobody could say where to begin: all that is not acknowledged is for this member."""
        self.blind_since = 0.0
        self.state_due = False
        self.state_marks: dict[Address, Known] = {}
        """By provider that was asked for the state: the digests of its moment."""
        self.marked_by: Address | None = None
        """Whose state came, until its digests come too."""
        self.queue: deque[Batch] = deque()
        self.queued = 0
        self.snapshots: dict[ViewKey, _Remembered] = {}
        self.fresh: dict[Address, None] = {}
        """Members that may not know yet where they begin."""
        self.early: dict[tuple[Address, type], tuple[Address, Any]] = {}
        """Records that belong to views this member has not installed."""
        self.early_until = 0.0

    def remember_view(self, joined: list[Address]) -> None:
        """What joiners of this view begin with, and those before them that may have missed theirs."""
        relay = self.relay
        self.fresh.update(dict.fromkeys(joined))
        self.fresh = {m: None for m in self.fresh if m in relay.line}
        if self.fresh:
            known = relay.known_here()
            self.snapshots[relay.view_key] = _Remembered(known, relay.now, dict(self.fresh))
        self._forget_snapshots()

    def on_begun(self, members: Sequence[bytes]) -> None:
        for member in members:
            self.fresh.pop(UUID(member), None)
            for snapshot in self.snapshots.values():
                snapshot.waiting.pop(UUID(member), None)
        self._forget_snapshots()

    def _forget_snapshots(self) -> None:
        oldest = self.relay.now - SNAPSHOT_SECONDS
        kept = [(k, s) for k, s in self.snapshots.items() if s.waiting and s.at > oldest]
        self.snapshots = dict(kept[-SNAPSHOTS_MAX:])

    def tell_joiners(self, joined: list[Address]) -> None:
        key = self.relay.view_key
        for member in joined:
            self.relay.out.tell(member, Snapshot(key, self.snapshots[key].known))

    def begin_anywhere(self) -> None:
        """Nobody is left who could tell where to begin, or this member is the first."""
        if self.joined_with is not None:
            self.blind = True
            self.blind_since = self.relay.now
        self.joined_with = None
        self.end_state()

    def see_again(self) -> None:
        """At a view: whoever is still beyond a partition has had the time to come back."""
        if self.blind and self.relay.now >= self.blind_since + self.relay.config.gap_wait:
            self.blind = False

    def expect_state(self) -> None:
        self.end_state()
        self.state_due = True

    def on_mark(self, provider: Address, known: Known) -> None:
        """The digests of the moment at which ``provider`` was asked for its state. STATE_TRANSFER
        holds them back like everything else: they come right behind the state."""
        if not self.state_due:
            return
        self.state_marks[provider] = known
        if provider == self.marked_by:
            self.begin_with_state(known)
            self.release()

    @property
    def waits(self) -> bool:
        """Is it not known yet where this member begins?"""
        return self.relay.view is None or self.joined_with is not None or self.state_due

    def enqueue(self, batch: Batch) -> None:
        relay = self.relay
        if self.queued + len(batch) > relay.config.join_queue:
            relay.counters.queue_full += len(batch)
            relay.consume(batch)
        else:
            self.queue.append(batch)
            self.queued += len(batch)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        """Nobody needs one that did not join with that view, or was counted as joined in vain."""
        relay = self.relay
        if relay.view is None:
            self.keep_early(relay.local_address, snapshot)
        elif self.joined_with == snapshot.view:
            self.begin_with(snapshot.known)

    def begin_with(self, known: Known) -> None:
        relay = self.relay
        self.joined_with = None
        relay.learn(known, digest=True)
        self.learn_rest(known)
        self.release()
        if relay.holding.round is not None:
            relay.holding.ask_round()

    def on_need(self, src: Address, need: Need) -> None:
        relay = self.relay
        if need.view[1] > relay.view_key[1] or self.joined_with:
            self.keep_early(src, need)
            return
        found = self.snapshots.get(need.view)
        relay.out.tell(
            src, Snapshot(need.view, relay.known_here() if found is None else found.known)
        )

    def on_state(self, provider: Address | None) -> None:
        """The state of ``provider`` came, or (None) none."""
        if provider is not None:
            # After what was held back: answers to a round that is under way are older.
            self.relay.machine.soon(self.relay.holding.collect_again)
        mark = None if provider is None else self.state_marks.get(provider)
        if mark is not None:
            self.begin_with_state(mark)
        elif isinstance(provider, UUID) and provider.is_ours:
            self.marked_by = provider
            self.relay.machine.soon(self.no_mark)
        else:
            self.end_state()

    def no_mark(self) -> None:
        """All that STATE_TRANSFER held back has come."""
        if self.marked_by is not None:
            self.relay.trace("state without digests", provider=self.relay.name_of(self.marked_by))
            self.end_state()
            self.release()

    def end_state(self) -> None:
        self.state_due = False
        self.state_marks = {}
        self.marked_by = None

    def begin_with_state(self, mark: Known) -> None:
        """What the state contains does not come again, what it lacks does."""
        relay = self.relay
        self.end_state()
        before = {s: dict(n) for s, n in relay.state.site_digest.items()}
        self.joined_with = None
        relay.learn(mark, digest=True, replace=True)
        self.learn_rest(mark)
        for site, numbers in before.items():
            less = {o: relay.state.has(site, o) for o, n in numbers.items()}
            less = {o: n for o, n in less.items() if n < numbers[o]}
            if less:
                relay.tell_relay(Lack(site, less))
        if relay.holding.round is not None:
            relay.holding.ask_round()

    def learn_rest(self, known: Known) -> None:
        """Up to its serial the relay's records are contained in ``known``; it may name who has gone."""
        relay = self.relay
        if relay.line:
            relay.control.contained(relay.line[0], known.serial)
        relay.home.note_departed()
        relay.out.wake()

    def release(self) -> None:
        """What was queued is handled now."""
        relay = self.relay
        if self.waits:
            return
        queue, self.queue = self.queue, deque()
        self.queued = 0
        for batch in queue:
            relay.up(batch)
        self.early_records()
        relay.report()
        relay.out.wake()

    def keep_early(self, src: Address, record: Record) -> None:
        """A record of a view that this member has not installed yet."""
        relay = self.relay
        if len(self.early) < EARLY_MAX or (src, type(record)) in self.early:
            self.early[src, type(record)] = (src, record)
            self.early_until = relay.now + relay.config.gap_wait
            relay.out.wake()
        else:
            relay.counters.strangers += 1

    def forget_early(self) -> bool:
        """A view that has not come by now is not one of ours; who needs an answer asks again. True:
        some are still waited for."""
        if self.relay.now >= self.early_until:
            self.early.clear()
        return bool(self.early)

    def early_records(self) -> None:
        early, self.early = self.early, {}
        for src, record in early.values():
            self.relay.on_record(src, record)
