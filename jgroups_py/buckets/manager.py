"""BucketManager: the copies of one CEP, requests for them, saves between master and slave, moves.

Source: 4.3.3, 4.4.2, 4.4.3, 4.5.2.4.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping

from jgroups_py.buckets.bucket import Bucket, Done
from jgroups_py.buckets.copy import Copy
from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.faults import PLUGIN_ERRORS, text_of
from jgroups_py.buckets.latency import LOCKS, Latencies
from jgroups_py.buckets.lease import Lease
from jgroups_py.buckets.messages import (
    TEXT_MAX,
    Answer,
    AskEntries,
    BucketRow,
    Cancel,
    ComponentInfo,
    Drop,
    Entries,
    EntryChange,
    Fenced,
    Findable,
    Forward,
    Held,
    Hold,
    Kept,
    Message,
    Move,
    Parcel,
    Placed,
    Pong,
    Reserved,
    Save,
    Saved,
    Status,
    Taken,
    Told,
    decode_change,
)
from jgroups_py.buckets.pages import Pages
from jgroups_py.buckets.plugin import EntryBehaviourProvider, Request
from jgroups_py.buckets.port import Port, index_copies
from jgroups_py.buckets.questions import MoveQuestions
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.buckets.transfer import Transfer

_log = logging.getLogger("jgroups_py.buckets")

BLOCKED_AFTER = 0.5
"""The seconds after which a working request is counted ``blocked`` and logged. The channel counts the same time as a
lag."""
BLOCKED_TOLD = 10.0
"""Seconds between two such warnings of a manager."""
FINDABLE_MAX = 100_000
"""The most proxies with attributes that a manager knows. Beyond it they are counted ``findable_full`` and cannot be
found."""


class IncomingCopy:
    """A copy on its way here. It answers no requests before a row names it."""

    def __init__(self, bucket: Bucket, source: Cep, transfer: int, epoch: int) -> None:
        self.bucket, self.source, self.transfer, self.epoch = bucket, source, transfer, epoch
        self.next = 0


class BucketManager:
    """One CEP with copies of buckets."""

    def __init__(
        self,
        port: Port,
        info: ComponentInfo,
        provider: EntryBehaviourProvider,
        settings: InstanceSettings,
    ) -> None:
        self.port, self.info, self.provider, self.settings = port, info, provider, settings
        self.copies: dict[int, Copy] = {}
        self._left: dict[int, int] = {}
        """The epoch in which a bucket's copy was deleted here, by bucket. So an older row, from a router that was cut
        off, creates no empty copy."""
        self.incoming: dict[int, IncomingCopy] = {}
        self.contents: dict[int, list[EntryChange]] = {}
        """The buckets' first entries, from archives, when the instance is created. Empty by default; each is removed
        when its row comes."""
        self.counts: Counter[str] = Counter()
        self.lease = Lease(port, settings)
        self.locks = Latencies(LOCKS)
        """The times for which moves have locked buckets of this manager."""
        self.slowest_lock = 0.0
        self.clock: Callable[[], float] = float
        """A clock in seconds, to notice entries that block. It stands still where time is virtual."""
        self._told_blocked = -math.inf
        self._pages = Pages(self.counts)
        self._transfers = 0
        self._questions = MoveQuestions(port, settings)
        self._unsaved: dict[int, Copy] = {}
        self._findable: dict[Cep, list[tuple[ProxyId, Mapping[str, str]]]] = {}

    @property
    def cep(self) -> Cep:
        return self.port.cep

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes. Entries are counted at their masters."""
        masters = [c for c in self.copies.values() if c.row.master == self.cep]
        return {
            **self.counts,
            **self.locks.counts(),
            "masters": len(masters),
            "slaves": len(self.copies) - len(masters),
            "entries": sum(len(copy.bucket) for copy in masters),
            "live_entries": sum(copy.bucket.live for copy in masters),
            "moving": sum(copy.transfer is not None for copy in self.copies.values()),
            "waiting": sum(len(copy.queue) for copy in self.copies.values()),
            "has_lease": int(self.lease.holds()),
        }

    # --- incoming

    def handle(self, frm: Cep, message: Message) -> None:
        match message:
            case Forward():
                self._on_forward(frm, message)
            case Save():
                self._on_save(frm, message)
            case Saved():
                self._on_saved(frm, message)
            case Placed():
                for row in message.rows:
                    self._on_row(row)
                if not self.lease.holds():  # the index knows this manager now
                    self.renew_lease()
            case Pong():
                self.lease.heard(frm, message)
            case Move():
                self._on_move(frm, message)
            case Cancel():
                self._on_cancel(frm, message)
            case Parcel():
                self._on_parcel(frm, message)
            case Taken():
                self._on_taken(frm, message)
            case Drop():
                self._on_drop(frm, message)
            case Reserved():
                self._on_reserved(frm, message)
            case Told():
                self._on_told(message)
            case Hold():
                self._on_hold(frm, message)
            case Held():
                self._on_held(frm, message)
            case Fenced():
                self.counts["fenced"] += 1
            case Findable():
                self._on_findable(frm, message)
            case AskEntries():
                self._on_ask_entries(frm, message)
            case _:
                self.counts["unexpected"] += 1

    def on_view(self, merged: bool = False) -> None:
        """Act on a new view. ``merged``: messages may be lost, so moves are given up and saves are sent again."""
        members = set(self.port.members)
        if merged:
            self.repeat_saves(at_once=True)
        self._findable = {cep: p for cep, p in self._findable.items() if cep.member in members}
        for copy in list(self.copies.values()):
            transfer = copy.transfer
            if transfer is None:
                continue
            if transfer.asked is not None and transfer.asked.member not in members:
                transfer.reserved = None
                self._questions.ask(copy, transfer)
            if transfer.phase == "deciding":
                continue
            if transfer.move.to.member not in members:
                self._give_up(copy, transfer, "the destination is lost")
            elif merged:
                self._give_up(copy, transfer, "messages of the move may be lost")
            else:
                self._advance(copy, transfer)

    def renew_lease(self) -> None:
        self.lease.renew(index_copies(self.port, self.settings))

    # --- rows

    def _on_row(self, row: BucketRow) -> None:
        """Take a decided row. A row older than that of the copy is ignored."""
        if row.bucket >= self.settings.buckets:
            self.counts["bad_rows"] += 1
            return
        mine = row.role_of(self.cep)
        copy, coming = self.copies.get(row.bucket), self.incoming.get(row.bucket)
        if coming is not None and row.epoch > coming.epoch:
            del self.incoming[row.bucket]
            if mine is not None and copy is None:
                copy = self.copies[row.bucket] = Copy(coming.bucket, row)
        if copy is None:
            if row.epoch <= self._left.get(row.bucket, 0):
                self.counts["old_rows"] += 1
            elif mine is None:
                self.contents.pop(row.bucket, None)
            elif row.epoch == 1:
                self._create_bucket(row)
            elif row.bucket not in self.incoming:
                self.counts["copies_missing"] += 1
            return
        if row.epoch <= copy.row.epoch:
            return
        self._leave_epoch(copy, row)

    def _create_bucket(self, row: BucketRow) -> None:
        bucket = Bucket(row.bucket, self.provider, self.settings.remembered_max)
        for change in self.contents.pop(row.bucket, ()):
            bucket.adopt(change)
        self.copies[row.bucket] = Copy(bucket, row)

    # --- the primitives of a bucket manager (4.5.2.4)

    def lock_bucket(self, bucket: int) -> bool:
        """Lock the copy for a move; requests wait in its queue (LockBucket). False: it is locked already, or not
        here."""
        copy = self.copies.get(bucket)
        return copy is not None and copy.lock()

    def unlock_bucket(self, bucket: int) -> None:
        """Let requests in again (UnLockBucket). Those that wait go on when the manager has ended its step."""
        copy = self.copies.get(bucket)
        if copy is not None:
            copy.locked = False

    def delete_bucket(self, row: BucketRow) -> None:
        """Delete the copy, because the pair has moved on to this row (DeleteBucket)."""
        del self.copies[row.bucket]
        self._left[row.bucket] = row.epoch
        self.counts["copies_deleted"] += 1

    def unserialise_bucket(self, coming: IncomingCopy, parcel: Parcel) -> str:
        """Fill a copy on its way here (UnserialiseBucket). Return the reason for which the parcel is refused, or ""."""
        try:
            for change in parcel.changes:
                self._check_version(change)
                coming.bucket.unserialise_entry(change)
        except PLUGIN_ERRORS as error:
            return text_of(error, 500)
        for kept in parcel.kept:
            coming.bucket.remember(kept)
        if parcel.last is not None and parcel.last != len(coming.bucket):
            return f"{len(coming.bucket)} of {parcel.last} entries came"
        return ""

    # ---

    def _leave_epoch(self, copy: Copy, row: BucketRow) -> None:
        before = copy.row
        stays_master = before.master == self.cep == row.master
        transfer = copy.transfer
        copy.new_epoch(row)
        if transfer is not None:
            if row == transfer.moved() and transfer.phase == "deciding":
                self._finish(copy, transfer, row)
            else:
                self._give_up(copy, transfer, "the pair has changed")
        for _, router, answer in copy.answers:
            if stays_master:
                # Without a slave, waiting changes cannot be confirmed. With a new slave, no change waits.
                self.port.post(router, answer)
            else:
                self._answer_moved(copy, router, answer.id)
        copy.answers.clear()
        self._go_on(copy)
        if row.role_of(self.cep) is None:
            self.delete_bucket(row)

    # --- requests

    def _on_forward(self, router: Cep, forward: Forward) -> None:
        self.counts["requests"] += 1
        self._on_row(forward.row)
        copy = self.copies.get(forward.row.bucket)
        if copy is None:
            self._answer(router, forward.id, "moved")
            return
        copy.counts["requests"] += 1
        self._serve(copy, router, forward)

    def _serve(self, copy: Copy, router: Cep, forward: Forward) -> None:
        role = copy.row.role_of(self.cep)
        if role is None or (role != "master" and (forward.modifies or copy.held)):
            self._answer_moved(copy, router, forward.id)
        elif copy.locked or (forward.modifies and copy.outstanding >= self.settings.pipeline_max):
            copy.counts["found_locked"] += 1
            if len(copy.queue) >= self.settings.queue_max:
                self.counts["queue_full"] += 1
                self._answer(router, forward.id, "busy", "queue_max: the bucket's queue is full")
                return
            copy.queue.append((router, forward))
        elif (role != "master" or not forward.modifies or copy.row.slave is None) and (
            not self.lease.holds()
        ):
            self.counts["without_lease"] += 1
            self._answer_moved(copy, router, forward.id)
        else:
            self._work(copy, router, forward)

    def _work(self, copy: Copy, router: Cep, forward: Forward) -> None:
        kept = copy.bucket.remembered(forward.id)
        if kept is not None:
            self.counts["repeated"] += 1
            self._answer_when_saved(copy, router, Answer(forward.id, "done", "", kept.replies))
            return
        done = self._put(copy, forward) if forward.puts else self._worked(copy, forward)
        if done.error:
            self.counts["entry_failed"] += 1
            self._answer(router, forward.id, "failed", done.error)
            return
        if done.change is not None:
            self._changed(copy, done.change, Kept(forward.id, done.replies))
        answer = Answer(forward.id, "done", "", done.replies)
        if self.provider.backup == "after_reply":
            self.port.post(router, answer)
        else:
            self._answer_when_saved(copy, router, answer)

    def _worked(self, copy: Copy, forward: Forward) -> Done:
        began = self.clock()
        request = Request(forward.body, forward.key)
        done = copy.bucket.forward_to_entry(
            forward.key,
            request,
            forward.proxy,
            modifies=forward.modifies,
            now=self.port.wall,
            find=self._all_findable,
            version=copy.row.slave_version if copy.row.slave is not None else 0,
        )
        took = self.clock() - began
        if took > BLOCKED_AFTER:
            self._blocked(request, took)
        return done

    def _blocked(self, request: Request, took: float) -> None:
        """Count a request that has kept the whole node waiting, and log its name."""
        self.counts["blocked"] += 1
        if self.port.now < self._told_blocked + BLOCKED_TOLD:
            return
        self._told_blocked = self.port.now
        try:
            what = str(self.provider.name_of(request))[:TEXT_MAX]
        except PLUGIN_ERRORS:
            what = "a request"
        _log.warning(
            "%s: %s of entry %r worked for %.1f s; the whole node waited meanwhile",
            self.cep.component,
            what,
            request.key,
            took,
        )

    def _put(self, copy: Copy, forward: Forward) -> Done:
        """Put an exported entry. The plug-in tries it first, so that a refused one makes no change."""
        try:
            change = decode_change(forward.body)
            if change.key != forward.key:
                raise ValueError("it has another key")
            self._check_version(change)
            trial = Bucket(copy.bucket.id, self.provider, 1)
            trial.unserialise_entry(change)
            version = copy.row.slave_version if copy.row.slave is not None else 0
            saved = trial.as_version(change, version)
        except PLUGIN_ERRORS as error:
            return Done([], None, text_of(error))
        copy.bucket.adopt(change)
        self.counts["entries_put"] += 1
        return Done([], saved)

    def _on_ask_entries(self, asker: Cep, asked: AskEntries) -> None:
        self._on_row(asked.row)
        copy = self.copies.get(asked.row.bucket)
        if copy is None or copy.row.master != self.cep or not self.lease.holds():
            self.port.post(asker, Entries(asked.ask, [], True, moved=True))
            return
        changes, more = self._pages.next(copy.bucket, asked.after, asked.size)
        self.port.post(asker, Entries(asked.ask, changes, more))

    def _changed(self, copy: Copy, change: EntryChange, kept: Kept) -> None:
        self.counts["changes"] += 1
        copy.bucket.remember(kept)
        if copy.row.slave is not None:
            copy.sequence += 1
            save = Save(copy.bucket.id, copy.row.epoch, copy.sequence, change, kept)
            copy.unacknowledged.append(save)
            copy.repeat_at = self.port.now + self.settings.repeat_after
            self._unsaved[copy.bucket.id] = copy
            self.port.post(copy.row.slave, save)
        if copy.transfer is not None:
            self._tail(copy, copy.transfer, change, kept)

    def _tail(self, copy: Copy, transfer: Transfer, change: EntryChange, kept: Kept) -> None:
        if transfer.on_the_way >= self.settings.tail_max:
            self.counts["tail_full"] += 1
            self._give_up(copy, transfer, "tail_max: the destination is too slow")
            return
        try:
            parcel = transfer.tail(change, kept)
        except PLUGIN_ERRORS as error:
            self._give_up(copy, transfer, f"an entry cannot be written: {text_of(error, 500)}")
            return
        self.port.post(transfer.move.to, parcel)

    def _answer_when_saved(self, copy: Copy, router: Cep, answer: Answer) -> None:
        if copy.outstanding and copy.row.master == self.cep:
            copy.answers.append((copy.sequence, router, answer))
        else:
            self.port.post(router, answer)

    def _answer(
        self, router: Cep, request_id: tuple[str, int], status: Status, text: str = ""
    ) -> None:
        self.port.post(router, Answer(request_id, status, text, []))

    def _answer_moved(self, copy: Copy, router: Cep, request_id: tuple[str, int]) -> None:
        """Tell the router to look up the row again, or give it this copy's row if this row is newer
        than the router's."""
        self.port.post(router, Answer(request_id, "moved", "", [], copy.row))

    def _go_on(self, copy: Copy) -> None:
        """Go on with requests that waited for the lock or for the slave."""
        while copy.queue and not copy.locked and copy.outstanding < self.settings.pipeline_max:
            router, forward = copy.queue.popleft()
            self._serve(copy, router, forward)

    def _all_findable(self) -> list[tuple[ProxyId, Mapping[str, str]]]:
        return [proxy for cep in sorted(self._findable) for proxy in self._findable[cep]]

    def _on_findable(self, frm: Cep, message: Findable) -> None:
        self._findable.pop(frm, None)
        room = FINDABLE_MAX - sum(map(len, self._findable.values()))
        if len(message.proxies) > room:
            self.counts["findable_full"] += 1
        self._findable[frm] = [(proxy, has) for proxy, has in message.proxies[:room]]

    # --- saves

    def _on_save(self, master: Cep, save: Save) -> None:
        copy = self.copies.get(save.bucket)
        if copy is None and save.bucket in self.incoming:
            # The decision that made this copy the slave has not arrived here yet.
            coming = self.incoming[save.bucket]
            if save.epoch > coming.epoch and coming.source == master:
                self._on_row(
                    BucketRow(save.bucket, save.epoch, master, self.cep, self.info.version)
                )
                copy = self.copies.get(save.bucket)
        if copy is None or save.epoch < copy.row.epoch:
            self.counts["old_masters"] += 1
            self.port.post(master, Fenced(save.bucket, copy.row.epoch if copy else 0))
            return
        if save.epoch > copy.row.epoch:
            self._on_row(BucketRow(save.bucket, save.epoch, master, self.cep, self.info.version))
        if copy.row.master == master and save.sequence <= copy.sequence:
            self.port.post(master, Saved(save.bucket, save.epoch, copy.sequence))
            return
        if copy.row.master != master or save.sequence != copy.sequence + 1:
            self.counts["gaps"] += 1
            return
        copy.sequence = save.sequence
        copy.acknowledged = save.sequence
        copy.bucket.adopt(save.change)
        copy.bucket.remember(save.kept)
        self.counts["saves"] += 1
        self.port.post(master, Saved(save.bucket, save.epoch, save.sequence))

    def repeat_saves(self, at_once: bool = False) -> None:
        """Send overdue saves again, or all of them. A slave takes no save twice."""
        now, slow = self.port.now, self.settings.repeat_after
        for bucket, copy in list(self._unsaved.items()):
            slave = copy.row.slave
            if not copy.unacknowledged or slave is None or self.copies.get(bucket) is not copy:
                del self._unsaved[bucket]
            elif (at_once or copy.repeat_at <= now) and slave.member in self.port.members:
                copy.repeat_at = now + slow
                self.counts["saves_repeated"] += len(copy.unacknowledged)
                for save in copy.unacknowledged:
                    self.port.post(slave, save)

    def _on_saved(self, slave: Cep, saved: Saved) -> None:
        copy = self.copies.get(saved.bucket)
        if copy is None or copy.row.epoch != saved.epoch or copy.row.slave != slave:
            self.counts["late_acknowledgements"] += 1
            return
        copy.acknowledge(saved.sequence)
        copy.repeat_at = self.port.now + self.settings.repeat_after
        for router, answer in copy.ready():
            self.port.post(router, answer)
        if copy.transfer is not None:
            self._advance(copy, copy.transfer)
        self._go_on(copy)

    def _on_hold(self, master: Cep, hold: Hold) -> None:
        copy = self.copies.get(hold.bucket)
        if copy is not None and (copy.row.epoch, copy.row.master) == (hold.epoch, master):
            copy.held = hold.held
        if hold.held:
            self.port.post(master, Held(hold.bucket, hold.epoch, hold.transfer))

    def _on_held(self, slave: Cep, held: Held) -> None:
        copy = self.copies.get(held.bucket)
        if copy is None or copy.transfer is None or copy.row.slave != slave:
            return
        transfer = copy.transfer
        if (transfer.number, copy.row.epoch) == (held.transfer, held.epoch):
            transfer.held = True
            self._advance(copy, transfer)

    # --- moves: source

    def _on_move(self, asker: Cep, move: Move) -> None:
        self._on_row(move.row)
        copy = self.copies.get(move.row.bucket)
        problem, busy = "", True
        if copy is None or copy.row.master != self.cep:
            problem = "the master is not here"
        elif copy.transfer is not None or copy.locked:
            problem = "the bucket is locked"
        elif (
            sum(c.transfer is not None for c in self.copies.values()) >= self.settings.transfers_max
        ):
            self.counts["transfers_full"] += 1
            problem, busy = "transfers_max: too many moves leave this manager", False
        elif move.to in (copy.row.master, copy.row.slave):
            problem = "a copy is there"
        elif move.version < self.provider.version and move.version not in self.provider.writes:
            problem, busy = f"this plug-in does not write version {move.version}", False
        if problem or copy is None:
            self.port.post(asker, Told(move.ask, False, problem, busy=busy))
            return
        self._transfers += 1
        transfer = copy.transfer = Transfer(
            self._transfers, copy.bucket, copy.row, move, asker, self.settings
        )
        self.counts["moves_begun"] += 1
        if move.lock_first:
            self._lock(copy, transfer)
        self._advance(copy, transfer)

    def _lock(self, copy: Copy, transfer: Transfer) -> None:
        if self.lock_bucket(copy.bucket.id):
            transfer.began_lock = self.port.now

    def _unlock(self, copy: Copy, transfer: Transfer) -> None:
        transfer.phase, copy.transfer = "over", None
        self._questions.forget(transfer)
        if transfer.began_lock is not None:
            took = self.port.now - transfer.began_lock
            self.locks.add(LOCKS, took)
            self.slowest_lock = max(self.slowest_lock, took)
            self.unlock_bucket(copy.bucket.id)

    def _advance(self, copy: Copy, transfer: Transfer) -> None:
        """Send parcels up to the allowed number; begin the next phase when this one is done."""
        if transfer.phase == "copying":
            try:
                for parcel in transfer.parcels():
                    self.port.post(transfer.move.to, parcel)
            except PLUGIN_ERRORS as error:
                why = f"an entry cannot be written: {text_of(error, 500)}"
                self._give_up(copy, transfer, why)
                return
            if not transfer.copied:
                return
            transfer.phase = "ending"
            self.port.post(transfer.move.to, transfer.end())
            old = copy.row.slave
            if transfer.move.role == "slave" and old is not None:
                transfer.holding, transfer.held = old, False
                self.port.post(old, Hold(copy.bucket.id, copy.row.epoch, True, transfer.number))
        if transfer.phase == "ending" and transfer.ended and transfer.held:
            transfer.phase = "reserving"
            self._questions.ask(copy, transfer)
        if transfer.phase == "draining" and not copy.outstanding and not transfer.on_the_way:
            self._decide(copy, transfer)

    def _on_reserved(self, index: Cep, reserved: Reserved) -> None:
        """Lock the bucket, because the index is prepared and the lock is short. If the reservation is
        over, ask again."""
        asked = self._questions.find(reserved.ask)
        if asked is None:
            if reserved.copies:  # the move was given up
                self._questions.give_up(reserved)
            return
        if index != reserved.txn[0]:
            self.counts["unexpected"] += 1
            return
        copy, transfer = asked
        transfer.reserved = reserved if reserved.copies else None
        if transfer.reserved is None:
            self._questions.ask(copy, transfer)
        elif transfer.phase == "reserving":
            transfer.phase = "draining"
            self._lock(copy, transfer)
            self._advance(copy, transfer)
        elif transfer.phase == "deciding":
            self._questions.redeem(transfer, reserved)

    def _decide(self, copy: Copy, transfer: Transfer) -> None:
        transfer.phase = "deciding"
        if transfer.reserved is not None:
            self._questions.redeem(transfer, transfer.reserved)
        else:
            self._questions.ask(copy, transfer)

    def _on_told(self, told: Told) -> None:
        asked = self._questions.find(told.ask)
        if asked is None:
            return
        copy, transfer = asked
        if told.row is not None:
            self._on_row(told.row)
        if not told.ok and told.row is not None and told.row.epoch == transfer.row.epoch:
            if transfer.phase == "deciding":
                # An index copy that was asked earlier may still decide the move. So ask for the old row in a new epoch.
                transfer.rolls_back = True
                self._questions.ask(copy, transfer)
            elif transfer.phase != "over":
                self._give_up(copy, transfer, told.text)
            # Without a row the index has no majority at present. The timer asks again.

    def _finish(self, copy: Copy, transfer: Transfer, row: BucketRow) -> None:
        self._unlock(copy, transfer)
        self.counts["moves_done"] += 1
        self.port.post(transfer.asker, Told(transfer.move.ask, True, "", row))
        for cep in (row.master, row.slave):
            if cep is not None and cep != self.cep:
                self.port.post(cep, Placed([row]))

    def _give_up(self, copy: Copy, transfer: Transfer, why: str) -> None:
        self._unlock(copy, transfer)
        if transfer.reserved is not None:
            self._questions.give_up(transfer.reserved)
        self.counts["moves_given_up"] += 1
        move = transfer.move
        self.port.post(move.to, Drop(copy.bucket.id, transfer.number))
        if transfer.holding is not None and transfer.holding == copy.row.slave:
            go_on = Hold(copy.bucket.id, copy.row.epoch, False, transfer.number)
            self.port.post(transfer.holding, go_on)
        self.port.post(transfer.asker, Told(move.ask, False, why))
        self._go_on(copy)

    def _on_cancel(self, asker: Cep, cancel: Cancel) -> None:
        copy = self.copies.get(cancel.bucket)
        transfer = copy.transfer if copy is not None else None
        if copy is None or transfer is None:
            self.port.post(asker, Told(cancel.ask, False, "this bucket is not moving"))
        elif transfer.phase == "deciding":
            transfer.rolls_back = True
            self.port.post(asker, Told(cancel.ask, True, "the index decides"))
            self._questions.ask(copy, transfer)
        else:
            self._give_up(copy, transfer, "cancelled")
            self.port.post(asker, Told(cancel.ask, True, ""))

    def _on_taken(self, frm: Cep, taken: Taken) -> None:
        copy = self.copies.get(taken.bucket)
        transfer = copy.transfer if copy is not None else None
        if (
            copy is None
            or transfer is None
            or (transfer.number, transfer.move.to) != (taken.transfer, frm)
        ):
            return
        if taken.refused:
            if transfer.phase != "deciding":
                self._give_up(copy, transfer, f"the destination refuses: {taken.refused}")
            return
        transfer.taken = max(transfer.taken, min(taken.number + 1, transfer.sent))
        self._advance(copy, transfer)

    # --- moves: destination

    def _on_parcel(self, source: Cep, parcel: Parcel) -> None:
        coming = self.incoming.get(parcel.bucket)
        if parcel.number == 0:
            if parcel.bucket >= self.settings.buckets:
                self._refuse(source, parcel, f"there are {self.settings.buckets} buckets")
                return
            if parcel.bucket in self.copies:
                self._refuse(source, parcel, "a copy of this bucket is here")
                return
            bucket = Bucket(parcel.bucket, self.provider, self.settings.remembered_max)
            coming = IncomingCopy(bucket, source, parcel.transfer, parcel.epoch)
            self.incoming[parcel.bucket] = coming
        if coming is None or (coming.source, coming.transfer, coming.next) != (
            source,
            parcel.transfer,
            parcel.number,
        ):
            self.counts["stray_parcels"] += 1
            return
        coming.next += 1
        if why := self.unserialise_bucket(coming, parcel):
            del self.incoming[parcel.bucket]
            self._refuse(source, parcel, why)
            return
        self.counts["parcels"] += 1
        self.port.post(source, Taken(parcel.bucket, parcel.transfer, parcel.number))

    def _check_version(self, change: EntryChange) -> None:
        if not change.deletes and change.version not in (
            self.provider.version,
            *self.provider.reads,
        ):
            raise ValueError(f"this plug-in does not read version {change.version}")

    def _refuse(self, source: Cep, parcel: Parcel, why: str) -> None:
        self.counts["moves_refused"] += 1
        self.port.post(source, Taken(parcel.bucket, parcel.transfer, parcel.number, why))

    def _on_drop(self, source: Cep, drop: Drop) -> None:
        coming = self.incoming.get(drop.bucket)
        if coming is not None and (coming.source, coming.transfer) == (source, drop.transfer):
            del self.incoming[drop.bucket]
