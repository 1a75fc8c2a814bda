"""The seed's primitives have their names, in snake_case, and each does what its name says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from seed_instance import Instance

from jgroups_py.buckets import messages, rows
from jgroups_py.buckets.bucket import Bucket
from jgroups_py.buckets.incoming import IncomingCopy
from jgroups_py.buckets.index import IndexCopy
from jgroups_py.buckets.manager import BucketManager
from jgroups_py.buckets.messages import EntryChange, Kept, Parcel
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.plugin import Entry, EntryBucket
from jgroups_py.buckets.proxies import ProxyManager
from jgroups_py.buckets.router import Router
from jgroups_py.testing.explorer.buckets.ledger import NEW, OLD

NOTE = Path(__file__).parents[2] / "design" / "buckets.md"
OWNERS: dict[str, Any] = {
    "Bucket": Bucket,
    "BucketManager": BucketManager,
    "BucketNode": BucketNode,
    "Entry": Entry,
    "EntryBucket": EntryBucket,
    "IncomingCopy": IncomingCopy,
    "IndexCopy": IndexCopy,
    "ProxyManager": ProxyManager,
    "Router": Router,
    "rows": rows,
}


@pytest.mark.seed("A59", "A60", "A61", "A62", "A63", "A64", "A65")
def test_the_note_names_a_method_or_a_message_for_each_primitive() -> None:
    _, _, rest = NOTE.read_text(encoding="utf-8").partition("## The seed's primitives\n")
    table = [line.split("|") for line in rest.partition("\n## ")[0].splitlines() if "`" in line]
    assert sum(len(row[2].split(",")) for row in table) == 39
    for row in table:
        owner: Any = messages
        for name in re.findall(r"`([^`]+)`", row[3]):
            of, _, short = name.rpartition(".")
            owner = OWNERS[of] if of else owner
            assert callable(getattr(owner, short)), name


@pytest.mark.seed("A62")
def test_a_bucket_is_locked_once_and_only_where_a_copy_is() -> None:
    manager = Instance().manager("n2")
    assert manager.lock_bucket(3) and manager.copies[3].locked
    assert not manager.lock_bucket(3), "locked already"
    manager.unlock_bucket(3)
    assert not manager.copies[3].locked and manager.lock_bucket(3)
    assert not manager.lock_bucket(8), "bucket 8 is on the other nodes"
    manager.unlock_bucket(8)


@pytest.mark.seed("A62")
def test_a_bucket_is_filled_with_entries_and_answers_and_refused_if_some_are_missing() -> None:
    manager = Instance().manager("n2")
    bucket = Bucket(8, manager.provider, 10)
    coming = IncomingCopy(bucket, manager.cep, 1, 1)
    changes = [EntryChange(key, {"": b"x"}, True, OLD) for key in ("a", "b")]
    first = Parcel(8, 1, 0, 1, changes, [Kept(("r", 1), [])])
    assert coming.unserialise_bucket(first) == ""
    assert bucket.all_keys() == ["a", "b"] and bucket.remembered(("r", 1)) is not None
    assert coming.unserialise_bucket(Parcel(8, 1, 1, 1, [], [], last=2)) == ""
    missing = coming.unserialise_bucket(Parcel(8, 1, 1, 1, [], [], last=3))
    assert missing == "2 of 3 entries came"
    newer = Parcel(8, 1, 1, 1, [EntryChange("c", {"": b"{}"}, True, NEW)], [])
    assert "does not read version 81" in coming.unserialise_bucket(newer)


@pytest.mark.seed("A62")
def test_a_deleted_bucket_is_gone_and_an_older_row_does_not_bring_it_back() -> None:
    manager = Instance().manager("n2")
    row = manager.copies[3].row
    manager.delete_bucket(row)
    assert 3 not in manager.copies and manager.counts["copies_deleted"] == 1
    manager.handle(manager.cep, messages.Placed([row]))
    assert 3 not in manager.copies and manager.counts["old_rows"] == 1
