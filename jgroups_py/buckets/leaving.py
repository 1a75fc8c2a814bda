"""LeavingMoves: the transfers of copies that leave a manager, from the order to move to the row that ends it. It is the source of these moves.

Source: 4.4.3, 4.4.8.
"""

from __future__ import annotations

from collections import Counter

from jgroups_py.buckets.copy import Copy
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.faults import PLUGIN_ERRORS, text_of
from jgroups_py.buckets.latency import LOCKS, Latencies
from jgroups_py.buckets.messages import (
    BucketRow,
    Cancel,
    Drop,
    EntryChange,
    Held,
    Hold,
    Kept,
    Move,
    Placed,
    Reserved,
    Taken,
    Told,
)
from jgroups_py.buckets.plugin import EntryBehaviourProvider
from jgroups_py.buckets.port import Port
from jgroups_py.buckets.questions import MoveQuestions
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.buckets.transfer import Transfer


class LeavingMoves:
    """Methods with a truth value return True when the move was given up: the requests that wait for its bucket go on then."""

    def __init__(
        self,
        port: Port,
        provider: EntryBehaviourProvider,
        settings: InstanceSettings,
        counts: Counter[str],
    ) -> None:
        self.locks = Latencies(LOCKS)
        """The times for which moves have locked buckets of this manager."""
        self.slowest_lock = 0.0
        self._port, self._provider, self._settings, self._counts = port, provider, settings, counts
        self._number = 0
        self._questions = MoveQuestions(port, settings)

    # --- begin

    def begin(self, copy: Copy | None, asker: Cep, move: Move, moving: int) -> bool:
        """Begin a move, or tell who asked why not. ``copy``: None if it is not here. ``moving``: the moves under way."""
        problem, busy = "", True
        if copy is None or copy.row.master != self._port.cep:
            problem = "the master is not here"
        elif copy.transfer is not None or copy.locked:
            problem = "the bucket is locked"
        elif moving >= self._settings.transfers_max:
            self._counts["transfers_full"] += 1
            problem, busy = "transfers_max: too many moves leave this manager", False
        elif move.to in (copy.row.master, copy.row.slave):
            problem = "a copy is there"
        elif move.to.member not in self._port.members:  # the parcels would go to nobody
            problem = f"the master's manager does not see {move.to} yet"
        elif move.version < self._provider.version and move.version not in self._provider.writes:
            problem, busy = f"this plug-in does not write version {move.version}", False
        if problem or copy is None:
            self._port.post(asker, Told(move.ask, False, problem, busy=busy))
            return False
        self._number += 1
        transfer = copy.transfer = Transfer(
            self._number, copy.bucket, copy.row, move, asker, self._settings
        )
        self._counts["moves_begun"] += 1
        if move.lock_first:
            self._lock(copy, transfer)
        return self.advance(copy, transfer)

    # --- the steps

    def advance(self, copy: Copy, transfer: Transfer) -> bool:
        """Send parcels up to the allowed number; begin the next phase when the current phase is done."""
        if transfer.phase == "copying":
            try:
                for parcel in transfer.parcels():
                    self._port.post(transfer.move.to, parcel)
            except PLUGIN_ERRORS as error:
                return self._not_written(copy, transfer, error)
            if not transfer.copied:
                return False
            transfer.phase = "ending"
            self._port.post(transfer.move.to, transfer.end())
            old = copy.row.slave
            if transfer.move.role == "slave" and old is not None:
                transfer.holding, transfer.held = old, False
                self._port.post(old, Hold(copy.bucket.id, copy.row.epoch, True, transfer.number))
        if transfer.phase == "ending" and transfer.ended and transfer.held:
            # The lock lasts until the destination has taken what is on its way.
            if transfer.on_the_way <= 2 * self._settings.pipeline_max:
                transfer.phase = "reserving"
                self._questions.ask(copy, transfer)
        if transfer.phase == "draining" and not copy.outstanding and not transfer.on_the_way:
            self._decide(copy, transfer)
        return False

    def tail(self, copy: Copy, transfer: Transfer, change: EntryChange, kept: Kept) -> bool:
        """Send a change that was made since the move began."""
        if transfer.on_the_way >= self._settings.tail_max:
            self._counts["tail_full"] += 1
            return self._give_up(copy, transfer, "tail_max: the destination is too slow")
        try:
            parcel = transfer.tail(change, kept)
        except PLUGIN_ERRORS as error:
            return self._not_written(copy, transfer, error)
        self._port.post(transfer.move.to, parcel)
        return False

    def taken(self, copy: Copy | None, frm: Cep, taken: Taken) -> bool:
        """Take the destination's answer to a parcel."""
        transfer = copy.transfer if copy is not None else None
        if (
            copy is None
            or transfer is None
            or (transfer.number, transfer.move.to) != (taken.transfer, frm)
        ):
            return False
        if taken.refused:
            if transfer.phase == "deciding":
                return False
            return self._give_up(copy, transfer, f"the destination refuses: {taken.refused}")
        transfer.taken = max(transfer.taken, min(taken.number + 1, transfer.sent))
        return self.advance(copy, transfer)

    def held(self, copy: Copy | None, slave: Cep, held: Held) -> bool:
        """The slave that is replaced answers no more reads."""
        if copy is None or copy.transfer is None or copy.row.slave != slave:
            return False
        transfer = copy.transfer
        if (transfer.number, copy.row.epoch) != (held.transfer, held.epoch):
            return False
        transfer.held = True
        return self.advance(copy, transfer)

    def _not_written(self, copy: Copy, transfer: Transfer, error: BaseException) -> bool:
        return self._give_up(copy, transfer, f"an entry cannot be written: {text_of(error, 500)}")

    # --- the index

    def reserved(self, index: Cep, reserved: Reserved) -> None:
        """The index is prepared, so now a lock is short. Or the reservation is over: then ask again."""
        asked = self._questions.find(reserved.ask)
        had = asked[1].reserved if asked is not None else None
        if asked is None or (had is not None and had.txn[0] != reserved.txn[0]):
            # The move was given up, or another index copy that was asked was first.
            if reserved.copies:
                self._questions.give_up(reserved)
            return
        if index != reserved.txn[0]:
            self._counts["unexpected"] += 1
            return
        copy, transfer = asked
        transfer.reserved = reserved if reserved.copies else None
        if transfer.reserved is None:
            self._questions.ask(copy, transfer)
        elif transfer.phase == "reserving":
            transfer.phase = "draining"
            self._lock(copy, transfer)
            self.advance(copy, transfer)
        elif transfer.phase == "deciding":
            self._questions.redeem(transfer, reserved)

    def _decide(self, copy: Copy, transfer: Transfer) -> None:
        transfer.phase = "deciding"
        if transfer.reserved is not None:
            self._questions.redeem(transfer, transfer.reserved)
        else:
            self._questions.ask(copy, transfer)

    def asked(self, told: Told) -> tuple[Copy, Transfer] | None:
        """Return the move that waits for this answer of the index."""
        return self._questions.find(told.ask)

    def told(self, copy: Copy, transfer: Transfer, told: Told) -> bool:
        """Take the index's answer; its row was taken already."""
        if told.ok or told.row is None or told.row.epoch != transfer.row.epoch:
            # Without a row the index has no majority at present. The timer asks again.
            return False
        if transfer.phase == "deciding":
            # An index copy that was asked earlier may still decide the move. So ask for the old row in a new epoch.
            transfer.rolls_back = True
            self._questions.ask(copy, transfer)
        elif transfer.phase != "over":
            return self._give_up(copy, transfer, told.text)
        return False

    # --- ends

    def on_view(self, copy: Copy, transfer: Transfer, merged: bool) -> bool:
        """Ask another index copy for a lost one. Give up a move to a lost member, or one whose messages may be lost."""
        members = self._port.members
        if transfer.asked is not None and transfer.asked.member not in members:
            transfer.reserved = None
            self._questions.ask(copy, transfer)
        if transfer.phase == "deciding":
            return False
        if transfer.move.to.member not in members:
            return self._give_up(copy, transfer, "the destination is lost")
        if merged:
            return self._give_up(copy, transfer, "messages of the move may be lost")
        return self.advance(copy, transfer)

    def new_row(self, copy: Copy, transfer: Transfer, row: BucketRow) -> bool:
        """End the move: the pair has a new row, by the move or by another update."""
        moved = transfer.moved()
        # A parcel of the new master is its word that it has this epoch (BucketManager._on_parcel); it does not name the slave.
        is_moved = row == moved or (row.epoch, row.master) == (moved.epoch, transfer.move.to)
        if is_moved and transfer.phase == "deciding":
            self._finish(copy, transfer, moved)
            return False
        return self._give_up(copy, transfer, "the pair has changed")

    def cancel(self, copy: Copy | None, asker: Cep, cancel: Cancel) -> bool:
        """Give up the move, or let the index decide if it was asked already. The caller gets the result, except of a move that this manager gave up."""
        transfer = copy.transfer if copy is not None else None
        if copy is None or transfer is None:
            self._port.post(asker, Told(cancel.ask, False, "this bucket is not moving"))
            return False
        if transfer.phase == "deciding":
            transfer.rolls_back = True
            self._port.post(asker, Told(cancel.ask, True, "the index decides"))
            self._questions.ask(copy, transfer)
            return False
        return self._give_up(copy, transfer, "cancelled")

    def _finish(self, copy: Copy, transfer: Transfer, row: BucketRow) -> None:
        self._unlock(copy, transfer)
        self._counts["moves_done"] += 1
        self._port.post(transfer.asker, Told(transfer.move.ask, True, "", row))
        for cep in (row.master, row.slave):
            if cep is not None and cep != self._port.cep:
                self._port.post(cep, Placed([row]))

    def _give_up(self, copy: Copy, transfer: Transfer, why: str) -> bool:
        self._unlock(copy, transfer)
        if transfer.reserved is not None:
            self._questions.give_up(transfer.reserved)
        self._counts["moves_given_up"] += 1
        move = transfer.move
        self._port.post(move.to, Drop(copy.bucket.id, transfer.number))
        if transfer.holding is not None and transfer.holding == copy.row.slave:
            go_on = Hold(copy.bucket.id, copy.row.epoch, False, transfer.number)
            self._port.post(transfer.holding, go_on)
        self._port.post(transfer.asker, Told(move.ask, False, why))
        return True

    def _lock(self, copy: Copy, transfer: Transfer) -> None:
        if copy.lock():
            transfer.began_lock = self._port.now

    def _unlock(self, copy: Copy, transfer: Transfer) -> None:
        transfer.phase, copy.transfer = "over", None
        self._questions.forget(transfer)
        if transfer.began_lock is not None:
            took = self._port.now - transfer.began_lock
            self.locks.add(LOCKS, took)
            self.slowest_lock = max(self.slowest_lock, took)
            copy.unlock()
