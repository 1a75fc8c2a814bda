"""mperf: figures, faults, and two runs that do not disturb each other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import run_here

from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands.mperf_load import HEAD, SEQNO_BITS, SIZE_MIN, Payloads
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.commands.mperf_run import Check, MperfPlan, has_fault, summary

KEYS = [
    "stack",
    "members",
    "senders",
    "size",
    "seconds",
    "sent",
    "delivered",
    "duplicates",
    "out_of_order",
    "lost",
    "per_member",
    "delivered_per_s_per_member",
    "least_window_per_s",
    "view_changes",
    "mb_per_s_per_member",
    "cpu_us_per_message",
]


Start = Callable[..., subprocess.Popen[str]]
PATIENCE = 200.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""
PATIENT = ["--set", "GMS.join_timeout=20s"]
"""The second member waits long for an answer. Otherwise it would found a group of its own when the first one is not run for a second, and
groups merge after half a minute."""


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a command. It is killed at the end; its members leave when their standard inputs end."""
    with ExitStack() as cleanup:

        def started(*options: str) -> subprocess.Popen[str]:
            run = subprocess.Popen(
                [sys.executable, "-m", "jgroups_py.tools", "mperf", *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            cleanup.enter_context(run)
            cleanup.callback(run.kill)
            return run

        yield started


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_two_runs_at_once_count_every_message(stack: str, multicast: object, start: Start) -> None:
    options = ["--stack", stack, "--members", "2", "--size", "200", "--for", "600ms", "--json"]
    options += PATIENT
    runs = [start(*options), start(*options, "--senders", "1")]
    for run, senders in zip(runs, (2, 1), strict=True):
        out, err = run.communicate(timeout=PATIENCE)
        assert run.returncode == 0, err
        result = json.loads(out)
        assert list(result) == KEYS
        assert (result["stack"], result["members"], result["senders"]) == (stack, 2, senders)
        assert (result["size"], result["seconds"]) == (200, 0.6)
        assert result["sent"] > 0
        assert result["delivered"] == 2 * result["sent"]
        assert result["duplicates"] == result["out_of_order"] == result["lost"] == 0
        assert [set(one) for one in result["per_member"]] == [{"name", "delivered_per_s"}] * 2
        assert err == "", "progress is for terminals"


def test_mperf_leaves_when_interrupted(multicast: object, start: Start) -> None:
    run = start("--members", "2", "--for", "60s")
    children: list[psutil.Process] = []
    deadline = time.monotonic() + PATIENCE
    while len(children) < 2 and run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        children = psutil.Process(run.pid).children()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=PATIENCE)
    assert len(children) == 2, err
    assert run.returncode == 130, err
    assert err == "", "members that do not leave are killed, with a warning"
    assert not any(child.is_running() for child in children)


def test_a_member_that_dies_is_named(tmp_path: Path, start: Start) -> None:
    stack = tmp_path / "bad.xml"
    stack.write_text(
        '<config><UDP bind_addr="192.0.2.1" insecure="true"/><PING/><NAKACK2/><UNICAST3/><STABLE/><GMS/></config>'
    )
    run = start("--stack", str(stack), "--members", "2", "--for", "1s")
    _, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 2, err
    last = err.strip().splitlines()[-1]
    assert last.startswith("jgroups-py: member M1 ended early: ")
    assert "192.0.2.1" in last


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (["--members", "2", "--senders", "3"], "3 senders, but 2 members"),
        (["--size", "4"], "--size must be at least 8"),
        (["--for", "0s"], "more than 0"),
        (["--for", "10"], "has no unit"),
        (["--size", "big"], "big"),
    ],
)
def test_a_benchmark_that_cannot_be_measured_is_refused(option: list[str], problem: str) -> None:
    code, _, err = run_here("mperf", *option)
    assert code == 2
    assert problem in err
    assert err.count("\n") == 1


# --- the check itself


def payloads(sender: int, *seqnos: int) -> list[bytes]:
    return [HEAD.pack(sender << SEQNO_BITS | seqno) + b"rest" for seqno in seqnos]


def faults(check: Check) -> tuple[int, int, int]:
    return check.total, check.duplicates, check.out_of_order


def test_payloads_begin_with_their_numbers() -> None:
    check = Check(2)
    for size in (SIZE_MIN, 100):
        made = Payloads(size, 3)
        check.take(made.beginning((1 << SEQNO_BITS) + check.total))
        assert [len(one) for one in made.beginning(1 << 24)] == [size] * 3
    assert faults(check) == (6, 0, 0)


def test_the_check_counts_messages_in_order() -> None:
    check = Check(2)
    check.take(payloads(0, 0, 1, 2))
    check.take(payloads(1, 0))
    check.take([memoryview(p) for p in payloads(0, 3, 4)])
    assert faults(check) == (6, 0, 0)
    assert check.delivered == [5, 1]


@pytest.mark.parametrize(
    ("seqnos", "expected"),
    [
        ((0, 1, 1, 2), (3, 1, 0)),
        ((0, 2, 1, 3), (4, 0, 1)),
        ((0, 1, 3, 4), (4, 0, 0)),
        ((1, 0, 0), (2, 1, 1)),
    ],
)
def test_the_check_finds_faults_within_a_run(
    seqnos: tuple[int, ...], expected: tuple[int, int, int]
) -> None:
    check = Check(1)
    check.take(payloads(0, *seqnos))
    assert faults(check) == expected


def test_lost_messages_are_a_fault() -> None:
    done: list[dict[str, Any]] = [
        {"name": "M1", "sent": 5, "delivered": 5, "rates": [1.0, 9.0, 2.0]},
        {"name": "M2", "sent": 0, "delivered": 4, "rates": [3.0, 5.0, 4.0]},
    ]
    for one, lost in zip(done, (0, 1), strict=True):
        one.update(duplicates=0, out_of_order=0, lost=lost, cpu_s=0.001)
    result = summary(MperfPlan("s", 2, 1, 1000, 3.0, "c"), done)
    assert result["lost"] == 1
    assert has_fault(result)
    assert [one["delivered_per_s"] for one in result["per_member"]] == [2, 4]
    assert result["delivered_per_s_per_member"] == 3
    assert result["cpu_us_per_message"] == 400


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml", "relay-udp.xml"])
def test_private_attributes_fit_the_stack(stack: str) -> None:
    config = load_stack(stack, properties={"relay.site": "X"})
    one, two = private_attributes(config, 3), private_attributes(config, 3)
    assert one
    assert one.keys() == two.keys()
