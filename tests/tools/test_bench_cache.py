"""The cache's benchmark: it runs, reads back its puts, and leaves out missing peers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from jgroups_py.tools.bench import cache as bench_cache
from jgroups_py.tools.bench import cache_peers


@pytest.mark.sockets
@pytest.mark.parametrize("members", [2, 3])
def test_puts_and_gets_of_processes_are_measured(members: int) -> None:
    command = [sys.executable, "-m", "jgroups_py.tools.bench.cache", "--no-peers", "--json"]
    command += ["--members", str(members)]
    command += ["--bare", "--runs", "1", "--seconds", "0.2", "--sizes", "100", "--callers", "1,4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["members"] == members
    figures = result["figures"]["jgroups_py"]
    assert [(f["kind"], f["callers"]) for f in figures] == [
        ("put", 1),
        ("put", 4),
        ("get", 1),
        ("get", 4),
    ]
    assert all(f["per_s"] > 0 and f["p50_us"] <= f["p99_us"] for f in figures)
    assert figures[2]["p50_us"] < figures[0]["p50_us"]  # a get asks no other member
    assert 1 < result["bare"]["p50_us"] <= result["bare"]["p99_us"]


def figure(rate: int) -> dict[str, Any]:
    rest = {"per_s": rate, "p50_us": 1e6 / rate, "p99_us": 2e6 / rate, "cpu_us": 1.0}
    return {"kind": "put", "size": 100, "callers": 1, **rest}


def test_the_median_of_runs_and_the_ratio_to_each_peer_are_shown() -> None:
    ours = bench_cache.median_of([[figure(rate)] for rate in (100, 400, 200)])
    assert ours[0]["per_s"] == 200 and ours[0]["rates"] == [100, 400, 200]
    peer = bench_cache.median_of([[figure(400)]])
    shown = bench_cache.text(
        {
            "figures": {"jgroups_py": ours, "redis": peer},
            "bare": {"p50_us": 5000.0, "p99_us": 9000.0},
            "left_out": {"pysyncobj": "not there"},
        }
    )
    assert "as long as the first put: p50 5000 us, p99 9000 us" in shown
    assert " 0.50" in shown and "pysyncobj left out: not there" in shown


def test_a_peer_that_is_not_installed_is_left_out_with_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cache_peers.missing("redis") == (
        "redis is not installed (pip install 'jgroups_py[bench]')"
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "apt install redis-server" in str(cache_peers.missing("redis"))
    assert cache_peers.missing("pysyncobj") is None
