"""The bench beside other libraries compares within a run, and names unmeasured cases."""

from __future__ import annotations

import importlib.util
import shutil
import time
from dataclasses import replace
from typing import Any

import pytest
import trio

from jgroups_py.tools.bench import cache_perf
from jgroups_py.tools.bench.peers import __main__ as bench_peers
from jgroups_py.tools.bench.peers import groups, libraries, measures, missing, runs
from jgroups_py.tools.bench.peers.bare import BarePeer, BundledBarePeer
from jgroups_py.tools.bench.peers.corosync import CorosyncPeer
from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.java import JavaPeer, TunedJavaPeer
from jgroups_py.tools.bench.peers.nats import NatsPeer
from jgroups_py.tools.bench.peers.plain import PlainMember
from jgroups_py.tools.bench.peers.plan import Case, PeersPlan
from jgroups_py.tools.bench.peers.redis import RedisPeer
from jgroups_py.tools.bench.peers.summary import OURS, markdown, summary
from jgroups_py.tools.children import ChildError
from jgroups_py.tools.commands.mperf_load import SEQNO_BITS, payloads

PLAN = PeersPlan(("udp.xml",), (1000,), (2, 3), (0, 1), (1,), 1.0, 1.0, 2)


class Peer:
    """A library that is not started: the bench asks for its figures alone."""

    measures = frozenset({"messages", "calls", "groups", "caches"})

    def __init__(self, name: str, rate: float) -> None:
        self.name = name
        self.rate = rate


def row(rows: list[dict[str, Any]], peer: str) -> dict[str, Any]:
    return next(row for row in rows if row["peer"] == peer)


def test_a_ratio_is_the_median_of_those_within_each_run() -> None:
    def run(ours: float, other: float) -> dict[tuple[str, str], dict[str, float]]:
        return {("c", OURS): {"calls_per_s": ours}, ("c", "other"): {"calls_per_s": other}}

    rows = summary([run(10, 20), run(100, 100), run(40, 20)])
    found = row(rows, "other")["figures"]["calls_per_s"]
    assert found == {"min": 20, "median": 20, "max": 100, "ours_by_this": 1}


def test_a_peer_that_failed_in_a_run_has_the_figures_of_the_others_and_says_so() -> None:
    both = {("c", OURS): {"calls_per_s": 4.0}, ("c", "other"): {"calls_per_s": 2.0}}
    alone = {("c", OURS): {"calls_per_s": 100.0}}
    for order in ([both, alone], [alone, both]):
        found = row(summary(order), "other")
        assert found["runs"] == 1
        assert found["figures"]["calls_per_s"] == {
            "min": 2,
            "median": 2,
            "max": 2,
            "ours_by_this": 2,
        }


def test_a_peer_that_is_not_here_has_rows_without_figures() -> None:
    rows = summary([{("c", OURS): {"calls_per_s": 1.0}}], {"c": [OURS, "absent"]})
    assert row(rows, "absent") == {"case": "c", "peer": "absent", "runs": 0, "figures": {}}


def test_no_senders_means_that_all_members_send() -> None:
    cases = [case.arguments[1:] for case in PLAN.cases() if case.kind == "messages"]
    assert cases == [(2, 2), (2, 1), (3, 3), (3, 1)]


def test_the_result_names_libraries_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    found, absent = libraries.peers()
    assert [peer.name for peer in found] == [OURS, BarePeer.name, BundledBarePeer.name]
    for text in (
        "Java JGroups 5.5.6.Final: there is no java",
        "pyzmq mesh: zmq is not installed",
        "NATS: nats is not installed",
        "Redis: redis is not installed",
        "corosync of 1 node: there is no corosync",
    ):
        assert any(one.startswith(text) for one in absent)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert (
        "NATS: there is no nats-server (Debian, Ubuntu: apt install nats-server)"
        in (libraries.peers()[1])
    )
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("ctypes.CDLL", lambda name: name)
    with pytest.raises(missing.PeerMissing, match="must be started by root"):
        CorosyncPeer()


