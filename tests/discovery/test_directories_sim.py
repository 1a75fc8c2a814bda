"""Whole clusters in virtual time that find each other through a directory."""

from __future__ import annotations

import pytest

from jgroups_py.protocols.discovery.entries import parse_lines
from jgroups_py.router import GossipRouter
from jgroups_py.testing import SimCluster, explore

FOLDER = ("/tmp/jgroups", "explore")


def test_members_that_start_together_find_each_other_through_the_folder() -> None:
    with SimCluster("ABCDE", "tcp-file.xml", seed=5) as cluster:
        cluster["A"].send(b"hello")
        cluster.run_for(1)
        assert all(len(cluster[name].received) == 1 for name in "ABCDE")


def files(cluster: SimCluster) -> dict[str, list[str]]:
    """Return the members that each file names, by the writer of the file."""
    found = {}
    for name, data in cluster.world.directory.folders[FOLDER].items():
        entries, bad = parse_lines(data, 100)
        assert not bad
        found[name.split(".")[1]] = [str(entry.name) for entry in entries]
    return found


def test_the_folder_has_one_file_of_the_coordinator_with_all_members() -> None:
    with SimCluster("ABC", "tcp-file.xml", seed=6) as cluster:
        cluster.run_for(30)
        first, *others = cluster["A"].view_names
        assert files(cluster) == {first: [first, *others]}
        cluster.crash(first)
        cluster.run_for(30)
        assert files(cluster) == {others[0]: others}
        for name in list(others):
            cluster.leave(name)
        cluster.run_for(10)
        assert files(cluster) == {}


def test_a_split_group_merges_through_the_folder() -> None:
    with SimCluster("ABCD", "tcp-file.xml", seed=7) as cluster:
        cluster.cut("AB", "CD", seconds=20)
        cluster.run_for(15)
        assert len(cluster["A"].view_names) == 2
        cluster.settle()
        assert len(cluster["D"].view_names) == 4


def test_a_folder_that_fails_for_a_while_splits_no_group_for_good() -> None:
    with SimCluster("ABC", "tcp-file.xml", seed=8) as cluster:
        cluster.crash("C")
        cluster.world.directory.fails["folder"] = "Input/output error"
        cluster.start("C", wait=False)
        cluster.run_for(20)
        assert len(cluster["C"].views[0].members) == 1  # no entry named the others
        del cluster.world.directory.fails["folder"]
        cluster.settle()
        assert len(cluster["C"].view_names) == 3


def test_files_of_the_dead_keep_nobody_waiting() -> None:
    with SimCluster("ABC", "tcp-file.xml", seed=9) as cluster:
        cluster.run_for(10)
        cluster.crash("A", "B", "C")
        assert len(cluster.world.directory.folders[FOLDER]) == 1
        begun = cluster.world.now
        cluster.start("B")
        assert cluster["B"].view_names == ("B",)
        assert cluster.world.now - begun < 60
        assert any(len(view.members) == 1 for view in cluster["B"].views)


@pytest.mark.parametrize("seed", range(3))
def test_rubbish_in_the_folder_harms_nobody(seed: int) -> None:
    with SimCluster("ABC", "tcp-file.xml", seed=seed) as cluster:
        folder = cluster.world.directory.folders[FOLDER]
        chance = cluster.world.random
        for number in range(20):
            folder[f"{number}.list"] = chance.randbytes(chance.randrange(300))
        cluster.restart("B")
        cluster.settle()
        assert len(cluster["B"].view_names) == 3


def test_the_same_seed_gives_the_same_run() -> None:
    def run() -> tuple[object, ...]:
        with SimCluster("ABC", "tcp-file.xml", seed=11) as cluster:
            cluster.crash("A")
            cluster.start("A", wait=False)
            cluster.run_for(60)
            world = cluster.world
            return world.events, dict(world.directory.asked), dict(world.directory.folders[FOLDER])

    assert run() == run()


def with_router(members: str, seed: int) -> SimCluster:
    cluster = SimCluster(
        members,
        "tcp-gossip.xml",
        seed=seed,
        attributes={"TCPGOSSIP.initial_hosts": "router[12001]"},
    )
    cluster.open()
    world = cluster.world
    world.start("router", lambda *_: [GossipRouter()], "router", site="routers")
    world.resolver = lambda host: (world.host_address("routers", host),)
    return cluster


def test_members_find_each_other_through_a_router_and_go_on_without_it() -> None:
    cluster = with_router("ABCD", 12)
    cluster.start()
    router = cluster.world.member("router", "routers")
    assert router.stack.statistics()["GossipRouter"]["members"] == 4
    router.host.crash()
    cluster["A"].send(b"hello")
    cluster.run_for(30)
    assert all(len(cluster[name].received) == 1 for name in "ABCD")
    cluster.close()


def test_a_router_that_is_started_again_brings_newcomers_to_the_group() -> None:
    cluster = with_router("ABC", 13)
    cluster.start("A", "B")
    world = cluster.world
    world.member("router", "routers").host.crash()
    cluster.start("C", wait=False)
    cluster.run_for(20)
    assert cluster["C"].view_names == ("C",)
    world.start("router", lambda *_: [GossipRouter()], "router", site="routers")
    cluster.settle()
    assert len(cluster["C"].view_names) == 3
    cluster.close()


@pytest.mark.parametrize("stack", ["tcp-file.xml", "tcp-jdbc.xml"])
def test_random_faults_leave_one_group_and_no_message_lost(stack: str) -> None:
    """Crashes, pauses, cuts and restarts, while members find each other through a directory."""
    report = explore(
        lambda seed: SimCluster("ABCD", stack, seed=seed), seeds=range(1, 5), shrink_runs=0
    )
    assert report.runs == 4
