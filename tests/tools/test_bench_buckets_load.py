"""The load bench of the bucket store: real nodes and a client process; what the client takes for a whole answer."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

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


@pytest.mark.parametrize("given", ["buckets", "buckets:1", "buckets:x", "redis:2", "other", ""])
def test_an_unknown_peer_is_refused(given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="none of buckets:2"):
        buckets_load.peers_of(given)


@pytest.mark.seed("A16", "A26")
def test_the_table_says_what_a_request_costs_and_percentiles_of_both_kinds() -> None:
    """Efficiency: twice the nodes answer twice as much when a request costs the same CPU time."""
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
def test_two_nodes_are_loaded(tmp_path: Path) -> None:
    out = tmp_path / "load.json"
    given = ["--peers", "buckets:2", "--rate", "50", "--seconds", "1", "--json", str(out)]
    assert buckets_load.main(given) == 0
    (row,) = json.loads(out.read_text())["buckets:2"]
    assert row["late"]["p50"] > 0 and row["wait_us"] > 0 and row["client_wait_us"] >= 0
    assert row["requests"] >= 99 and row["wrong"] == 0 and row["cpu_us"] > 0
    assert 0 < row["changes"]["p50"] <= row["changes"]["p99.9"]
