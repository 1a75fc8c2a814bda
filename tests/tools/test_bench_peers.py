"""The bench beside other libraries compares within a run, and names what it could not measure."""

from __future__ import annotations

import importlib.util
import shutil
import time
from dataclasses import replace
from typing import Any

import pytest
import trio

from jgroups_py.tools.bench.peers import __main__ as bench
from jgroups_py.tools.bench.peers import groups
from jgroups_py.tools.bench.peers.bare import BarePeer
from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.java import JavaPeer
from jgroups_py.tools.bench.peers.summary import OURS, markdown, summary
from jgroups_py.tools.children import ChildError

PLAN = bench.PeersPlan(("udp.xml",), (1000,), (2, 3), (0, 1), (1,), 1.0, 1.0, 2)


class Peer:
    """A library that is not started: the bench asks for its figures alone."""

    measures = frozenset({"messages", "calls", "groups"})

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
    for runs in ([both, alone], [alone, both]):
        found = row(summary(runs), "other")
        assert found["runs"] == 1
        assert found["figures"]["calls_per_s"] == {
            "min": 2,
            "median": 2,
            "max": 2,
            "ours_by_this": 2,
        }


def test_a_peer_that_is_not_here_has_rows_without_figures() -> None:
    rows = summary([{("c", OURS): {"calls_per_s": 1.0}}], [OURS, "absent"])
    assert row(rows, "absent") == {"case": "c", "peer": "absent", "runs": 0, "figures": {}}


def test_no_senders_means_that_all_members_send() -> None:
    cases = [(members, senders) for _, _, members, senders in PLAN.messages()]
    assert cases == [(2, 2), (2, 1), (3, 3), (3, 1)]


def test_the_result_names_libraries_that_are_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    found, missing = bench.peers()
    assert [peer.name for peer in found] == [OURS, BarePeer.name]
    assert any("there is no java" in text for text in missing)
    assert any("pyzmq is not installed" in text for text in missing)


def test_the_result_names_a_case_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def messages(plan: object, peer: Peer, *_: object) -> dict[str, float]:
        if peer.name == "other":
            raise ExceptionGroup("nursery", [ChildError("lost 3, twice 0")])
        if peer.name == "odd":
            raise OSError("no such program")
        return {"delivered_per_s": peer.rate}

    async def calls(plan: object, peer: Peer, *_: object) -> dict[int, dict[str, float]]:
        return {1: {"calls_per_s": peer.rate}}

    monkeypatch.setattr(
        bench, "peers", lambda: ([Peer(OURS, 30), Peer("other", 10), Peer("odd", 1)], [])
    )
    monkeypatch.setattr(bench, "one_messages", messages)
    monkeypatch.setattr(bench, "all_calls", calls)
    result = bench.measure(PLAN)
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
        for peer in ("other", "odd", JavaPeer.name):
            assert f"| udp.xml, 1000 B, {case} | {peer} | - |" in text
    assert f"| udp.xml, 1000 B, 1 callers | {JavaPeer.name} | - |" in text
    result["rows"][0]["runs"] = 1
    assert "(1 of 2 runs) |" in markdown(result)


class Scripted:
    """A member's process that has said its lines already. What it is told is in ``told``."""

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


def test_each_library_is_asked_for_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    async def noted(plan: object, peer: Peer, *case: Any) -> dict[Any, Any]:
        asked.append((peer.name, str(case)))
        return {}

    floor = Peer("floor", 1)
    floor.measures = frozenset({"calls"})
    monkeypatch.setattr(bench, "peers", lambda: ([Peer(OURS, 30), floor], []))
    for name in ("one_messages", "all_calls", "one_group"):
        monkeypatch.setattr(bench, name, noted)
    plan = replace(PLAN, members=(2,), senders=(0,), runs=1, joiners=(1, 8), idle=5.0)
    bench.measure(plan)
    assert [name for name, _ in asked] == [OURS, OURS, "floor", OURS, OURS, OURS]
    cases = [case for _, case in asked[3:]]
    assert [case.rsplit(",", 1)[0] for case in cases] == [
        "('udp.xml', 1, 0.0",
        "('udp.xml', 8, 0.0",
        "('udp.xml', 3, 5.0",
    ]


def test_a_compiler_has_time_to_warm_up() -> None:
    java = object.__new__(JavaPeer)
    assert bench._warm_up(PLAN, java) == 8.0
    assert bench._warm_up(PLAN, BarePeer()) == PLAN.warm_up
    assert bench._warm_up(replace(PLAN, warm_up=20.0), java) == 20.0


@pytest.mark.sockets
def test_a_group_of_real_members_joins_is_idle_and_loses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "SETTLE_SECONDS", 0.1)
    found = trio.run(bench.one_group, PLAN, bench.Ours(), "udp.xml", 2, 0.3, "test-group")
    assert found["join_ms"] > 0
    assert found["kill_ms"] > 0
    assert 10 < found["rss_mb"] < 100
    assert found["idle_percent"] >= 0


@pytest.mark.sockets
def test_the_floor_of_a_call_is_measured() -> None:
    plan = replace(PLAN, callers=(1, 4), seconds=0.5, warm_up=0.1)
    found = trio.run(bench.all_calls, plan, BarePeer(), "udp.xml", 1000, "test-floor")
    assert [found[callers]["calls_per_s"] > 0 for callers in (1, 4)] == [True, True]
