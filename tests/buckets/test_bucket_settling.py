"""The garbage collector's settings in a node's process."""

from __future__ import annotations

import gc

from jgroups_py.buckets.settling import FULL_EVERY, settle


def test_objects_of_a_settled_node_are_frozen_and_full_collections_are_rare() -> None:
    before = gc.get_threshold()
    kept: list[dict[str, list[int]]] = [{"a": []} for _ in range(1000)]
    frozen = gc.get_freeze_count()
    try:
        settle()
        assert gc.get_freeze_count() >= frozen + 2 * len(kept)
        assert gc.get_threshold() == (*before[:2], FULL_EVERY)
    finally:
        gc.set_threshold(*before)
