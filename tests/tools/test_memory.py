"""`jgroups-py memory`: a short run of each scenario, and a failing one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from jgroups_py.channel.limits import memory_limits
from jgroups_py.driver import probe_multicast
from jgroups_py.testing.sim import World
from jgroups_py.tools.dev.memory import text

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module", autouse=True)
def _multicast() -> None:
    probe = probe_multicast("127.0.0.1")
    if not probe:
        pytest.skip(probe.why)


def run(*options: str) -> tuple[int, Any, str]:
    command = [sys.executable, "-m", "jgroups_py.tools", "memory", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def rows(result: Any, scenario: str) -> Sequence[dict[str, Any]]:
    (one,) = result["scenarios"]
    assert one["scenario"] == scenario
    assert [row["name"] for row in one["members"]] == ["M1", "M2", "M3"]
    for row in one["members"]:
        assert row["limits"] == sum(limit["bytes"] for limit in row["limit"])
        assert row["allowed"] == row["idle"] + 2 * row["limits"]
        assert row["holds"] == (row["idle"] <= row["peak"] <= row["allowed"])
    assert text(one).count("\n") > 8
    members: list[dict[str, Any]] = one["members"]
    return members


def test_a_reader_that_never_reads_does_no_harm() -> None:
    small = ("--set", "MFC.max_credits=2M", "--set", "UFC.max_credits=2M")
    unread = {"1000": 2 * 2_000_000 // 1000, "100": 2 * 2_000_000 // 100}
    for seconds in ("6", "30"):  # a busy machine needs longer until all credits are used up
        code, result, err = run("--scenario", "reader", "--for", f"{seconds}s", *small)
        assert code == 0, err
        first, second, silent = rows(result, "reader")
        if silent["waiting"] == sum(unread.values()):
            break
    assert silent["waiting"] == sum(unread.values())
    assert first["waiting"] == second["waiting"] == 0
    assert first["send_waits"] and second["send_waits"]
    limits = {(limit["owner"], limit["attribute"]): limit["bytes"] for limit in silent["limit"]}
    assert limits["MFC", "max_credits"] == 3 * 2_000_000
    assert limits["UFC", "max_credits"] == 2 * 2_000_000


def test_a_relay_whose_other_site_never_comes_stays_within_its_memory() -> None:
    small = ("--set", "RELAY.max_bytes=3M")
    for seconds in ("6", "30"):  # a busy machine does not reach the rate of a short run
        code, result, err = run("--scenario", "relay", "--for", f"{seconds}s", *small)
        assert code == 0, err
        if all(row["dropped"] > 0 for row in rows(result, "relay")):
            break
    for row in rows(result, "relay"):
        assert row["dropped"] > 0, "the buffer was never full"
        assert 2_000_000 < row["buffered_bytes"] <= 3_000_000
    relay = rows(result, "relay")[0]["limit"]
    assert {limit["cluster"] for limit in relay} >= {"global"}, "the bridge counts, too"


def test_the_run_of_memory_fails_when_the_limits_do_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limits come from the stack: with lower ones the run fails. They are below the idle size here, because a slow machine
    may need no memory in so short a run."""
    monkeypatch.setenv("PYTHONMALLOC", "malloc")
    code = (
        "import jgroups_py.tools.dev.memory_run as m, jgroups_py.tools.cli as c;"
        "m.FACTOR = -1;"
        "c.main(['memory', '--scenario', 'reader', '--for', '3s', '--json'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["holds"] is False


def test_settings_need_one_scenario() -> None:
    code, _, err = run("--set", "MFC.max_credits=2M")
    assert (code, err.count("\n")) == (2, 1)
    assert "--scenario" in err


def test_limits_follow_the_number_of_members() -> None:
    world = World(1)
    members = [world.start(name, "sim.xml", "c") for name in "AB"]
    world.run_until(lambda: world.views_agree(members), limit=30)
    found = {(x.owner, x.attribute): x.bytes for x in memory_limits(members[0].stack)}
    assert found == {
        ("STABLE", "max_bytes"): 4_000_000,
        ("MFC", "max_credits"): 8_000_000,
        ("UFC", "max_credits"): 4_000_000,
    }