def test_a_library_that_is_not_wanted_has_no_rows() -> None:
    unwanted = [kind.name for kind in libraries.KINDS]
    found, absent = libraries.peers(unwanted)
    assert [peer.name for peer in found] == [OURS] and not absent
    assert libraries.names(next(PLAN.cases()), unwanted) == [OURS]


def fake(monkeypatch: pytest.MonkeyPatch, peers: list[Any], **fakes: Any) -> None:
    """Let the bench ask only ``peers``, with ``fakes`` in place of the functions that measure a kind."""
    monkeypatch.setattr(runs, "peers", lambda _: (peers, []))
    monkeypatch.setattr(runs, "MEASURES", fakes)


def test_the_result_names_a_case_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def messages(plan: object, peer: Peer, *_: object) -> dict[str, dict[str, float]]:
        if peer.name == "other":
            raise ExceptionGroup("nursery", [ChildError("lost 3, twice 0")])
        if peer.name == "odd":
            raise OSError("no such program")
        return {"": {"delivered_per_s": peer.rate}}

    async def calls(plan: object, peer: Peer, *_: object) -> dict[str, dict[str, float]]:
        return {", 1 callers": {"calls_per_s": peer.rate}}

    fake(
        monkeypatch,
        [Peer(OURS, 30), Peer("other", 10), Peer("odd", 1)],
        messages=messages,
        calls=calls,
    )
    result = runs.measure(PLAN)
    assert len(result["not_measured"]) == 2 * 2 * 4, "four cases of two peers in each of two runs"
    text = markdown(result)
    assert "Not measured: udp.xml, 1000 B, 2 members, 2 send, other: lost 3, twice 0" in text
    assert "| udp.xml, 1000 B, 1 callers | other | 10.0 (10.0-10.0), x3.00 |" in text
    assert "2 members, 2 send, odd: OSError: no such program" in text
    for case in (
        "2 members, 2 send",
        "2 members, 1 send",
        "3 members, 3 send",
        "3 members, 1 send",
    ):
        assert f"| udp.xml, 1000 B, {case} | {JavaPeer.name} | - |" in text
        assert f"| udp.xml, 1000 B, {case} | {BarePeer.name} |" not in text, "it has calls only"
    assert f"| udp.xml, 1000 B, 1 callers | {JavaPeer.name} | - |" in text
    result["rows"][0]["runs"] = 1
    assert "(1 of 2 runs) |" in markdown(result)


def test_no_case_begins_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    asked: list[str] = []

    async def messages(plan: object, peer: Peer, case: Case, _: object) -> dict[str, Any]:
        asked.append(case.text)
        clock[0] += 50
        return {"": {"delivered_per_s": 1.0}}

    fake(monkeypatch, [Peer(OURS, 30)], messages=messages)
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        trio, "run", lambda _, case, peer, cluster: _drive(messages(None, peer, case, cluster))
    )
    said: list[str] = []
    plan = replace(PLAN, callers=(), minutes=2.0)
    result = runs.measure(plan, said.append)
    assert len(asked) == 3, "the third one begins after 100 s, a fourth would after 150"
    assert len(result["not_measured"]) == 2 * 4 - 3
    assert result["not_measured"][0].endswith(f"{OURS}: 2 minutes were over")
    longest = max(case.seconds_max for case in plan.cases())
    assert said[0] == f"It takes 1 minutes, and {(120 + longest) / 60:.0f} minutes at most."


def _drive(coroutine: Any) -> Any:
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    return end.value.value


def test_a_case_that_does_not_end_is_named(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: Any
) -> None:
    async def for_ever(*_: object) -> dict[str, Any]:
        await trio.sleep_forever()
        raise AssertionError

    fake(monkeypatch, [Peer(OURS, 30)], messages=for_ever)
    run = trio.run
    monkeypatch.setattr(trio, "run", lambda *args: run(*args, clock=autojump_clock))
    began = autojump_clock.current_time()
    result = runs.measure(replace(PLAN, callers=(), members=(2,), senders=(0,), runs=1))
    assert 75 <= autojump_clock.current_time() - began < 77
    assert result["not_measured"] == [
        f"udp.xml, 1000 B, 2 members, 2 send, {OURS}: not done within 75 s"
    ]


