"""IndexCopy: one copy of the index, and the updates that it begins.

    lock        every registered copy in the view is locked, or all are released and the attempt is repeated after a random time
    propose     the new state goes to all of them; a copy waits until the lease of a manager that is replaced is over
    unlock      when all have the state, it is decided, and only now do copies show it

A move has its update prepared, so that only a part of "propose" is left for the time of its lock (reservation.py).

A copy that finds a newer proposal while it locks builds on that proposal. So the update of a lost initiator is either
finished or void.

Source: 4.4.4 to 4.4.7, 4.5.2.6. Differs: a majority of the static set must take part; a decision is shown only after all have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.errors import BucketError, Busy, Refused, Unavailable
from jgroups_py.buckets.followers import Followers
from jgroups_py.buckets.grants import Grants
from jgroups_py.buckets.messages import (
    EMPTY,
    BucketRow,
    ComponentInfo,
    Follow,
    IndexState,
    Lock,
    LockAnswer,
    Message,
    Ping,
    Placed,
    Pong,
    Propose,
    Proposed,
    Redeem,
    Reserve,
    Reserved,
    SetLocation,
    Told,
    Txn,
    Unlock,
)
from jgroups_py.buckets.port import Port, index_copies
from jgroups_py.buckets.reservation import KeptState, Reservation, Reservations
from jgroups_py.buckets.rows import losses
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.buckets.states import difference, first_state, managers_of, settled, with_row

CHANGES_MAX = 1_000
"""The most updates that wait at one copy. Beyond it they are refused, counted ``changes_full``."""

PAUSE_DOUBLED = 3
"""The most times that the pause between two attempts of an update is doubled."""
PAUSE_MAX = 5.0
"""The longest such pause, in seconds."""

Compute = Callable[[IndexState], IndexState]
"""Makes the new state from the old one, under the lock. Returns the old object for no change. Raises Refused."""
Ended = Callable[[IndexState | None, BucketError | None], None]
"""Called with the decided state, or with an error: Refused; Unavailable: no quorum, the change may be tried again; Busy."""


@dataclass
class Update:
    """An update that this copy has begun. ``reservation``: the move that it is for. ``kept``: copies keep the state until the
    move redeems it."""

    txn: Txn
    changes: list[tuple[Compute, Ended]]
    began: float
    reservation: Reservation | None = None
    kept: bool = False
    asked: set[Cep] = field(default_factory=set)
    answers: dict[Cep, LockAnswer] = field(default_factory=dict)
    refused: bool = False
    state: IndexState | None = None
    before: IndexState = EMPTY
    waits_for: set[Cep] = field(default_factory=set)
    ended: list[tuple[Ended, BucketError | None]] = field(default_factory=list)


class IndexCopy:
    """``state``: the decided state. ``placement``: names of the managers of master and slave by bucket, used once by
    the copy that creates the instance."""

    def __init__(
        self,
        port: Port,
        info: ComponentInfo,
        settings: InstanceSettings,
        placement: dict[int, tuple[str, str]] | None = None,
    ) -> None:
        self.port, self.info, self.settings = port, info, settings
        self.placement = placement
        self.state = EMPTY
        self.proposed: IndexState | None = None
        self.locked_by: Txn | None = None
        self.counts: Counter[str] = Counter()
        self.on_rows: list[Callable[[], None]] = []
        self._update: Update | None = None
        self._changes: list[tuple[Compute, Ended]] = []
        self._reservations = Reservations()
        self._kept: KeptState | None = None
        self._number = self._refusals = 0
        self._grants = Grants(port.now, settings.lease)
        self._followers = Followers(self.counts)
        self._last: Unlock | None = None

    # --- questions of others

    def get_bucket_location(self, bucket: int) -> BucketRow | None:
        """Return the row of a bucket (GetBucketLocation)."""
        return self.state.rows.get(bucket)

    def set_bucket_location(self, row: BucketRow, ended: Ended) -> None:
        """Change a row if its epoch is the one before ``row.epoch`` (SetBucketLocation). An equal row is a success,
        too."""
        self.update(lambda state: with_row(state, row, self.port.members), ended)

    def update(self, compute: Compute, ended: Ended) -> None:
        """Begin an update."""
        if len(self._changes) >= CHANGES_MAX:
            self.counts["changes_full"] += 1
            ended(None, Busy(f"CHANGES_MAX: {CHANGES_MAX} updates wait"))
            return
        self._changes.append((compute, ended))
        self._begin()

    @property
    def has_quorum(self) -> bool:
        """Is a quorum of registered copies in the view? Without it no change is possible."""
        return self._registered(self.state) >= self.settings.quorum

    @property
    def leads(self) -> bool:
        """Is this the first copy in the view? The first copy reacts to the loss and arrival of members."""
        indices = index_copies(self.port, self.settings)
        return bool(indices) and indices[0] == self.port.cep

    def handle(self, frm: Cep, message: Message) -> None:
        match message:
            case Lock():
                self._on_lock(frm, message)
            case LockAnswer():
                self._on_lock_answer(frm, message)
            case Propose():
                self._on_propose(frm, message)
            case Proposed():
                self._on_proposed(frm, message)
            case Unlock():
                self._on_unlock(message)
            case SetLocation():
                self._on_set(frm, message)
            case Reserve():
                self._on_reserve(frm, message)
            case Redeem():
                self._on_redeem(frm, message)
            case Ping():
                self._on_ping(frm, message)
            case Follow():
                self._on_follow(frm, message)
            case _:
                self.counts["unexpected"] += 1

    # --- leases

    def _on_ping(self, manager: Cep, ping: Ping) -> None:
        known = any(m.cep == manager for m in self.state.managers)
        here = manager.member in self.port.members
        if not (known and here and self._grants.grant(manager, self.port.now)):
            self.counts["leases_refused"] += 1
            return
        if self._grants.has_returned(manager):
            self.port.post(manager, Placed([r for r in self.state.rows.values() if r.epoch > 1]))
        self.port.post(manager, Pong(ping.sent))

    # --- view

    def on_view(self, merged: bool = False) -> None:
        """Act on lost members and on reports of components. ``merged``: messages of updates may be lost, so an update
        of this copy begins anew, or its last result is repeated. The first copy then always makes an update, because
        its state may be old without a sign."""
        self._followers.on_view(self.port.members)
        update = self._update
        if update is not None and update.reservation is not None and update.state is not None:
            away = not update.reservation.parties() <= set(self.port.members)
            if merged or away or self._needs_settling() or self._some_away(update):
                self._end_reservation(update)
        if merged:
            if self._update is not None:
                self._release(self._update, again=True)
            elif self._last is not None:
                for cep in sorted(self._targets()):
                    self.port.post(cep, self._last)
        if self.locked_by is not None and self.locked_by[0].member not in self.port.members:
            self.locked_by = None
        if self._update is not None:
            self._recount(self._update)
        if self.leads and (merged or self._needs_settling()):
            self.settle()
        self._begin()

    def settle(self) -> None:
        """Exempt lost components, promote and disable slaves, register new components."""
        if self._settling not in (compute for compute, _ in self._changes):
            self._changes.append((self._settling, self._settled))
        self._begin()

    def _settled(self, state: IndexState | None, problem: BucketError | None) -> None:
        if state is None:
            self.counts["not_settled"] += 1
            self.port.after(self.settings.ask_timeout, self._settle_again)
        elif self.leads:
            self._place(state, list(state.rows.values()), everywhere=True)

    def _settle_again(self) -> None:
        if self.leads and self._needs_settling():
            self.settle()

    def _needs_settling(self) -> bool:
        if not self.state.version or self.proposed is not None:
            return True
        return self._settling(self.state) is not self.state

    def _settling(self, state: IndexState) -> IndexState:
        indices = {cep.component: cep for cep in index_copies(self.port, self.settings)}
        managers = managers_of(self.port.members, self.port.hellos)
        if state.version:
            return settled(state, indices, managers, self.port.members)
        if self.placement is None:
            raise Refused("there is no instance yet, and this copy does not make it")
        return first_state(self.placement, self.settings.index_copies, indices, managers)

    # --- an update that this copy has begun

    def _targets(self) -> set[Cep]:
        """Return the copies to lock: those in the view that are registered or to be registered."""
        registered = [cep for cep in self.state.copies.values() if cep.member in self.port.members]
        return {*registered, *index_copies(self.port, self.settings)}

    def _some_away(self, update: Update) -> bool:
        return any(cep.member not in self.port.members for cep in update.asked)

    def _registered(self, state: IndexState) -> int:
        """Count the copies of the quorum."""
        members = self.port.members
        return sum(
            cep.member in members and name in self.settings.index_copies
            for name, cep in state.copies.items()
        )

    def _begin(self) -> None:
        if self._update is not None:
            return
        if not self.leads:  # the settling was noted while this copy led
            self._changes = [c for c in self._changes if c[0] != self._settling]
        reservation = None
        if self._changes:
            changes, self._changes = self._changes, []
        else:
            reservation = self._reservations.next(self.port.members)
            if reservation is None:
                return
            changes = [self._change_of(reservation)]
        self._number += 1
        txn = (self.port.cep, self._number)
        update = self._update = Update(txn, changes, self.port.now, reservation)
        update.asked = self._targets()
        for cep in sorted(update.asked):
            self.port.post(cep, Lock(update.txn, self.state.version))
        self.port.after(self._patience, lambda: self._watch(update))

    @property
    def _patience(self) -> float:
        """Return the time that an update may take before it begins again. A copy releases a lock after twice as
        long."""
        return self.settings.lease + 5 * self.settings.ask_timeout

    def _watch(self, update: Update) -> None:
        if self._update is update:
            self.counts["updates_begun_again"] += 1
            self._release(update, again=True)

    def _on_lock_answer(self, frm: Cep, answer: LockAnswer) -> None:
        update = self._update
        if update is None or answer.txn != update.txn or frm not in update.asked or update.state:
            return
        update.answers[frm] = answer
        self._recount(update)

    def _recount(self, update: Update) -> None:
        """Continue the update when all asked copies that are still in the view have answered."""
        members = self.port.members
        if update.state is not None:
            update.waits_for = {cep for cep in update.waits_for if cep.member in members}
            if update.waits_for:
                return
            if update.kept:
                self._tell_reserved(update, update.reservation)
            else:
                self._decide(update)
            return
        update.asked = {cep for cep in update.asked if cep.member in members}
        if update.asked - update.answers.keys():
            return
        if not all(update.answers[cep].granted for cep in update.asked):
            self.counts["locks_refused"] += 1
            self._release(update, again=True)
            return
        self._propose(update)

    def _propose(self, update: Update) -> None:
        """Propose the new state: all copies are locked."""
        found = [self.state, self.proposed or EMPTY]
        found += [update.answers[cep].newest or EMPTY for cep in update.asked]
        base = max(found, key=lambda state: state.version)
        update.before = base
        quorum = self.settings.quorum if base.version else len(self.settings.index_copies)
        have = self._registered(base) if base.version else len(update.asked)
        if have < quorum:
            self.counts["no_quorum"] += 1
            problem = Unavailable(f"{have} index copies are there, {quorum} are needed")
            self._release(update, problem=problem)
            return
        if update.reservation is not None and not self._can_reserve(update, base):
            # First an earlier update is finished, without waiting for other copies.
            self._put_back(update)
            update.changes, update.reservation = [], None
        state = self._computed(update, base)
        if state is base and base.version == self.state.version and self._all_have(update, base):
            self._release(update, decided=base)
            return
        if state is base:  # other copies may lack this state, and it may be undecided
            exempted = self._still_exempted(base)
            state = IndexState(base.version + 1, base.rows, base.copies, base.managers, exempted)
        update.state = state
        update.waits_for = set(update.asked)
        update.kept = update.reservation is not None
        manager = update.reservation.manager if update.reservation is not None else None
        for cep in sorted(update.asked):
            self.port.post(cep, Propose(update.txn, self._for(update, cep, state), manager))

    def _can_reserve(self, update: Update, base: IndexState) -> bool:
        """Return whether no update is open, and all members that the reservation needs are in the view."""
        assert update.reservation is not None
        decided = base.version == self.state.version and self._all_have(update, base)
        return decided and update.reservation.parties() <= set(self.port.members)

    def _computed(self, update: Update, base: IndexState) -> IndexState:
        """Apply all changes of the update as one new version."""
        state = base
        exempted = set(self._still_exempted(base))
        for compute, ended in update.changes:
            try:
                after = compute(state)
            except Refused as refusal:
                update.ended.append((ended, refusal))
                continue
            update.ended.append((ended, None))
            if after is not state:
                exempted.update(after.exempted)
                state = after
        if state is base:
            return base
        return IndexState(
            base.version + 1, state.rows, state.copies, state.managers, sorted(exempted)
        )

    def _still_exempted(self, base: IndexState) -> list[Cep]:
        """Return the managers whose leases must end before a successor of ``base`` is decided: those of an undecided
        proposal. So no update waits twice for a lease."""
        return base.exempted if base.version > self.state.version else []

    def _all_have(self, update: Update, base: IndexState) -> bool:
        return all(
            answer.version == base.version and answer.newest is None
            for answer in update.answers.values()
        )

    def _for(self, update: Update, cep: Cep, state: IndexState) -> IndexState:
        """Return the state for one copy: only the difference, if the copy has the version before."""
        answer, before = update.answers[cep], update.before
        if answer.version != before.version or answer.newest is not None:
            return state
        return difference(before, state)

    def _on_proposed(self, frm: Cep, proposed: Proposed) -> None:
        update = self._update
        if update is None or update.state is None or proposed.txn != update.txn:
            return
        update.waits_for.discard(frm)
        self._recount(update)

    def _decide(self, update: Update) -> None:
        """Decide the update, because all copies in the view have it. If these copies are no quorum, begin
        the update again."""
        assert update.state is not None
        if self._registered(update.state) < self.settings.quorum:
            self.counts["no_quorum"] += 1
            self._release(update, again=True)
            return
        self.counts["updates"] += 1
        self._release(update, decided=update.state)

    def _release(
        self,
        update: Update,
        *,
        decided: IndexState | None = None,
        problem: BucketError | None = None,
        again: bool = False,
    ) -> None:
        """Unlock the copies, with a decision or after a refusal."""
        self._update = None
        self._unlock_all(update, decided.version if decided is not None else 0)
        if decided is not None:
            self._refusals = 0
            changed = [r for b, r in decided.rows.items() if r != update.before.rows.get(b)]
            changed = [*self._first_rows(update.before, decided), *changed]
            self._commit(decided)
            self._place(decided, changed, before=update.before)
            for ended, refusal in update.ended:
                ended(None if refusal else decided, refusal)
        elif again:
            self._put_back(update)
            self.port.after(self._pause(update), self._begin)
            return
        else:
            for _, ended in update.changes:
                ended(None, problem)
        self.port.after(0.0, self._begin)

    def _first_rows(self, before: IndexState, decided: IndexState) -> list[BucketRow]:
        """Return the rows of the first epoch that are over now. By them a manager makes its first copies. It may not have heard of
        them, because the copy that made the instance is lost with its messages."""
        states = (before,) if self.state is before else (self.state, before)
        first = {
            bucket: row
            for state in states
            for bucket, row in state.rows.items()
            if row is not decided.rows[bucket]
            if row.epoch == 1 and decided.rows[bucket].epoch > 1
        }
        return list(first.values())

    def _unlock_all(self, update: Update, version: int) -> None:
        self._last = Unlock(update.txn, version)
        for cep in sorted(update.asked):
            if version or cep not in update.answers or update.answers[cep].granted:
                self.port.post(cep, self._last)

    def _put_back(self, update: Update) -> None:
        if update.reservation is not None:
            self._reservations.put_back(update.reservation)
        else:
            self._changes[:0] = update.changes

    def _pause(self, update: Update) -> float:
        """Return a random pause before the next attempt. It grows with the duration of this attempt: with slow messages
        and short pauses, attempts would refuse each other for ever. The first copy waits least, because all members wait for its
        updates."""
        self._refusals += 1
        longest = max(4 * self.settings.backoff, self.port.now - update.began)
        if not self.leads:
            longest *= 2 ** min(self._refusals, PAUSE_DOUBLED)
        return self.port.random.uniform(0.2, 1.0) * min(longest, PAUSE_MAX)

    def _place(
        self,
        state: IndexState,
        rows: list[BucketRow],
        *,
        before: IndexState = EMPTY,
        everywhere: bool = False,
    ) -> None:
        """Send managers their rows. ``everywhere``: send all rows to all managers, so that each can drop wrong
        copies."""
        known = [manager.cep for manager in state.managers]
        if everywhere:
            for cep in known:
                self.port.post(cep, Placed(rows))
            return
        for cep in known:
            theirs = [row for row in rows if _concerns(row, cep, before, state)]
            if theirs:
                self.port.post(cep, Placed(theirs))

    # --- updates that wait for a move

    def _on_reserve(self, manager: Cep, asked: Reserve) -> None:
        reservation = Reservation(manager, asked.ask, asked.row)
        if self._update is not None and self._update.reservation == reservation:
            self.counts["reserves_repeated"] += 1
            return
        if len(self._reservations) >= CHANGES_MAX:
            self.counts["changes_full"] += 1
            self._change_of(reservation)[1](None, Busy(f"CHANGES_MAX: {CHANGES_MAX} moves wait"))
            return
        self._reservations.add(reservation)
        self._begin()

    def _change_of(self, reservation: Reservation) -> tuple[Compute, Ended]:
        """Return the change that a move asks for, as if it had asked without reservation."""
        row = reservation.row

        def ended(state: IndexState | None, problem: BucketError | None) -> None:
            self._tell(reservation.manager, reservation.ask, row.bucket, state, problem)

        return (lambda state: with_row(state, row, self.port.members)), ended

    def _tell_reserved(self, update: Update, reservation: Reservation | None) -> None:
        """Tell the manager that all copies keep the state. The manager then locks its bucket and
        redeems the state."""
        assert reservation is not None
        self.counts["reserved"] += 1
        update.kept = False
        update.waits_for = set(update.asked)
        copies = sorted(update.asked)
        self.port.post(reservation.manager, Reserved(reservation.ask, update.txn, copies))
        # Where messages are slow, the move needs a little longer than this update did: five messages in a row for four.
        patience = max(self.settings.ask_timeout, 2 * (self.port.now - update.began))
        self.port.after(patience, lambda: self._end_reservation(update))

    def _end_reservation(self, update: Update) -> None:
        """Go on without the move, which asks for its row again."""
        reservation = update.reservation
        if self._update is not update or reservation is None:
            return
        self.counts["reservations_over"] += 1
        self._update = None
        self._unlock_all(update, 0)
        self.port.post(reservation.manager, Reserved(reservation.ask, update.txn, []))
        self.port.after(0.0, self._begin)

    def _on_redeem(self, manager: Cep, redeem: Redeem) -> None:
        update, kept = self._update, self._kept
        if not redeem.wanted:
            if update is not None and update.txn == redeem.txn and update.reservation is not None:
                if update.reservation.manager == manager:
                    self._end_reservation(update)
            return
        if kept is None or not (
            kept.txn == redeem.txn == self.locked_by and kept.manager == manager
        ):
            self.counts["late_redeems"] += 1
            return
        self._kept, self.proposed = None, kept.state
        self.port.post(redeem.txn[0], Proposed(redeem.txn, kept.state.version))

    # --- the updates of all copies

    def _on_lock(self, frm: Cep, lock: Lock) -> None:
        holder = self.locked_by
        # A copy has one update at a time: a newer one ends the older one.
        granted = holder is None or (holder[0] == lock.txn[0] and holder[1] <= lock.txn[1])
        if lock.txn[0].member not in self.port.members:
            granted = False
        if granted:
            self.locked_by = lock.txn
            self.port.after(2 * self._patience, lambda: self._expire(lock.txn))
        newest = self.proposed or self.state
        self.port.post(
            frm,
            LockAnswer(
                lock.txn,
                granted,
                self.state.version,
                newest if newest.version > lock.version else None,
            ),
        )

    def _expire(self, txn: Txn) -> None:
        if self.locked_by == txn:
            self.counts["locks_expired"] += 1
            self.locked_by = None

    def _on_propose(self, frm: Cep, propose: Propose) -> None:
        if self.locked_by != propose.txn:
            self.counts["late_proposals"] += 1
            return
        state = propose.state
        if not state.whole:
            rows = {**self.state.rows, **state.rows}
            state = IndexState(state.version, rows, state.copies, state.managers, state.exempted)
        txn, version = propose.txn, state.version
        if propose.reserved_for is not None:
            self._kept = KeptState(txn, propose.reserved_for, state)
            self.port.post(frm, Proposed(txn, version))
            return
        self.proposed = state
        self._grants.refuse(state.exempted)

        def agree() -> None:
            if self.locked_by == txn:
                self.port.post(frm, Proposed(txn, version))

        wait = self._grants.end(state.exempted) - self.port.now
        if wait > 0:
            self.counts["waited_for_leases"] += 1
            self.port.after(wait, agree)
        else:
            agree()

    def _on_unlock(self, unlock: Unlock) -> None:
        holder = self.locked_by
        if holder is None or holder[0] != unlock.txn[0] or holder[1] > unlock.txn[1]:
            return
        self.locked_by = None
        if unlock.decided and self.proposed is not None and self.proposed.version == unlock.decided:
            self._commit(self.proposed)

    def _commit(self, state: IndexState) -> None:
        if state.version <= self.state.version:
            return
        before, self.state = self.state, state
        for mirror, rows in self._followers.news(before, state):
            self.port.post(mirror, rows)
        if self.proposed is not None and self.proposed.version <= state.version:
            self.proposed = None
        self._grants.commit(before, state, self.port.now)
        for job in self.on_rows:
            job()
        if self.leads and self._needs_settling():
            self.port.after(0.0, self._settle_again)

    def _on_follow(self, mirror: Cep, follow: Follow) -> None:
        rows = self._followers.follow(mirror, follow, self.state)
        if rows is not None:
            self.port.post(mirror, rows)

    # --- rows

    def _on_set(self, frm: Cep, asked: SetLocation) -> None:
        bucket = asked.row.bucket

        def ended(state: IndexState | None, problem: BucketError | None) -> None:
            self._tell(frm, asked.ask, bucket, state, problem)

        self.set_bucket_location(asked.row, ended)

    def _tell(
        self,
        manager: Cep,
        ask: int,
        bucket: int,
        state: IndexState | None,
        problem: BucketError | None,
    ) -> None:
        """Tell a manager how its question ended. Without a row it asks again."""
        final = problem is None or isinstance(problem, Refused)
        row = (state or self.state).rows.get(bucket) if final else None
        self.port.post(manager, Told(ask, state is not None, str(problem or ""), row))

    def losses(self) -> list[str]:
        """Describe pairs without backup and lost pairs, each with its range of digests (A37)."""
        return [repr(loss) for loss in losses(self.state.rows, self.port.members)]


def _concerns(row: BucketRow, cep: Cep, before: IndexState, state: IndexState) -> bool:
    """Must this manager hear of the row?"""
    old, now = before.rows.get(row.bucket), state.rows[row.bucket]
    if row != now:  # of the first epoch
        return row.role_of(cep) is not None and now.role_of(cep) is not None
    return any(one is not None and one.role_of(cep) for one in (old, now))
