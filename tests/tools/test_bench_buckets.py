"""The bucket store's benchmark: it runs, loses no entry, and prints percentiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jgroups_py.tools.bench import bucket_exchange, buckets, latencies


@pytest.mark.timeout(240)
def test_the_bench_moves_buckets_up_and_down_under_load(tmp_path: Path) -> None:
    out = tmp_path / "bench" / "buckets.json"
    arguments = ["--entries", "40", "--rate", "100", "--seconds", "0.1", "--rounds", "1"]
    assert buckets.main([*arguments, "--json", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["moves"] == 48 and found["lost"] == 0
    assert set(found["phases"]) == {"quiet", "up", "down"}


def test_percentiles_are_of_the_sorted_times() -> None:
    took = [number / 1000 for number in range(1000, 0, -1)]
    assert latencies.figures(took) == {
        "requests": 1000,
        "p50": 501.0,
        "p99": 991.0,
        "p99.9": 1000.0,
        "p100": 1000.0,
    }
    assert latencies.figures([])["p99"] == 0.0


@pytest.mark.sockets
@pytest.mark.timeout(240)
def test_two_versions_in_processes_exchange_objects_under_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "exchange.json"
    arguments = ["--entries", "300", "--rate", "50", "--seconds", "0.2"]
    assert bucket_exchange.main([*arguments, "--json", str(out)]) == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["moves"] == 4 * bucket_exchange.BUCKETS and found["lost"] == 0
    assert found["finished"] and len(found["bytes"]) == 5
    both = [found["phases"][f"up {which}"]["requests"] for which in ("moving", "beside")]
    assert sum(both) == found["phases"]["up"]["requests"] and min(both) > 0
    shown = capsys.readouterr()
    assert "exchange: 0 s, starting" in shown.err  # also without a terminal
    assert "requests to the bucket that moved" in shown.out
    locks = sum(sum(counts.values()) for counts in found["locks"].values())
    assert f"locks of {locks} moves: half at most" in shown.out and locks >= found["moves"]
    assert 0 < max(found["longest_lock_ms"].values()) < 60_000


@pytest.mark.sockets
def test_an_exchange_that_takes_too_long_says_how_far_it_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "exchange.json"
    assert bucket_exchange.main(["--entries", "10", "--limit", "0.05", "--json", str(out)]) == 3
    found = json.loads(out.read_text(encoding="utf-8"))
    assert not found["finished"] and found["lost"] is None
    assert found["ended"].startswith("not finished in 0.05 s: starting")
    shown = capsys.readouterr()
    assert found["ended"] in shown.err and "what is lost is not known" in shown.out
