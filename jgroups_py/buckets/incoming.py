"""IncomingCopies: copies of buckets on their way to a manager. It is the destination of their moves.

Source: 4.4.3, 4.5.2.4.
"""

from __future__ import annotations

from collections import Counter

from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.faults import PLUGIN_ERRORS, text_of
from jgroups_py.buckets.messages import BucketRow, Drop, Parcel, Taken
from jgroups_py.buckets.plugin import EntryBehaviourProvider
from jgroups_py.buckets.settings import InstanceSettings


class IncomingCopy:
    """A copy on its way here. It answers no requests before a row names it."""

    def __init__(self, bucket: Bucket, source: Cep, transfer: int, epoch: int) -> None:
        self.bucket, self.source, self.transfer, self.epoch = bucket, source, transfer, epoch
        self.next = 0

    def unserialise_bucket(self, parcel: Parcel) -> str:
        """Fill the copy (UnserialiseBucket). Return the reason for which the parcel is refused, or ""."""
        bucket = self.bucket
        try:
            for change in parcel.changes:
                bucket.check_version(change)
                bucket.unserialise_entry(change)
        except PLUGIN_ERRORS as error:
            return text_of(error, 500)
        if parcel.changes:
            for kept in parcel.kept:
                bucket.remember(kept)
        else:
            # They were remembered before the move began. Those of changes during the move came earlier.
            bucket.remember_older(parcel.kept)
        if parcel.last is not None and parcel.last != len(bucket):
            return f"{len(bucket)} of {parcel.last} entries came"
        return ""


class IncomingCopies:
    """``copies``: by bucket."""

    def __init__(
        self, provider: EntryBehaviourProvider, settings: InstanceSettings, counts: Counter[str]
    ) -> None:
        self.copies: dict[int, IncomingCopy] = {}
        self._provider, self._settings, self._counts = provider, settings, counts

    def __len__(self) -> int:
        return len(self.copies)

    def __contains__(self, bucket: int) -> bool:
        return bucket in self.copies

    def take(self, row: BucketRow) -> Bucket | None:
        """Return the bucket that came before this row. A row of the epoch in which the move began leaves the copy on its
        way."""
        coming = self.copies.get(row.bucket)
        if coming is None or row.epoch <= coming.epoch:
            return None
        return self.copies.pop(row.bucket).bucket

    def became_slave_of(self, master: Cep, bucket: int, epoch: int) -> bool:
        """Does a save of this epoch show that the copy from this master has become its slave?"""
        coming = self.copies.get(bucket)
        return coming is not None and epoch > coming.epoch and coming.source == master

    def parcel(self, source: Cep, parcel: Parcel, here: bool) -> Taken | None:
        """Take a parcel and return the answer to its source. ``here``: a copy of the bucket is here already."""
        if parcel.number == 0:
            if parcel.bucket >= self._settings.buckets:
                return self._refused(parcel, f"there are {self._settings.buckets} buckets")
            if here:
                return self._refused(parcel, "a copy of this bucket is here")
            bucket = Bucket(parcel.bucket, self._provider, self._settings.remembered_max)
            self.copies[parcel.bucket] = IncomingCopy(bucket, source, parcel.transfer, parcel.epoch)
        coming = self.copies.get(parcel.bucket)
        if coming is None or (coming.source, coming.transfer, coming.next) != (
            source,
            parcel.transfer,
            parcel.number,
        ):
            self._counts["stray_parcels"] += 1
            return None
        coming.next += 1
        if why := coming.unserialise_bucket(parcel):
            del self.copies[parcel.bucket]
            return self._refused(parcel, why)
        self._counts["parcels"] += 1
        return Taken(parcel.bucket, parcel.transfer, parcel.number)

    def _refused(self, parcel: Parcel, why: str) -> Taken:
        self._counts["moves_refused"] += 1
        return Taken(parcel.bucket, parcel.transfer, parcel.number, why)

    def drop(self, source: Cep, drop: Drop) -> None:
        """Forget the copy of a move that was given up."""
        coming = self.copies.get(drop.bucket)
        if coming is not None and (coming.source, coming.transfer) == (source, drop.transfer):
            del self.copies[drop.bucket]