def test_the_tuned_row_differs_from_the_stock_stack() -> None:
    assert not JavaPeer.settings
    assert TunedJavaPeer.settings["UDP.bundler.capacity"] == "65536"
    assert TunedJavaPeer.settings["TCP.tcp_nodelay"] == "true"


async def test_figures_of_a_cache_are_those_of_puts_and_gets() -> None:
    class Caching(Peer):
        async def caches(self, plan: PeersPlan, stack: str) -> list[dict[str, Any]]:
            return [cache_perf.figures("put", 100, 8, [0.001, 0.003], 1.0) | {"cpu_us": 5.0}]

    case = next(case for case in replace(PLAN, cache_sizes=(100,)).cases() if case.kind == "caches")
    found = await measures.all_caches(PLAN, Caching(OURS, 1), case, "")
    figures = {"requests_per_s": 2, "p50_us": 3000, "p99_us": 3000, "caller_cpu_us": 5.0}
    assert found == {", put of 100 B, 8 callers": figures}


def test_a_library_with_one_transport_is_measured_beside_one_stack() -> None:
    stacks = {
        kind: [
            case.stack
            for case in replace(PLAN, stacks=("udp.xml", "tcp.xml"), members=(2,)).cases()
            if case.kind == "messages" and libraries.has(kind, case)
        ]
        for kind in (NatsPeer, CorosyncPeer, JavaPeer)
    }
    assert set(stacks[NatsPeer]) == {"tcp.xml"}
    assert set(stacks[CorosyncPeer]) == {"udp.xml"}
    assert set(stacks[JavaPeer]) == {"udp.xml", "tcp.xml"}


class Scripted:
    """A member's process with given lines. ``told`` has its inputs."""

    def __init__(self, *views: tuple[int, float]) -> None:
        self.told: list[dict[str, Any]] = []
        self._views = iter(views)

    async def tell(self, **what: Any) -> None:
        self.told.append(what)

    async def hear(self, event: str) -> dict[str, Any]:
        members, at = next(self._views)
        return {"event": event, "members": members, "at": at}


async def test_a_join_ends_when_the_last_member_has_the_view_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 10.0)
    first = Scripted((1, 9.0), (2, 10.2), (3, 10.3))
    children = [first, Scripted((3, 10.5)), Scripted((2, 10.1), (3, 10.4))]
    plan = GroupPlan("udp.xml", 2, 0.0, "test")
    assert await groups.measured(plan, children) == {"join_ms": 500.0}  # type: ignore[arg-type]
    assert all(child.told == [{"open": True}] for child in children)


async def test_a_view_that_does_not_come_is_named(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Scripted):
        async def hear(self, event: str) -> dict[str, Any]:
            await trio.sleep_forever()
            raise AssertionError

    with pytest.raises(ChildError, match="no view of 1 within 60 s"):
        await groups.measured(GroupPlan("udp.xml", 1, 0.0, "test"), [Silent(), Silent()])  # type: ignore[list-item]


def test_each_library_gets_the_cases_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, tuple[Any, ...]]] = []

    async def noted(plan: object, peer: Peer, case: Case, _: object) -> dict[str, Any]:
        asked.append((peer.name, case.kind, case.arguments))
        return {}

    floor = Peer("floor", 1)
    floor.measures = frozenset({"calls"})
    kinds = ("messages", "calls", "groups", "caches")
    fake(monkeypatch, [Peer(OURS, 30), floor], **dict.fromkeys(kinds, noted))
    plan = replace(
        PLAN,
        members=(2,),
        senders=(0,),
        runs=1,
        joiners=(1, 8),
        idle=5.0,
        cache_sizes=(100,),
    )
    runs.measure(plan)
    assert asked == [
        (OURS, "calls", (1000,)),
        ("floor", "calls", (1000,)),
        (OURS, "groups", (1, 0.0)),
        (OURS, "groups", (8, 0.0)),
        (OURS, "groups", (3, 5.0)),
        (OURS, "groups", (31, 5.0)),
        (OURS, "caches", ()),
        (OURS, "messages", (1000, 2, 2)),
    ]


