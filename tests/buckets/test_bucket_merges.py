"""A group splits and merges before the index has reacted: messages sent meanwhile are lost, and no manager is
replaced."""

from __future__ import annotations

from typing import Any

import pytest
from seed_instance import Instance, key_in

from jgroups_py.buckets import OutcomeUnknown, Request
from jgroups_py.buckets.errors import BucketError
from jgroups_py.testing.explorer.buckets.schedule import draw, play


def instance_of() -> Instance:
    """The lease is so long that the index has replaced no manager when the group merges."""
    return Instance(latency=(0.001, 0.001), lease=4.0)


def begin(instance: Instance, body: str) -> list[Any]:
    """Return a request for pair 4, whose master is on node 2 and whose slave is on node 3."""
    found: list[Any] = []
    instance.world.request("n1.1", Request(body.encode(), key_in(4)), found.append)
    return found


def split_and_merge(instance: Instance, alone: str, unaware: bool) -> None:
    """The views of the parts come within 2 s after the split, the merged one at once after that."""
    rest = [m for m in ("n1.1", "n2.1", "n3.1") if m != alone]
    instance.world.cut([[alone], rest], [alone] if unaware else [])
    instance.world.run(2.03)
    instance.world.heal(within=(0.0, 0.0))


UNAWARE = pytest.mark.parametrize("unaware", [False, True])


@UNAWARE
@pytest.mark.parametrize("alone", ["n3.1", "n2.1"])
def test_a_change_that_was_lost_on_the_way_to_the_slave_is_sent_again(
    alone: str, unaware: bool
) -> None:
    instance = instance_of()
    assert instance.ask("n1", key_in(4), "+before") == "0"
    found = begin(instance, "+change")
    instance.world.run(0.0011)  # the master has the change
    split_and_merge(instance, alone, unaware)
    assert instance.world.run(0.1, lambda: bool(found)), "it is not answered"
    assert found[0][0][1] == b"1"
    row = instance.index("n1").state.rows[3]
    assert (row.epoch, row.slave) == (1, instance.cep("n3")), "nobody was replaced"
    assert len({str(instance.manager(n).copies[3].bucket.state()) for n in ("n2", "n3")}) == 1


@UNAWARE
def test_an_acknowledgement_that_was_lost_comes_again(unaware: bool) -> None:
    instance = instance_of()
    assert instance.ask("n1", key_in(4), "+before") == "0"
    found = begin(instance, "+change")
    instance.world.run(0.0021)
    saves = instance.manager("n3").counts["saves"]
    assert saves == 2 and not found, "the slave has it, and the master does not know"
    split_and_merge(instance, "n3.1", unaware)
    assert instance.world.run(0.1, lambda: bool(found))
    assert found[0][0][1] == b"1" and instance.manager("n3").counts["saves"] == saves


def test_a_save_without_acknowledgement_is_repeated_after_a_time() -> None:
    instance = instance_of()
    slave = instance.manager("n3")
    take, slave._on_save = slave._on_save, lambda *_: None
    found = begin(instance, "+change")
    instance.world.run(1.0)
    slave._on_save = take
    assert instance.world.run(3.5, lambda: bool(found)), "repeat_after is 3 s"
    assert instance.manager("n2").counts["saves_repeated"] == 1


@UNAWARE
@pytest.mark.parametrize("alone", ["n1.1", "n2.1"])
def test_a_move_whose_parcels_were_lost_is_given_up_and_its_bucket_works_on(
    alone: str, unaware: bool
) -> None:
    instance = instance_of()
    assert instance.ask("n1", key_in(4), "+before") == "0"
    ended: list[Any] = []
    n1, n3 = instance.cep("n1"), instance.cep("n3")
    router = instance.router("n2")
    router.migrate_slave_bucket(n3, n1, ended.append, bucket=3, lock_first=True)
    instance.world.flush("n2.1")  # its parcels are on their way
    split_and_merge(instance, alone, unaware)
    instance.world.run(0.1)
    assert isinstance(ended[0], BucketError)
    assert instance.manager("n2").counts["moves_given_up"] == 1
    assert instance.ask("n1", key_in(4), "+after", seconds=1.0) == "1"


@UNAWARE
def test_an_order_whose_answer_was_lost_ends(unaware: bool) -> None:
    instance = instance_of()
    ended: list[Any] = []
    router = instance.router("n1")
    n1, n3 = instance.cep("n1"), instance.cep("n3")
    router.migrate_slave_bucket(n3, n1, ended.append, bucket=3)
    router.cancel(4, ended.append)
    instance.world.flush("n1.1")
    split_and_merge(instance, "n1.1", unaware)
    instance.world.run(0.1)
    assert len(ended) == 2 and all(isinstance(error, OutcomeUnknown) for error in ended)


@UNAWARE
def test_the_first_index_copy_learns_decisions_made_without_it(unaware: bool) -> None:
    """All managers of the old rows are in the merged view, so the view does not show that the rows are old."""
    instance = Instance(lease=0.5)
    split_and_merge(instance, "n1.1", unaware)
    decided = instance.index("n2").state
    assert decided.version > instance.index("n1").state.version
    instance.world.run(2.0)
    assert instance.index("n1").state == instance.index("n3").state
    assert instance.ask("n1", key_in(1), "+x", seconds=1.0) == "0", "its master is node 2 now"


@pytest.mark.parametrize("first", [1, 4])
def test_schedules_with_short_splits_hold(first: int) -> None:
    for seed in range(first, first + 3):
        assert play(draw(seed, blips=True)).problems == [], seed
