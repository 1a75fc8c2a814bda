"""Drills with processes and real sockets. There are few of them, because they take long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.run.patience import patient
from jgroups_py.drill.run.port_block import GROUP_OFFSET, GUARD_OFFSET
from jgroups_py.drill.run.real import RealDrill
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.tools.cli import run

pytestmark = pytest.mark.sockets

# If the other site's relay stands still for 2 s beside a crash, the take-over takes 8.6 s (in virtual time).
HEAD = """\
name: real
sites:
  NYC: {members: [E, D, C]}
  SFO: {members: [T, S]}
bridge: {latency: 10ms}
network: {loss: 0.2%}
traffic:
  - {site: NYC, rate: 50/s, size: 1KB, stop: 5s}
settle: 6s
expect: {lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0}
"""


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("IP_MULTICAST_IF", "127.0.0.1")

    def go(timeline: str) -> Any:
        drill = loader.loads(HEAD + "timeline:\n" + timeline, str(tmp_path / "d.yaml"))
        planned = plan.build(drill)
        outcome = judged.run(planned, judged.runner_of(planned, True), NoProgress())
        assert not children()
        return outcome

    return go


def children() -> list[psutil.Process]:
    """Return the living members that are children of this process."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if "jgroups_py.drill.run.member" in process.cmdline():
                found.append(process)
    return found


def test_a_relay_that_crashes_loses_nothing(real: Any) -> None:
    outcome = real("- {at: 1s, crash: NYC.relay}\n- {at: 3s, pause: NYC.newest, for: 0.5s}\n")
    assert outcome.verdict.passed, outcome.result
    assert outcome.run.mode == "real"
    assert outcome.result["virtual_s"] is None
    (takeover,) = outcome.result["takeover_s"]
    assert 0 < takeover < 30
    sent: Counter[str | None] = Counter()
    for record in outcome.run.records():
        if record.event == "send":
            sent[record.member] += record.messages
    # Late senders catch up. How many messages E has sent depends on the time of its crash.
    assert sent["D"] == sent["C"] == 250 and sent["E"] < 250
    assert outcome.result["sites"]["NYC"]["sent"] == sent.total()
    assert outcome.result["sites"]["NYC"]["relayed"] > 0


def test_leaving_coming_back_and_a_cut_between_the_sites_lose_nothing(real: Any) -> None:
    outcome = real(
        "- {at: 0.5s, leave: SFO.relay}\n"
        "- {at: 1.5s, restart: SFO.T}\n"
        "- {at: 2s, partition: [[NYC], [SFO]], for: 1s}\n"
    )
    assert outcome.verdict.passed, outcome.result
    events = [r.event for r in outcome.run.records()]
    for event in ("leave", "restart", "partition", "heal"):
        assert events.count(event) == 1
    assert {r.incarnation for r in outcome.run.records() if r.member == "T"} == {1, 2}


def test_a_real_drill_that_cannot_go_on_leaves_nothing_behind(
    real: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(DrillError, match=r"d\.yaml:13: NYC\.E is not there"):
        real("- {at: 0.2s, crash: NYC.relay}\n- {at: 0.5s, crash: NYC.E}\n")
    assert not children()
    assert not list(tmp_path.glob("jgroups-drill-*"))


def test_the_command_runs_a_vanished_relay_for_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IP_MULTICAST_IF", "127.0.0.1")
    file, out = tmp_path / "d.yaml", tmp_path / "d.json"
    file.write_text(
        HEAD.replace("stop: 5s", "stop: 10s") + "  \ntimeline:\n- {at: 0.5s, vanish: NYC.relay}\n"
    )
    assert run(["drill", str(file), "--real", "--json", str(out)]) == 0
    result = json.loads(out.read_text())
    assert 0 < result["detection_s"][0] <= patient(10)
    assert 0 < result["takeover_s"][0] <= patient(30)


def test_a_real_drill_has_longer_to_settle_on_a_busy_machine_and_keeps_to_its_ports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = plan.build(loader.loads(HEAD + "timeline: [{at: 1s, leave: SFO.relay}]\n", "d.yaml"))
    drill = RealDrill(planned, NoProgress(), tmp_path, 20_000)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for average, end in ((1.0, 11.0), (4.0, 17.0), (24.0, 23.0)):
        monkeypatch.setattr(os, "getloadavg", lambda found=average: (found, 0.0, 0.0))
        assert drill.end == end
    ports = [port for _, port in drill._groups.values()]
    assert ports == [20_000 + GROUP_OFFSET, 20_001 + GROUP_OFFSET] and GROUP_OFFSET < GUARD_OFFSET


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_drill_that_is_interrupted_leaves_no_process_behind(tmp_path: Path, number: Any) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(
        HEAD + "timeline:\n- {at: 0.2s, vanish: NYC.newest}\n- {at: 60s, leave: NYC.E}\n"
    )
    command = [sys.executable, "-m", "jgroups_py.tools", "drill", str(file), "--real"]
    environment = {**os.environ, "IP_MULTICAST_IF": "127.0.0.1", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as runner:
        assert runner.stdout is not None and runner.stderr is not None
        said = []
        for line in runner.stdout:
            said.append(line)
            if (
                "vanish NYC" in line
            ):  # that process is stopped, so it would never notice that we leave
                break
        else:
            pytest.fail(f"the drill ended: {said}, {runner.stderr.read()}")
        time.sleep(0.3)
        members = psutil.Process(runner.pid).children()
        assert len(members) == 5
        runner.send_signal(number)
        try:
            runner.wait(patient(20))
        finally:
            runner.kill()
        assert (runner.returncode, runner.stderr.read().strip()) == (128 + number, ""), said
    assert not psutil.wait_procs(members, timeout=20)[1]
    assert not list(tmp_path.glob("jgroups-drill-*"))
