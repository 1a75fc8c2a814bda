"""The simulated cluster for users: the effect of each call; a seed gives the same run again."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.protocols.transport.tcp import TCP
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import Invariant, Link, PropertyViolated, SimCluster, SimMember
from jgroups_py.testing.parts import Parts
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.message import Message
from jgroups_py.values.view import View


class Counts(Protocol):
    def start(self) -> None:
        self.seen = 0

    def up(self, batch: Batch) -> None:
        self.seen += len(batch)
        self.pass_up(batch)


def payloads(member: SimMember) -> list[bytes]:
    return [m.payload for m in member.received]


def eventful(seed: int) -> tuple[Any, ...]:
    bad = Link(loss=0.1, jitter=0.01, duplicate=0.1)
    with SimCluster("ABC", seed=seed, inside=bad) as cluster:
        for n in range(10):
            for member in cluster:
                member.send(b"%d" % n)
            cluster.run_for(0.1)
        cluster.crash("B")
        cluster.run_for(2)
        return (
            cluster.world.events,
            cluster.scene.story,
            [(m.name, m.address, m.views, m.received) for m in cluster],
        )


def test_the_same_seed_is_the_same_run_and_another_is_not() -> None:
    assert eventful(3) == eventful(3)
    assert eventful(3) != eventful(4)


def test_messages_go_to_all_or_to_one_and_name_their_sender() -> None:
    with SimCluster(["left", "right"], ["sim.xml", Counts]) as cluster:
        left, right = cluster["left"], cluster["right"]
        left.send(b"to all", b"again")
        left.send(b"to one", to=right)
        left.send(b"out of band", to=right, oob=True)
        cluster.run_for(1)
        assert payloads(left) == [b"to all", b"again"]
        assert sorted(payloads(right)) == [b"again", b"out of band", b"to all", b"to one"]
        assert cluster.member_of(right.received[0].sender) is left
        assert cluster.member_of(UUID(bytes(16))) is None
        assert right.protocol(Counts).seen == 4
        with pytest.raises(LookupError, match="has no MINE"):
            right.protocol(type("MINE", (Counts,), {}))
        assert len(right.take()) == 4 and right.received == []


def test_a_cut_lasts_its_time() -> None:
    with SimCluster("ABC") as cluster:
        cluster.cut("A", seconds=30)
        cluster.run_for(20)
        assert cluster["A"].view_names == ("A",)
        assert sorted(cluster["B"].view_names) == ["B", "C"]
        cluster.run_for(30)
        assert len(cluster["A"].view_names) == 3


def test_one_way_a_clogged_link_and_a_pause_hold_messages_up() -> None:
    with SimCluster("AB") as cluster:
        a, b = cluster["A"], cluster["B"]
        cluster.cut("A", "B", seconds=1, one_way=True)
        a.send(b"lost at first")
        b.send(b"through")
        cluster.run_for(0.5)
        assert payloads(b) == [b"through"] and payloads(a) == [b"lost at first", b"through"]
        cluster.run_for(2)
        assert len(payloads(b)) == 2
        cluster.clog("A", "B")
        a.send(b"waits")
        cluster.run_for(0.5)
        assert len(payloads(b)) == 2
        cluster.heal()
        cluster.run_for(0.1)
        assert payloads(b)[2:] == [b"waits"]
        cluster.pause("B", seconds=1)
        a.send(b"for who stands still")
        cluster.run_for(0.9)
        assert len(payloads(b)) == 3
        cluster.run_for(0.5)
        assert len(payloads(b)) == 4


@pytest.mark.parametrize("one_way", [False, True])
def test_connections_that_are_reset_are_made_again(one_way: bool) -> None:
    hosts = {"TCPPING.initial_hosts": "10.0.0.1[7800],10.0.0.2[7800]"}
    with SimCluster("AB", "tcp.xml", attributes=hosts) as cluster:
        a, b = cluster["A"], cluster["B"]
        a.send(b"under way")
        cluster.reset("A", "B", one_way=one_way)
        b.send(b"back")
        cluster.run_for(5)
        assert sorted(payloads(a)) == sorted(payloads(b)) == [b"back", b"under way"]
        lost = [m.protocol(TCP).statistics()["connections_lost"] for m in (a, b)]
        assert min(lost) >= 1
        cluster.settle()


def test_links_clocks_and_readers_can_be_slow() -> None:
    with SimCluster("AB") as cluster:
        a, b = cluster["A"], cluster["B"]
        cluster.link("A", "B", settings=Link(latency=0.5), seconds=2)
        a.send(b"late")
        cluster.run_for(0.4)
        assert payloads(b) == []
        cluster.run_for(2)
        assert payloads(b) == [b"late"]
        cluster.slow("B", rate=2, seconds=3)
        a.send(*[b"x"] * 3)
        a.send(b"y")
        cluster.run_for(0.4)
        assert len(payloads(b)) == 1
        cluster.run_for(4)
        assert len(payloads(b)) == 5
        before = a.member.host.now
        cluster.drift("A", rate=2.0, seconds=1)
        cluster.run_for(2)
        assert a.member.host.now - before == pytest.approx(3)


def test_a_member_that_is_gone_comes_back_as_another() -> None:
    with SimCluster("ABC") as cluster:
        former = cluster["B"]
        cluster.crash("B")
        cluster.vanish("C")
        cluster.run_for(15)
        assert cluster["A"].view_names == ("A",)
        assert cluster.living == [cluster["A"]]
        cluster.start()
        assert sorted(cluster["A"].view_names) == ["A", "B", "C"]
        assert former is not cluster["B"] and (former.incarnation, cluster["B"].incarnation) == (
            1,
            2,
        )
        former.send(b"from the dead")
        cluster.leave("C")
        cluster.run_for(2)
        assert len(cluster["A"].view_names) == 2 and not cluster["C"].alive
        cluster.restart("B")
        cluster.run_for(5)
        assert cluster["B"].incarnation == 3 and len(cluster["B"].view_names) == 2
        assert payloads(cluster["A"]) == []


def test_sites_are_joined_by_relay() -> None:
    sites = {"NYC": "AB", "SFO": "TU"}
    attributes = {"RELAY.primary": "NYC"}
    with SimCluster(sites, "relay-udp.xml", attributes=attributes) as cluster:
        cluster.run_for(5)
        cluster["B"].send(b"across")
        cluster.run_for(5)
        assert payloads(cluster["U"]) == [b"across"]
        assert cluster["U"].view_names in (("T", "U"), ("U", "T"))


class Everything(Invariant):
    """Records all calls."""

    def __init__(self) -> None:
        self.told: dict[str, int] = {}

    def note(self, what: str) -> None:
        self.told[what] = self.told.get(what, 0) + 1

    def on_send(self, member: SimMember, payload: bytes, to: SimMember | None) -> None:
        self.note("send" if to is None else "send to one")

    def on_message(self, member: SimMember, message: Message) -> None:
        self.note("message")

    def on_view(self, member: SimMember, view: View) -> None:
        self.note("view")

    def after_step(self, cluster: SimCluster, member: SimMember) -> None:
        self.note("step")

    def at_rest(self, cluster: SimCluster) -> None:
        self.note("rest")


def test_an_invariant_is_told_everything() -> None:
    judge = Everything()
    with SimCluster("AB", invariants=[judge]) as cluster:
        cluster["A"].send(b"1")
        cluster["A"].send(b"2", to=cluster["B"])
        cluster.run_for(1)
        assert judge.told["send"] == judge.told["send to one"] == 1
        assert judge.told["message"] == 3 and judge.told["view"] >= 3
        assert "rest" not in judge.told
        cluster.settle()
        assert judge.told["rest"] == 1 and judge.told["step"] > 20


class NoFive(Invariant):
    def on_message(self, member: SimMember, message: Message) -> None:
        assert message.payload != b"5", f"{member.name} was given 5"


def test_a_broken_invariant_ends_the_run_under_its_name() -> None:
    with SimCluster("AB", seed=9, invariants=[NoFive()]) as cluster:
        cluster.crash("B")
        cluster.run_for(1)
        cluster["A"].send(b"4", b"5", b"6")
        with pytest.raises(PropertyViolated, match="NoFive: A was given 5") as caught:
            cluster.run_for(10)
        assert (caught.value.seed, caught.value.schedule, caught.value.file) == (9, None, None)
        assert "crash B#1" in str(caught.value)
        assert cluster.now < 10  # the cluster stops
        with pytest.raises(PropertyViolated):
            cluster.run_for(1)


def test_a_function_is_asked_after_every_step() -> None:
    def at_most_two(cluster: SimCluster) -> None:
        assert all(len(m.received) <= 2 for m in cluster)

    with SimCluster("AB", invariants=[at_most_two]) as cluster:
        cluster["A"].send(b"1", b"2")
        cluster.run_for(1)
        cluster["A"].send(b"3")
        with pytest.raises(PropertyViolated, match="at_most_two: ") as caught:
            cluster.run_for(1)
        assert caught.value.check == "at_most_two"


def test_an_exception_of_a_protocol_is_a_violation_and_one_of_the_test_is_not() -> None:
    class Fails(Counts):
        def up(self, batch: Batch) -> None:
            raise RuntimeError("oh")

    class Asserts(Counts):
        def check(self) -> None:
            assert self.seen < 2, "two are too many"

    for top, check, text in (
        (Fails, "exception", "oh"),
        (Asserts, "invariant", "two are too many"),
    ):
        with SimCluster("AB", ["sim.xml", top]) as cluster:
            cluster["A"].send(b"1", to=cluster["B"])
            cluster["A"].send(b"2", to=cluster["B"])
            with pytest.raises(PropertyViolated, match=text) as caught:
                cluster.run_for(1)
            assert caught.value.check == check
    with SimCluster("A") as cluster, pytest.raises(ZeroDivisionError):
        cluster.run_until(lambda: 1 / 0 > 1, limit=1)


def test_a_stack_is_put_together_from_files_names_classes_and_objects() -> None:
    stack = Parts(["sim.xml", Counts])
    assert str(stack) == "sim.xml + Counts"
    made = stack({"FRAG2.frag_size": "1K"}, {})
    assert made[-1].name == "Counts" and len(made) == len(stack({}, {}))
    assert next(p for p in made if isinstance(p, FRAG2)).config.frag_size == 1000
    pieces = Parts(["SHARED_LOOPBACK", "jgroups_py.protocols.frag2.FRAG2", MFC(max_credits=5000)])
    first, second = pieces({"MFC.min_threshold": "0.2"}), pieces()
    assert [p.name for p in first] == ["SHARED_LOOPBACK", "FRAG2", "MFC"]
    assert (first[2].config.max_credits, first[2].config.min_threshold) == (5000, 0.2)
    assert second[2].config.min_threshold == MFC().config.min_threshold
    assert first[2] is not second[2]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"members": ""}, "every site needs members"),
        ({"members": "AA"}, "two members have the same name"),
        ({"members": {"NYC": "A", "SFO": "A"}}, "two members have the same name"),
        ({"members": ["any"]}, "'any' cannot be a name"),
        ({"members": ["a.b"]}, "'a.b' cannot be a name"),
        ({"stack": []}, "at least one protocol"),
        ({"stack": [3]}, "3 is no stack file"),
        ({"stack": "no-such.xml"}, "no-such.xml"),
        ({"stack": ["sim.xml", "MFCC"]}, "unknown protocol"),
        ({"attributes": {"MFC.nonsense": "1"}}, "nonsense"),
        ({"attributes": {"MINE.timeout": "1"}}, "nothing in sim.xml is called MINE"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        SimCluster(**({"members": "AB"} | options))


def test_a_cluster_is_opened_once_and_members_start_once() -> None:
    cluster = SimCluster("AB")
    with pytest.raises(ConfigError, match="not open"):
        cluster.run_for(1)
    with cluster:
        with pytest.raises(ConfigError, match="A is running"):
            cluster.start("A")
        with pytest.raises(ConfigError, match="X is not a member"):
            cluster.start("X")
    with pytest.raises(ConfigError, match="used once"):
        cluster.open()
