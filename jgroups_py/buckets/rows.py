"""Rows of the index: their changes when managers are lost, and reports on pairs. Functions on values.

Source: 4.4.6, 4.5.2.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from jgroups_py.buckets.digest import range_of
from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, KnownManager, Role


def without(row: BucketRow, lost: Collection[Cep]) -> BucketRow:
    """Return the row without these managers: PromoteSlaves for a lost master, DisableSlaves for a lost slave. With both
    lost the row stays as it is: the copies count again if their managers come back."""
    master_lost, slave_lost = row.master in lost, row.slave in lost
    if master_lost and row.slave is not None and not slave_lost:
        return BucketRow(row.bucket, row.epoch + 1, row.slave)
    if slave_lost and not master_lost:
        return BucketRow(row.bucket, row.epoch + 1, row.master)
    return row


def find_a_bucket(rows: Iterable[BucketRow], cep: Cep, role: Role) -> list[int]:
    """Return the buckets with this role at this manager (FindABucket), in their order."""
    return [row.bucket for row in rows if row.role_of(cep) == role]


def find_recreatable_buckets(rows: Iterable[BucketRow], cep: Cep | None = None) -> list[int]:
    """Return pairs without a slave (FindRecreatableBucket), all or those with their master at this manager."""
    return [row.bucket for row in rows if row.slave is None and cep in (None, row.master)]


class Loss:
    """A pair that lost a copy or both. ``first``, ``after``: its range of digests."""

    __slots__ = ("after", "bucket", "first", "lost")

    def __init__(self, bucket: int, buckets: int, lost: bool) -> None:
        self.bucket, self.lost = bucket, lost
        self.first, self.after = range_of(bucket, buckets)

    def __repr__(self) -> str:
        what = "lost" if self.lost else "without backup"
        return f"bucket {self.bucket} is {what}: digests {self.first:016x} to {self.after - 1:016x}"


def losses(rows: Mapping[int, BucketRow], members: Collection[str]) -> list[Loss]:
    """Return pairs without backup and pairs without any copy (A37), in their order."""
    found = []
    for bucket, row in sorted(rows.items()):
        here = [cep for cep in (row.master, row.slave) if cep is not None and cep.member in members]
        if len(here) < 2:  # a lost master's slave is promoted
            found.append(Loss(bucket, len(rows), lost=not here))
    return found


def misplaced(row: BucketRow, managers: Iterable[KnownManager], *, zones: bool = True) -> str:
    """Return why the places of this row's copies are not allowed (A32), or ""."""
    if row.slave is None:
        return ""
    infos = {manager.cep: manager.info for manager in managers}
    master, slave = infos.get(row.master), infos.get(row.slave)
    if master is None or slave is None:
        return ""
    if master.node == slave.node:
        return f"both copies would be on node {master.node}"
    common = set(zones_of(master.zone)) & set(zones_of(slave.zone)) if zones else set()
    if common:
        return f"both copies would be in zone {min(common)}"
    return ""


def zones_of(text: str) -> list[str]:
    """Return a component's causes of failure: names with commas between them."""
    return [name for name in text.split(",") if name]