def test_the_whole_bench_is_done_within_fifty_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    everybody: list[Any] = [libraries.Ours(), *(object.__new__(kind) for kind in libraries.KINDS)]
    fake(monkeypatch, everybody)
    parser = bench_peers._parser()
    plan = bench_peers._plan(parser, parser.parse_args([]))
    assert 20 * 60 < runs.Bench(plan, lambda _: None).seconds <= 50 * 60
    assert plan.minutes == 50
    kinds = [case.kind for case in plan.cases()]
    assert kinds[kinds.index("messages") :] == ["messages"] * kinds.count("messages")


def test_a_row_is_in_one_table() -> None:
    join, idle = {"join_ms": 5.0}, {"idle_percent": 0.1, "rss_mb": 40.0, "join_ms": 7.0}
    rows = summary([{("joins", OURS): join, ("idle", OURS): idle}])
    result = {
        "machine": "m",
        "load_before": 0,
        "load_after": 0,
        "runs": 1,
        "seconds": 1,
        "warm_up": 1,
    }
    text = markdown(result | {"rows": rows, "not_measured": []})
    assert text.count("| joins |") == text.count("| idle |") == 1
    assert "| case | peer | idle, % of a core | MB | join ms |" in text


def test_a_compiler_has_time_to_warm_up() -> None:
    java = object.__new__(JavaPeer)
    assert measures.warm_up(PLAN, java) == 8.0
    assert measures.warm_up(PLAN, BarePeer()) == PLAN.warm_up
    assert measures.warm_up(replace(PLAN, warm_up=20.0), java) == 20.0


def test_messages_of_several_senders_are_checked_as_runs() -> None:
    member = PlainMember(0, 0, 0.0, {"senders": 2})
    first, second = (payloads(100, 0), payloads(100, 0))
    mixed = zip(first.beginning(0), second.beginning(1 << SEQNO_BITS), strict=True)
    member.arrived([payload for pair in mixed for payload in pair])
    check = member.check
    assert check.delivered == [first.count] * 2
    assert (check.duplicates, check.out_of_order) == (0, 0)
    member.arrived([first.beginning(0)[0]])
    assert check.duplicates == 1


def case_of(plan: PeersPlan, kind: str) -> Case:
    return next(case for case in plan.cases() if case.kind == kind)


@pytest.mark.sockets
def test_a_group_of_real_members_joins_is_idle_and_loses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "SETTLE_SECONDS", 0.1)
    case = Case("groups", "", "udp.xml", (2, 0.3), 1.0)
    found = trio.run(measures.one_group, PLAN, libraries.Ours(), case, "test-group")[""]
    assert found["join_ms"] > 0
    assert found["kill_ms"] > 0
    assert 10 < found["rss_mb"] < 100
    assert found["idle_percent"] >= 0


@pytest.mark.sockets
@pytest.mark.parametrize("kind", [BarePeer, BundledBarePeer])
def test_the_floor_of_a_call_is_measured(kind: type[BarePeer]) -> None:
    for seconds in (0.5, 5.0):  # a busy machine may answer nothing in so short a time
        plan = replace(PLAN, callers=(1, 4), seconds=seconds, warm_up=0.1)
        found = trio.run(measures.all_calls, plan, kind(), case_of(plan, "calls"), "test-floor")
        rates = [found[f", {n} callers"]["calls_per_s"] for n in (1, 4)]
        if min(rates) > 0:
            break
    assert min(rates) > 0, found


@pytest.mark.sockets
@pytest.mark.parametrize("kind", [NatsPeer, RedisPeer, CorosyncPeer])
def test_messages_of_a_library_with_a_server_come_once_each(kind: type[Any]) -> None:
    try:
        peer = kind()
    except missing.PeerMissing as error:
        pytest.skip(str(error))
    # A busy machine may deliver nothing within a shorter time, and the bench refuses such a case.
    plan = replace(PLAN, members=(2,), seconds=3.0, warm_up=0.1)
    found = trio.run(measures.one_messages, plan, peer, case_of(plan, "messages"), "test-server")
    assert found[""]["delivered_per_s"] > 0
    assert found[""]["cpu_us"] > 0
