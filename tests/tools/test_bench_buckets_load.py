"""The load bench of the bucket store: real nodes and a client process; the client recognises complete answers."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.tools.bench import buckets_caller, buckets_load
from jgroups_py.tools.bench.buckets_caller import CallPlan, Memcached, Redis, waited_seconds
from jgroups_py.tools.bench.latencies import PERCENTILES


def plan(**changes: object) -> CallPlan:
    given = {"protocol": "", "ports": [], "rate": 1.0, "seconds": 1.0, "size": 3, **changes}
    return CallPlan(**given)  # type: ignore[arg-type]


def test_answers_of_memcached_are_whole_at_their_end() -> None:
    speaks = Memcached(plan())
    whole = b"VALUE k1 0 3\r\nxxx\r\nEND\r\n"
    assert speaks.store(1) == b"set k1 0 0 3\r\nxxx\r\n" and speaks.read(1) == b"get k1\r\n"
    assert [speaks.is_whole(whole[:n], reads=True) for n in (14, 19, len(whole))] == [
        False,
        False,
        True,
    ]
    assert speaks.found(whole) and not speaks.found(b"END\r\n")
    assert speaks.is_whole(b"STORED\r\n", reads=False) and speaks.stored(b"STORED\r\n")
    assert speaks.is_whole(b"SERVER_ERROR no master\r\n", reads=True)


def test_a_change_of_redis_is_whole_when_the_replica_has_answered() -> None:
    speaks = Redis(plan(confirmed=True))
    assert speaks.store(1).endswith(b"$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n1000\r\n")
    assert not speaks.is_whole(b"+OK\r\n", reads=False)
    assert speaks.is_whole(b"+OK\r\n:1\r\n", reads=False) and speaks.stored(b"+OK\r\n:1\r\n")
    assert not speaks.stored(b"+OK\r\n:0\r\n")
    assert not speaks.is_whole(b"$3\r\n", reads=True) and speaks.is_whole(b"$-1\r\n", reads=True)
    assert speaks.found(b"$3\r\nxxx\r\n") and not speaks.found(b"$-1\r\n")
    alone = Redis(plan())
    assert b"WAIT" not in alone.store(1) and alone.is_whole(b"+OK\r\n", reads=False)


@pytest.mark.parametrize("given", ["buckets", "buckets:0", "buckets:x", "redis:2", "other", ""])
def test_an_unknown_peer_is_refused(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="none of buckets:1"):
        buckets_load.peers_of(given)


@pytest.mark.parametrize("given", ["0", "17", "1,x", "", "-2"])
def test_a_wrong_number_of_nodes_is_refused(given: str) -> None:
    assert buckets_load.nodes_of("1,2,4") == ["buckets:1", "buckets:2", "buckets:4"]
    with pytest.raises(argparse.ArgumentTypeError, match="no number from 1 to 16"):
        buckets_load.nodes_of(given)


@pytest.mark.seed("A16", "A25", "A26")
def test_efficiency_is_the_work_of_a_cpu_second_beside_that_of_the_first_number_of_nodes() -> None:
    def row(a_second: float, cpu_us: float, p99: float) -> dict[str, Any]:
        took = {"p50": 1.0, "p99": p99}
        return {"a_second": a_second, "cpu_us": cpu_us, "reads": took, "changes": took}

    found = {
        "buckets:1": [row(1000.0, 400.0, 5.0)],
        "redis": [row(1.0, 1.0, 1.0)],
        "buckets:4": [row(4000.0, 500.0, 7.0), row(3900.0, 480.0, 9.0), row(3999.0, 800.0, 8.0)],
    }
    one, four = buckets_load.growth(found)
    assert (one["nodes"], one["efficiency"], one["cpu_seconds_for_1000"]) == (1, 1.0, 0.4)
    assert (four["nodes"], four["efficiency"], four["cpu_seconds_for_1000"]) == (4, 0.8, 0.5)
    assert (four["a_second"], four["reads_p99"], four["changes_p50"]) == (3999.0, 8.0, 1.0)
    first, second = buckets_load.growth_text([one, four]).splitlines()
    assert first.startswith("1 node : 1000 requests/s, 0.400 s of CPU for 1,000, efficiency 1.00;")
    assert second.endswith("of reads 1.0 and 8.0 ms, of changes 1.0 and 8.0")


@pytest.mark.seed("A26")
def test_the_table_has_the_cost_of_a_request_and_percentiles_of_both_kinds() -> None:
    took = {f"p{percent:g}": percent / 10 for percent in PERCENTILES}
    own = {"cpu_us": 420.4, "wait_us": 80.0, "client_wait_us": 33.3, "late": {"p99": 1.04}}
    row = {"a_second": 1999.6, "wrong": 2, "reads": took, "changes": took, **own}
    head, line = buckets_load.text({"buckets:2": [row]}).splitlines()
    assert head.split()[:7] == ["peer", "a", "second", "CPU", "us", "wait", "us"]
    assert "reads p99.9" in head and "changes p50" in head
    assert line.split()[:6] == ["buckets:2", "2000", "420", "80", "33", "1.04"]
    assert line.endswith("2 wrong answers")


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux tells it")
def test_the_time_that_threads_wait_for_a_core_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waited_seconds(os.getpid()) > 0
    assert waited_seconds(2**30) == 0.0
    for thread, nanoseconds in (("1", 2_000_000_000), ("2", 500_000_000)):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(f"7 {nanoseconds} 3\n")
    monkeypatch.setattr(buckets_caller, "Path", lambda _: tmp_path)
    assert waited_seconds(1) == 2.5


@pytest.mark.sockets
@pytest.mark.timeout(240)
def test_one_and_two_nodes_are_loaded(tmp_path: Path) -> None:
    """The single node is the remaining one of two."""
    out = tmp_path / "load.json"
    given = ["--nodes", "1,2", "--rate", "50", "--seconds", "1", "--json", str(out)]
    assert buckets_load.main(given) == 0
    told = json.loads(out.read_text())
    for nodes in (1, 2):
        (row,) = told[f"buckets:{nodes}"]
        assert row["late"]["p50"] > 0 and row["wait_us"] > 0 and row["client_wait_us"] >= 0
        assert row["requests"] >= 49 * nodes and row["wrong"] == 0
        assert row["cpu_us"] > 0 and row["client_cpu_us"] > 0
        assert 0 < row["changes"]["p50"] <= row["changes"]["p99.9"]
    assert [line["nodes"] for line in told["growth"]] == [1, 2]
