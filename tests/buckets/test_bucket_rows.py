"""Rows and parcels of buckets that an instance does not have."""

from __future__ import annotations

from seed_instance import PAIRS, Instance

from jgroups_py.buckets.messages import BucketRow, Forward, Parcel, Placed


def test_rows_of_buckets_that_there_are_not_are_counted_and_make_no_copy() -> None:
    instance = Instance()
    manager, index = instance.manager("n1"), instance.cep("n2")
    before = list(manager.copies)
    rows = [BucketRow(PAIRS + n, 1, manager.cep, index) for n in range(3)]
    manager.handle(index, Placed(rows))
    manager.handle(index, Forward(("c", 1), rows[0], "key", b"+x", True, None))
    assert list(manager.copies) == before
    assert manager.counts["bad_rows"] == 4


def test_a_parcel_of_a_bucket_that_there_is_not_is_refused() -> None:
    instance = Instance()
    manager, source = instance.manager("n1"), instance.cep("n2")
    manager.handle(source, Parcel(PAIRS, 1, 0, 1, [], []))
    assert not manager.incoming and manager.counts["moves_refused"] == 1
