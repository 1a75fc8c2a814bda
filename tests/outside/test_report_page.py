"""The results that an operator finds after a drill: in the JSON, and on the page, which is one offline file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from commands import run_apart, run_here

DRILL = """\
name: NYC loses its relay
sites:
  NYC: {members: [E, D, C], stack: relay-tcp.xml}
  SFO: {members: [T, S], stack: relay-tcp.xml}
bridge: {latency: 20ms}
traffic:
  - {site: NYC, rate: 50/s, size: 1KB, start: 0s, stop: 5s}
timeline:
  - {at: 2s, crash: NYC.relay}
settle: 5s
expect: {lost: 0, takeover: <= 5s}
"""
QUIET = """\
sites:
  NYC: {members: [E, D], stack: relay-tcp.xml}
  SFO: {members: [T], stack: relay-tcp.xml}
traffic:
  - {site: NYC, rate: 50/s, stop: 2s}
settle: 3s
expect: {lost: 0}
"""
CACHE = """\
workload: cache
sites:
  NYC: {members: [A, B, C], stack: tcp.xml, cache: buddy.xml}
traffic:
  - {site: NYC, rate: 20/s, keys: 10, read_ratio: 50%, value_size: 100B, stop: 6s}
timeline:
  - {at: 2s, crash: NYC.C}
settle: 5s
expect: {lost: 0}
"""


def drill(folder: Path, text: str, *options: str) -> tuple[dict[str, Any], str]:
    """Return the JSON and the page."""
    file, out, page = folder / "d.yaml", folder / "out.json", folder / "out.html"
    file.write_text(text)
    words = [str(file), "--json", str(out), "--report", str(page), *options]
    run = run_apart if "--real" in words or "--seeds" in words else run_here
    done = run("drill", *words)
    assert done.code == 0, done.out + done.err
    return json.loads(out.read_text()), page.read_text()


def offline(page: str) -> bool:
    return not re.search(r"(?:src|href)\s*=|https?://(?!www\.w3\.org/2000/svg)|@import|url\(", page)


@pytest.mark.parametrize("mode", ["--simulated", pytest.param("--real", marks=pytest.mark.sockets)])
def test_the_figures_of_an_operator_are_in_the_json_and_on_the_page(
    tmp_path: Path, mode: str
) -> None:
    result, page = drill(tmp_path, DRILL, mode)
    assert 0 < result["rto_s"] <= max(result["takeover_s"]) < result["rto_s"] + 0.1
    assert result["rpo_s"] is None
    assert 0 < result["latency_p50_s"] < result["latency_p99_s"] <= result["rto_s"] + 1
    assert result["lag_s"] >= result["latency_p99_s"] * 0.9
    assert 0 < result["buffer_percent"] < 100
    assert [r["event"] for r in result["recoveries"]] == ["crash"]
    assert offline(page)
    for words in ("RTO", "no site failed as a whole", "Latency p50 / p99", "Lag at most"):
        assert words in page
    assert "limit: 200,000 messages or 100 MB" in page
    assert "log scale" in page
    assert "crash NYC.E" in page
    assert re.search(r"NYC has view \[D\|\d+\] \(2\) \[D, C\]", page)
    assert "NYC.D was relay" in page
    assert "SFO.T was relay" not in page
    assert "partition" not in page.partition("<svg viewBox")[0].partition("</style>")[2]


def test_without_a_fault_there_is_no_rto_and_no_rpo(tmp_path: Path) -> None:
    result, page = drill(tmp_path, QUIET)
    assert (result["rto_s"], result["rpo_s"], result["recoveries"]) == (None, None, [])
    assert page.count('<span class="value">n/a</span>') == 2


def test_a_drill_of_caches_has_them_too(tmp_path: Path) -> None:
    result, page = drill(tmp_path, CACHE)
    assert result["rto_s"] > 0
    assert 0 < result["latency_p50_s"] <= result["latency_p99_s"]
    assert "an application waited and had no write done" in page
    assert "Requests a second" in page
    assert "relay: sends" not in page


def test_many_seeds_have_a_page_with_the_distribution_and_the_worst(tmp_path: Path) -> None:
    result, page = drill(tmp_path, DRILL, "--seeds", "1..4")
    assert offline(page)
    assert "4 seeds, simulated: 4 passed" in page
    rto = {run["seed"]: run["rto_s"] for run in result["runs"]}
    row = re.search(r"<td>RTO</td><td>[^<]*</td><td>(\d+)</td><td><code>([^<]*)</code>", page)
    assert row is not None
    assert rto[int(row[1])] == max(rto.values())
    assert row[2].endswith(f"--simulated --seed {row[1]}")
    for words in ("Take-over", "Lag at most", "The worst seeds"):
        assert words in page
