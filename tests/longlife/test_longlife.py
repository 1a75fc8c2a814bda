"""Short long runs: all checks pass; a planted leak is found; bad arguments are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.drill.soak import plan as plans
from jgroups_py.protocols.failure.fd_all3 import FD_ALL3
from jgroups_py.tools.cli import run
from jgroups_py.values.events import Event, ViewChange

SHORT = ["longlife", "--for", "120.24s", "--cycle", "30s", "--sites", "2", "--members", "3"]
"""Run four cycles."""


def live(tmp_path: Path) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "out.json"
    code = run([*SHORT, "--json", str(out), "--plot", str(tmp_path / "out.svg")])
    return code, json.loads(out.read_text())


def test_members_churn_come_back_and_everything_arrives(tmp_path: Path) -> None:
    _, result = live(tmp_path)
    assert result["problems"] == []
    assert result["cycles"] == len(result["samples"]) == 4
    assert sum(result["faults"].values()) >= 8
    assert {"crash", "partition"} <= result["faults"].keys()
    last = result["samples"][-1]["tables"]
    assert last["NAKACK2.senders.present"] == 2 * 3 * 3  # each knows its site
    assert last["global:NAKACK2.senders.present"] == 2 * 2  # the relays know each other
    assert "<path" in (tmp_path / "out.svg").read_text()


def test_a_table_that_grows_with_each_view_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = FD_ALL3.event_down

    def leaking(self: FD_ALL3, event: Event) -> None:
        if isinstance(event, ViewChange):
            seen = self.__dict__.setdefault("_seen", {})
            seen.update({(event.view.id, n): None for n in range(100)})
        right(self, event)

    monkeypatch.setattr(FD_ALL3, "event_down", leaking)
    code, result = live(tmp_path)
    assert code == 1
    # a1 was never restarted; restarted processes no longer have the leak.
    assert "a1#1 FD_ALL3._seen" in [c["name"] for c in result["grown"]]
    assert "GREW a1#1 FD_ALL3._seen" in capsys.readouterr().out


def test_each_six_cycles_have_the_same_kinds_of_events() -> None:
    plan = plans.make(24, 5, 3, 5, plans.SIMULATED, plans.SIMULATED_SETTINGS)
    assert plan.cycles == 144

    def kinds(first: int) -> list[str]:
        cycles = [plan.cycle(n) for n in range(first, first + 6)]
        return sorted(event.fault for cycle in cycles for event in cycle.events)

    assert kinds(0) == kinds(6) and len(kinds(0)) == len(plans.DECK)
    assert plan.cycle(3) == plan.cycle(3) != plan.cycle(9)


def test_no_fault_ends_an_elder_and_each_is_over_before_the_calm() -> None:
    plan = plans.make(24, 5, 3, 5, plans.SIMULATED, plans.SIMULATED_SETTINGS)
    for cycle in map(plan.cycle, range(plan.cycles)):
        assert all(at <= cycle.calm_at + 1e-6 for at, _ in cycle.back)
        for event in cycle.events:
            assert cycle.start <= event.at < cycle.calm_at
            assert event.end <= cycle.calm_at + 1e-6
            if event.fault != "pause":
                for target in event.targets:
                    assert (target.site, target.what) not in plan.elders
                    assert target.site != "AAA" or target.what not in ("relay", None)


@pytest.mark.parametrize(
    "arguments",
    [["--sites", "1"], ["--members", "2"], ["--for", "36s"], ["--for", "0s"], ["--cycle", "1s"]],
)
def test_figures_that_make_no_run_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["longlife", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
