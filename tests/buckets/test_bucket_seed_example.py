"""The seed's examples (4.2) on the machine, in virtual time: the instance, an update, the loss of a node, recovery."""

from __future__ import annotations

import pytest
from seed_instance import BUCKETS_MAX, MASTERS, MASTERS_MAX, PAIRS, SLAVES, Instance, key_in

from jgroups_py.buckets import Refused, Unavailable

NORMAL = {name: (MASTERS[name], SLAVES[name]) for name in MASTERS}


@pytest.mark.seed("A30", "A33", "A35", "A42", "A44", "A47")
def test_the_example_instance_has_the_seeds_layout_and_loads() -> None:
    instance = Instance()
    for name in MASTERS:
        assert instance.layout(name) == NORMAL, "every index copy says the same"
        copies = instance.manager(name).copies
        assert sorted(b + 1 for b in copies) == sorted(MASTERS[name] + SLAVES[name])
        masters, slaves = (len(side) for side in NORMAL[name])
        assert (masters / MASTERS_MAX, (masters + slaves) / BUCKETS_MAX) == (0.6, 1.0)


@pytest.mark.seed("A7", "A36", "A43", "A61")
def test_an_update_of_bucket_4_takes_the_seeds_way() -> None:
    instance = Instance()
    key = key_in(4)
    assert instance.ask("n1", key, "+seat") == "0"
    before = {n: instance.manager(n).counts.copy() for n in MASTERS}
    assert instance.ask("n1", key, "+other") == "1"
    did = {n: instance.manager(n).counts - before[n] for n in MASTERS}
    assert did == {"n1": {}, "n2": {"requests": 1, "changes": 1}, "n3": {"saves": 1}}
    assert instance.router("n1").counts["answered"] == 2, "n1, which got the request, answered it"
    assert instance.manager("n2").copies[3].bucket.state() == {key: ({"": b"seat other"}, 73)}
    assert instance.manager("n3").copies[3].bucket.state() == {key: ({"": b"seat other"}, 73)}


@pytest.mark.seed("A19", "A20", "A31", "A37", "A49", "A53", "A54")
def test_the_loss_of_node_2_promotes_three_slaves_and_lists_six_pairs() -> None:
    instance = Instance()
    for pair in range(1, PAIRS + 1):
        assert instance.ask("n1", key_in(pair), f"+before{pair}") == "0"
    instance.kill("n2")
    began = instance.world.now
    for pair in range(1, PAIRS + 1):
        assert instance.ask("n1", key_in(pair), f"+after{pair}") == "1", pair
    assert instance.world.now - began < 5.0, "detection 2 s at most, lease 1 s"
    instance.world.run(60.0)
    assert instance.layout("n1") == {"n1": ((1, 2, 3, 5), (7, 9)), "n3": ((4, 6, 7, 8, 9), (2,))}
    assert [len(m) / MASTERS_MAX for m, _ in instance.layout("n3").values()] == [0.8, 1.0]
    losses = instance.index("n1").losses()
    assert [int(text.split()[1]) + 1 for text in losses] == [1, 3, 4, 5, 6, 8]
    assert all("without backup: digests" in text for text in losses)
    assert set(instance.index("n3").state.copies) == {"i/n1", "i/n3"}, "the lost copy is exempted"


@pytest.mark.seed("A38", "A49", "A51", "A56")
def test_the_return_of_node_2_and_six_orders_restore_the_layout() -> None:
    instance = Instance()
    for pair in range(1, PAIRS + 1):
        instance.ask("n1", key_in(pair), f"+token{pair}")
    instance.kill("n2")
    instance.world.run(5.0)
    instance.start("n2")
    instance.world.run(20.0)
    assert instance.layout("n1")["n2"] == ((), ()), "nothing comes by itself"
    n1, n2, n3 = (instance.cep(name) for name in MASTERS)
    for pair in (1, 3, 8):
        assert instance.do("n1", "recreate_bucket", n2, bucket=pair - 1).slave == n2
    for pair, home in {4: n3, 5: n1, 6: n3}.items():
        row = instance.do("n3", "migrate_master_bucket", home, n2, bucket=pair - 1)
        assert (row.master, row.slave) == (n2, None)
        assert instance.do("n3", "recreate_bucket", home, bucket=pair - 1).slave == home
    assert all(instance.layout(name) == NORMAL for name in MASTERS)
    assert instance.index("n2").losses() == []
    for pair in range(1, PAIRS + 1):
        assert instance.ask("n3", key_in(pair), "?") == f"token{pair}"
        copies = [instance.manager(n).copies.get(pair - 1) for n in MASTERS]
        states = [copy.bucket.state() for copy in copies if copy is not None]
        assert len(states) == 2 and states[0] == states[1]


@pytest.mark.seed("A32")
def test_a_copy_never_comes_to_the_node_of_the_other_one() -> None:
    instance = Instance()
    n1, n2 = instance.cep("n1"), instance.cep("n2")
    refused = instance.do("n1", "migrate_master_bucket", n1, n2, bucket=0)
    assert isinstance(refused, Refused) and "node n2" in str(refused)


@pytest.mark.seed("A19")
def test_the_loss_of_both_copies_is_listed_by_range_and_told_to_clients() -> None:
    instance = Instance()
    instance.ask("n1", key_in(4), "+gone")
    for name in ("n2", "n3"):
        instance.kill(name)
    instance.world.run(10.0)
    answer = instance.ask("n1", key_in(4), "?")
    assert isinstance(answer, Unavailable)
    # With one index copy of three no update is decided any more, and the copy reports that.
    assert any(
        text.startswith("bucket 3 is lost: digests 5555") for text in instance.index("n1").losses()
    )
    assert not instance.index("n1").has_quorum
