"""Transfer: one copy of a bucket goes to another manager while the bucket works on.

    copying    parcels of entries; each change since the beginning follows as a parcel of its own (the tail)
    ending     the destination compares the number of entries; a slave that is replaced answers no more reads
    reserving  the index prepares the new row, under the condition that the epoch is the one of the beginning
    draining   the bucket is locked; slave and destination acknowledge what is on its way, mostly nothing
    deciding   the index copies were told to take the row
    over       the transfer has ended

The lock lasts from "draining" on. As much work as possible is done before the lock. With ``lock_first`` the
bucket is locked from the beginning (the seed's way). Until "deciding" a cancelled transfer ends at once.
After that the index decides: the questions to move and to roll back have the same condition, so exactly one
succeeds.

Source: 4.4.3, 4.4.8. Differs: the seed locks the bucket while it is copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, EntryChange, Kept, Move, Parcel, Reserved
from jgroups_py.buckets.settings import InstanceSettings

KEPT_MAX: Final = 200
"""The most remembered answers in one parcel."""
Phase = Literal["copying", "ending", "reserving", "draining", "deciding", "over"]


class Transfer:
    """One copy on its way. It makes the parcels; the manager sends them and reports the answers."""

    def __init__(
        self,
        number: int,
        bucket: Bucket,
        row: BucketRow,
        move: Move,
        asker: Cep,
        settings: InstanceSettings,
    ) -> None:
        self.number, self.bucket, self.row = number, bucket, row
        self.move, self.asker = move, asker
        self.phase: Phase = "copying"
        self.sent = 0
        self.taken = 0
        self.began_lock: float | None = None
        self.rolls_back = False
        self.asked: Cep | None = None
        """The index copy that was asked last."""
        self.reserved: Reserved | None = None
        """The reservation that the index copies keep for this move."""
        self.ask = -1
        """The number of the last question."""
        self.question: tuple[Phase, BucketRow] | None = None
        """That question: asked in this phase, for this row."""
        self.silent = 0
        """Questions to the index without an answer in time."""
        self.again_at = 0.0
        """The time when the index is asked again."""
        self.holding: Cep | None = None
        """The slave that was told to answer no more reads."""
        self.held = True
        """False while that slave has not answered."""
        self._numbers: deque[int] = deque()
        """The numbers of the copy's parcels on their way."""
        self._ends: int | None = None
        self._settings = settings
        self._changes: Iterator[EntryChange] | None = bucket.serialise(
            move.version, iter(bucket.all_keys())
        )
        self._kept = bucket.all_remembered()

    @property
    def on_the_way(self) -> int:
        return self.sent - self.taken

    @property
    def copied(self) -> bool:
        """Were all parcels of the copy sent and taken? Those of later changes do not count: in a busy bucket there are
        always some on their way."""
        return self._changes is None and not self._kept and not self._copying()

    def _copying(self) -> int:
        """Count the parcels of the copy that are on their way."""
        while self._numbers and self._numbers[0] < self.taken:
            self._numbers.popleft()
        return len(self._numbers)

    @property
    def ended(self) -> bool:
        """Has the destination every entry of the time of ``end``?"""
        return self._ends is not None and self.taken > self._ends

    def wanted(self) -> BucketRow:
        """Return the row after the move. After a roll-back it is the old row in a new epoch, so that no earlier
        question can succeed."""
        row = self.row
        if self.rolls_back:
            return BucketRow(row.bucket, row.epoch + 1, row.master, row.slave, row.slave_version)
        return self.moved()

    def moved(self) -> BucketRow:
        """Return the row that the move asks for. It may be decided even after a roll-back began."""
        row, move = self.row, self.move
        if move.role == "master":
            return BucketRow(row.bucket, row.epoch + 1, move.to, row.slave, row.slave_version)
        return BucketRow(row.bucket, row.epoch + 1, row.master, move.to, move.version)

    def parcels(self) -> Iterator[Parcel]:
        """Yield the next parcels, up to the number that may be on their way. Raises the plug-in's errors."""
        while self._copying() < self._settings.parcels_max:
            if self._changes is not None:
                parcel = self._parcel(self._some(self._changes), [])
            elif self._kept:
                # the newest first, because the destination puts each parcel before the answers that it has
                some, self._kept = self._kept[-KEPT_MAX:], self._kept[:-KEPT_MAX]
                parcel = self._parcel([], some)
            else:
                return
            self._numbers.append(parcel.number)
            yield parcel

    def _some(self, changes: Iterator[EntryChange]) -> list[EntryChange]:
        settings, found, size = self._settings, list[EntryChange](), 0
        for change in changes:
            found.append(change)
            size += 50 + len(change.key) + sum(map(len, change.pieces.values()))
            if size >= settings.parcel_bytes or len(found) >= settings.parcel_entries:
                return found
        self._changes = None
        return found

    def tail(self, change: EntryChange, kept: Kept) -> Parcel:
        """Make a parcel of a later change. Raises the plug-in's errors."""
        if change.deletes:
            return self._parcel([change], [kept])
        # as a whole, because the destination may lack the entry
        whole = self.bucket.serialise(self.move.version, iter([change.key]))
        return self._parcel(list(whole), [kept])

    def end(self) -> Parcel:
        """Make the parcel after the last entry. It has the number of entries, which the destination checks; changes may
        follow."""
        self._ends = self.sent
        return self._parcel([], [], last=len(self.bucket))

    def _parcel(
        self, changes: list[EntryChange], kept: list[Kept], last: int | None = None
    ) -> Parcel:
        parcel = Parcel(self.bucket.id, self.number, self.sent, self.row.epoch, changes, kept, last)
        self.sent += 1
        return parcel
