"""detect: real processes, killed. A killed member is out of the view long before a time-out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from jgroups_py.tools import cli
from jgroups_py.tools.commands.detect_run import DetectPlan, summary

RUN = [sys.executable, "-m", "jgroups_py.tools", "detect"]
PATIENT = ("--set", "GMS.join_timeout=30s")
"""A joiner waits long for an answer. Otherwise it would found a group of its own when the others are not run for a second, and groups merge
after half a minute."""


def detect(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *options], capture_output=True, text=True, check=False, timeout=600
    )


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_a_killed_process_is_out_of_everybodys_view_soon(stack: str, multicast: object) -> None:
    # First the coordinator is killed, then another member. The benchmark and the test of twenty
    # members measure how soon.
    done = detect("--stack", stack, *PATIENT, "--kills", "2", "--json", "--goal", "30s")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["kills"] == 2 and result["coordinators"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("members", ["3", "5"])
@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_of_twenty_the_most_are_seen_within_the_aim(
    stack: str, members: str, multicast: object
) -> None:
    done = detect("--stack", stack, *PATIENT, "--members", members, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["median_s"] < 0.2 and result["max_s"] < 1.0, result


def test_a_goal_that_is_missed_is_exit_1(multicast: object) -> None:
    done = detect(*PATIENT, "--members", "2", "--kills", "1", "--goal", "0.01ms")
    assert done.returncode == 1 and "1 of coordinators" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(
    "options", [["--members", "1"], ["--kills", "0"], ["--goal", "soon"], ["--stack", "no.xml"]]
)
def test_wrong_usage_is_one_line_and_exit_2(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["detect", *options]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("jgroups-py: ") and err.count("\n") == 1


def test_the_summary_orders_the_times() -> None:
    found = summary(DetectPlan("x.xml", 3, 4, "c"), [0.4, 0.1, 0.2, 0.3], 2)
    assert (found["min_s"], found["median_s"], found["max_s"]) == (0.1, 0.25, 0.4)
    assert found["p90_s"] == 0.4 and found["times_s"] == [0.4, 0.1, 0.2, 0.3]
