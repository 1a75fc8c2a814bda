"""The worst cases that ``validate`` computes are not exceeded by simulated faults (``make bounds``: thousands of them)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jgroups_py.config import detection_time
from jgroups_py.tools.cli import run

FEW = "4"


@pytest.mark.parametrize(
    ("what", "stack"),
    [("detection", "udp.xml"), ("detection", "tcp.xml"), ("take-over", "relay-udp.xml")],
)
def test_no_simulated_fault_takes_longer_than_the_worst_case(
    what: str, stack: str, tmp_path: Path
) -> None:
    out = tmp_path / "bounds.json"
    few = FEW if what == "detection" else "2"
    args = ["dev", "bounds", "--of", what, stack, "--faults", few, "--json", str(out)]
    assert run(args) == 0
    found = json.loads(out.read_text())
    assert [kind["kind"] for kind in found["kinds"]] == ["crash", "vanish", "pause"]
    for kind in found["kinds"]:
        assert kind["exceeded"] == 0 and 0 < kind["median_s"] <= kind["max_s"] <= kind["bound_s"]


def test_a_bound_that_is_too_low_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(detection_time, "TRIPS", 2)
    assert run(["dev", "bounds", "--faults", "3", "--latency", "5ms"]) == 1
    assert "after a crash: 3 of 3 took longer than 0.085 s" in capsys.readouterr().out
