"""BucketManager: the copies of one CEP, requests for them, saves between master and slave, moves.

Source: 4.3.3, 4.4.2, 4.4.3, 4.5.2.4.
"""

from __future__ import annotations

from collections import Counter

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.copy import Copy
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.findable import FindableProxies
from jgroups_py.buckets.incoming import IncomingCopies
from jgroups_py.buckets.lease import Lease
from jgroups_py.buckets.leaving import LeavingMoves
from jgroups_py.buckets.messages import (
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
)
from jgroups_py.buckets.pages import Pages
from jgroups_py.buckets.plugin import EntryBehaviourProvider
from jgroups_py.buckets.port import Port, index_copies
from jgroups_py.buckets.saves import Saves
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.buckets.work import EntryWork


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
        """The epoch in which a bucket's copy was deleted here, or was known to be elsewhere, by bucket. So an older row, from a
        router that was cut off, creates no empty copy."""
        self.contents: dict[int, list[EntryChange]] = {}
        """The buckets' first entries, from archives, when the instance is created. Empty by default; each is removed
        when its row comes."""
        self.counts: Counter[str] = Counter()
        self.lease = Lease(port, settings)
        self.incoming = IncomingCopies(provider, settings, self.counts)
        self.moves = LeavingMoves(port, provider, settings, self.counts)
        self._pages = Pages(self.counts)
        self._saves = Saves(port, settings, self.counts)
        self._findable = FindableProxies(self.counts)
        self.entry_work = EntryWork(port, provider, self.counts, self._findable.all)

    @property
    def cep(self) -> Cep:
        return self.port.cep

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes. Entries are counted at their masters."""
        masters = [c for c in self.copies.values() if c.row.master == self.cep]
        return {
            **self.counts,
            **self.moves.locks.counts(),
            "masters": len(masters),
            "slaves": len(self.copies) - len(masters),
            "entries": sum(len(copy.bucket) for copy in masters),
            "live_entries": sum(copy.bucket.live for copy in masters),
            "moving": self._moving(),
            "waiting": sum(len(copy.queue) for copy in self.copies.values()),
            "has_lease": int(self.lease.holds()),
        }

    def _moving(self) -> int:
        return sum(copy.transfer is not None for copy in self.copies.values())

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
                copy = self.copies.get(message.bucket)
                self._after_move(copy, self.moves.taken(copy, frm, message))
            case Drop():
                self.incoming.drop(frm, message)
            case Reserved():
                self.moves.reserved(frm, message)
            case Told():
                self._on_told(message)
            case Hold():
                self._on_hold(frm, message)
            case Held():
                copy = self.copies.get(message.bucket)
                self._after_move(copy, self.moves.held(copy, frm, message))
            case Fenced():
                self.counts["fenced"] += 1
            case Findable():
                self._findable.take(frm, message)
            case AskEntries():
                self._on_ask_entries(frm, message)
            case _:
                self.counts["unexpected"] += 1

    def on_view(self, merged: bool = False) -> None:
        """Act on a new view. ``merged``: messages may be lost, so moves are given up and saves are sent again."""
        if merged:
            self.repeat_saves(at_once=True)
        self._findable.on_view(self.port.members)
        for copy in list(self.copies.values()):
            if copy.transfer is not None:
                self._after_move(copy, self.moves.on_view(copy, copy.transfer, merged))

    def renew_lease(self) -> None:
        self.lease.renew(index_copies(self.port, self.settings))

    # --- rows

    def _on_row(self, row: BucketRow) -> None:
        """Take a decided row. A row older than that of the copy is ignored."""
        if row.bucket >= self.settings.buckets:
            self.counts["bad_rows"] += 1
            return
        mine = row.role_of(self.cep)
        copy, came = self.copies.get(row.bucket), self.incoming.take(row)
        if came is not None and mine is not None and copy is None:
            copy = self.copies[row.bucket] = Copy(came, row)
        if copy is None:
            if row.epoch <= self._left.get(row.bucket, 0):
                self.counts["old_rows"] += 1
            elif mine is None:
                self.contents.pop(row.bucket, None)
                self._left[row.bucket] = row.epoch
            elif row.epoch == 1 and row.bucket not in self.incoming:
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
            copy.unlock()

    def delete_bucket(self, row: BucketRow) -> None:
        """Delete the copy, because the pair has moved on to this row (DeleteBucket)."""
        del self.copies[row.bucket]
        self._left[row.bucket] = row.epoch
        self.counts["copies_deleted"] += 1

    def _leave_epoch(self, copy: Copy, row: BucketRow) -> None:
        before = copy.row
        stays_master = before.master == self.cep == row.master
        transfer = copy.transfer
        copy.new_epoch(row)
        if transfer is not None:
            self._after_move(copy, self.moves.new_row(copy, transfer, row))
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
        done = self.entry_work.work(copy, forward)
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
            self._saves.send(copy, copy.row.slave, change, kept)
        if copy.transfer is not None:
            self._after_move(copy, self.moves.tail(copy, copy.transfer, change, kept))

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
        """Let the router look up again, or go by this copy's row if that is newer than its index."""
        self.port.post(router, Answer(request_id, "moved", "", [], copy.row))

    def _go_on(self, copy: Copy) -> None:
        """Go on with requests that waited for the lock or for the slave."""
        while copy.queue and not copy.locked and copy.outstanding < self.settings.pipeline_max:
            router, forward = copy.queue.popleft()
            self._serve(copy, router, forward)

    # --- saves

    def _as_slave(self, master: Cep, bucket: int, epoch: int) -> Copy | None:
        """Return the copy, after taking the master's word that it is the slave in this epoch: the index's row may be on
        its way."""
        copy = self.copies.get(bucket)
        if copy is None:
            known = epoch > 1 and not self.incoming.became_slave_of(master, bucket, epoch)
        else:
            known = epoch <= copy.row.epoch
        if not known:
            self._on_row(BucketRow(bucket, epoch, master, self.cep, self.info.version))
        return self.copies.get(bucket)

    def _on_save(self, master: Cep, save: Save) -> None:
        copy = self._as_slave(master, save.bucket, save.epoch)
        if copy is None or save.epoch < copy.row.epoch:
            self.counts["old_masters"] += 1
            self.port.post(master, Fenced(save.bucket, copy.row.epoch if copy else 0))
            return
        saved = self._saves.take(copy, master, save)
        if saved is not None:
            self.port.post(master, saved)

    def repeat_saves(self, at_once: bool = False) -> None:
        """Send overdue saves again, or all of them. A slave takes no save twice."""
        self._saves.repeat(self.copies, at_once)

    def _on_saved(self, slave: Cep, saved: Saved) -> None:
        copy = self.copies.get(saved.bucket)
        if copy is None or copy.row.epoch != saved.epoch or copy.row.slave != slave:
            self.counts["late_acknowledgements"] += 1
            return
        self._saves.acknowledge(copy, saved)
        for router, answer in copy.ready():
            self.port.post(router, answer)
        if copy.transfer is not None:
            self._after_move(copy, self.moves.advance(copy, copy.transfer))
        self._go_on(copy)

    def _on_hold(self, master: Cep, hold: Hold) -> None:
        copy = self._as_slave(master, hold.bucket, hold.epoch)
        if copy is not None and (copy.row.epoch, copy.row.master) == (hold.epoch, master):
            copy.held = hold.held
        if hold.held:
            self.port.post(master, Held(hold.bucket, hold.epoch, hold.transfer))

    # --- moves

    def _on_move(self, asker: Cep, move: Move) -> None:
        self._on_row(move.row)
        copy = self.copies.get(move.row.bucket)
        self._after_move(copy, self.moves.begin(copy, asker, move, self._moving()))

    def _on_parcel(self, source: Cep, parcel: Parcel) -> None:
        copy = self.copies.get(parcel.bucket)
        if copy is not None and copy.row.epoch < parcel.epoch:
            # A master moves copies only to managers that its row does not name. So this copy is over, and the index's row
            # is still on its way.
            self._on_row(BucketRow(parcel.bucket, parcel.epoch, source))
        taken = self.incoming.parcel(source, parcel, parcel.bucket in self.copies)
        if taken is not None:
            self.port.post(source, taken)

    def _on_told(self, told: Told) -> None:
        asked = self.moves.asked(told)
        if told.row is not None:  # it is decided, even if the question was asked anew meanwhile
            self._on_row(told.row)
        if asked is None:
            return
        copy, transfer = asked
        self._after_move(copy, self.moves.told(copy, transfer, told))

    def _on_cancel(self, asker: Cep, cancel: Cancel) -> None:
        copy = self.copies.get(cancel.bucket)
        given_up = self.moves.cancel(copy, asker, cancel)
        self._after_move(copy, given_up)
        if given_up:
            self.port.post(asker, Told(cancel.ask, True, ""))

    def _after_move(self, copy: Copy | None, given_up: bool) -> None:
        """Let requests go on that waited for the bucket of a move that was given up."""
        if copy is not None and given_up:
            self._go_on(copy)
