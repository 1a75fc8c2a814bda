"""The bench beside other libraries compares within a run, and names what it could not measure."""

from __future__ import annotations

import importlib.util
import shutil
from typing import Any

import pytest

from jgroups_py.tools.bench.peers import __main__ as bench
from jgroups_py.tools.bench.peers.java import JavaPeer
from jgroups_py.tools.bench.peers.summary import OURS, markdown, summary
from jgroups_py.tools.children import ChildError

PLAN = bench.PeersPlan(("udp.xml",), (1000,), (2, 3), (0, 1), (1,), 1.0, 1.0, 2)


class Peer:
    """A library that is not started: the bench asks for its figures alone."""

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
    assert [peer.name for peer in found] == [OURS]
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
