"""Drills in virtual time, on a thin stack of real protocols."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.judge.verdict import judge
from jgroups_py.drill.run.resolve import DrillError
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.drill.run.simulated import _link, run_simulated
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.testing.sim import Member
from jgroups_py.tools.cli import run as command

STACK = """\
<config>
    <SHARED_LOOPBACK bind_addr="${jgroups.bind_addr}"/>
    <SHARED_LOOPBACK_PING/>
    <FD_ALL3 timeout="2s" interval="0.5s"/>
    <VERIFY_SUSPECT2 timeout="0.5s"/>
    <pbcast.NAKACK2 xmit_interval="0.1s"/>
    <UNICAST3 xmit_interval="0.1s"/>
    <pbcast.GMS join_timeout="0.5s"/>
</config>
"""
DRILL = """\
name: thin
sites:
  NYC: {members: [E, D, C], stack: thin.xml}
network: {latency: 0.2ms..2ms, jitter: 0.1ms, loss: 1%}
traffic:
  - {site: NYC, rate: 20/s, size: 100B, stop: 12s}
timeline:
  - {at: 2s, crash: NYC.relay}
  - {at: 6s, restart: NYC.E}
  - {at: 9s, pause: NYC.D, for: 1s}
settle: 3s
expect: {lost_inside: 0, duplicated: 0, out_of_order: 0, detection: <= 4s}
"""


@pytest.fixture
def run(tmp_path: Path) -> Any:
    (tmp_path / "thin.xml").write_text(STACK)

    def go(text: str = DRILL, seed: int = 1, settings: Any = (), check: bool = True) -> Any:
        drill = loader.loads(text, str(tmp_path / "d.yaml"))
        planned = plan.build(drill, seed, [plan.parse_setting(s) for s in settings])
        return judged.run(planned, partial(run_simulated, check=check), NoProgress())

    return go


def test_a_drill_runs_in_virtual_time_and_is_judged(run: Any) -> None:
    outcome = run()
    assert outcome.verdict.passed
    assert outcome.run.mode == "simulated"
    assert outcome.result["virtual_s"] == pytest.approx(15, abs=3)
    assert outcome.result["sites"]["NYC"]["sent"] == pytest.approx(720 - 80 - 20, abs=3)
    # E is away for 4 s, then comes back as a new process; D is paused for 1 s
    origins = {r.origin for r in outcome.run.records() if r.event == "deliver"}
    assert origins == {"E#1", "D#1", "C#1", "E#2"}
    assert [r.event for r in outcome.run.records() if r.event in ("crash", "restart", "pause")] == [
        "crash",
        "restart",
        "pause",
    ]


def test_records_are_in_the_order_of_time_and_sends_stand_before_their_deliveries(run: Any) -> None:
    records = list(run().run.records())
    assert [r.t for r in records] == sorted(r.t for r in records)
    sent: dict[str, int] = {}
    for record in records:
        if record.event == "send":
            sent[record.origin] = record.seqno + record.messages - 1
        elif record.event == "deliver":
            assert record.seqno + record.messages - 1 <= sent[record.origin]


def test_a_message_dropped_on_its_way_to_the_application_is_found(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver = Member.deliver
    dropped: list[Any] = []

    def drop_one(self: Any, batch: Any) -> None:
        if self.name == "C" and len(batch.payloads) == 1 and self.world.now > 5 and not dropped:
            dropped.append(bytes(batch.payloads[0]))
            return
        deliver(self, batch)

    monkeypatch.setattr(Member, "deliver", drop_one)
    outcome = run()
    assert not outcome.verdict.passed
    assert [[str(who) for who in f.at] for f in outcome.verdict.lost_inside] == [["NYC.C#1"]]
    again = judge(outcome.evidence, primary="NYC", grace=1.0)
    assert again.lost_inside == outcome.verdict.lost_inside


def test_an_event_on_a_member_that_is_gone_names_the_line(run: Any) -> None:
    text = DRILL.replace("{at: 6s, restart: NYC.E}", "{at: 6s, crash: NYC.E}")
    with pytest.raises(DrillError, match=r"d\.yaml:9: NYC\.E is not there"):
        run(text)


def test_a_setting_that_does_not_fit_is_an_error_before_the_start(run: Any) -> None:
    with pytest.raises(ConfigError, match=r"--set.*"):
        run(settings=["FD_ALL3.timeoutt=3s"])
    with pytest.raises(ConfigError):
        run(settings=["NOSUCH.timeout=3s"])


def test_a_start_that_takes_too_long_cannot_be_run(run: Any) -> None:
    with pytest.raises(DrillError, match="not every member has its full view"):
        run(DRILL.replace("loss: 1%", "loss: 100%"))


def test_the_same_seed_gives_the_same_log_in_any_process(tmp_path: Path) -> None:
    (tmp_path / "thin.xml").write_text(STACK)
    file = tmp_path / "d.yaml"
    file.write_text(DRILL)
    digests = []
    for hash_seed in ("1", "2"):
        out = tmp_path / f"{hash_seed}.jsonl"
        args = ["-m", "jgroups_py.tools", "drill", str(file), "--seed", "5", "--log", str(out)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run([sys.executable, *args], check=True, env=environment)
        digests.append(hashlib.sha256(out.read_bytes()).hexdigest())
        assert json.loads(out.read_text().splitlines()[0])["event"] == "join"
    assert digests[0] == digests[1]


SITES = """\
name: two sites
sites:
  NYC: {members: [E, D, C]}
  SFO: {members: [T, S]}
network: {latency: 0.5ms, jitter: 0.5ms, loss: 0.5%}
traffic:
  - {site: NYC, rate: 20/s, size: 100B, stop: 6s}
timeline:
  - {at: 2s, crash: NYC.relay}
settle: 4s
expect: {lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0, takeover: <= 30s}
"""


def test_two_sites_hand_over_and_lose_nothing(run: Any) -> None:
    outcome = run(SITES)
    assert outcome.verdict.passed, outcome.result
    assert outcome.result["sites"]["NYC"]["relayed"] > 0
    assert outcome.result["sites"]["NYC"]["replayed"] > 0
    events = {r.event for r in outcome.run.records()}
    assert {"relay", "replay", "trim", "suspect", "buffer"} <= events


@pytest.mark.parametrize(("member", "site"), [("S", "SFO"), ("T", "SFO")])
def test_a_fault_planted_in_relay_is_found_by_the_judge(
    run: Any, monkeypatch: pytest.MonkeyPatch, member: Any, site: Any
) -> None:
    original = RELAY._deliver
    planted: list[Any] = []

    def forgetful(self: Any, *args: Any) -> None:
        if self.machine.name != member or self.now < 3 or planted:
            return original(self, *args)
        passed, self.pass_up = self.pass_up, lambda batch: planted.append(len(batch))
        try:
            return original(self, *args)
        finally:
            self.pass_up = passed

    monkeypatch.setattr(RELAY, "_deliver", forgetful)
    outcome = run(SITES, check=False)  # otherwise the simulator's oracle finds it first
    assert planted
    assert not outcome.verdict.passed
    assert len(outcome.verdict.lost) == planted[0]
    assert {str(who) for f in outcome.verdict.lost for who in f.at} == {f"{site}.{member}#1"}
    assert len(outcome.verdict.lost_inside) == planted[0]


def test_many_seeds_run_on_all_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thin.xml").write_text(STACK)
    file = tmp_path / "d.yaml"
    file.write_text(DRILL)
    assert command(["drill", str(file), "--seeds", "1..3", "--json", "-"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [r["seed"] for r in result["runs"]] == [1, 2, 3]
    assert result["passed"] == 3


def test_the_tcp_stack_finds_its_members_in_the_simulator(run: Any) -> None:
    text = SITES.replace("]}", "], stack: relay-tcp.xml}")
    assert run(text).verdict.passed


def test_one_site_on_a_stack_with_relay_needs_no_other_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "alone.yaml"
    file.write_text("sites: {ONE: {members: [A, B]}}\nsettle: 1s\nexpect: {lost: 0}\n")
    assert command(["drill", str(file)]) == 0, capsys.readouterr().err


def test_a_relay_that_leaves_is_gone_from_the_bridge_at_once(run: Any) -> None:
    """The relay is not suspected first: its successor joins an orderly bridge and goes on."""
    outcome = run(
        """\
name: leaving
sites:
  NYC: {members: [E, D], stack: relay-udp.xml}
  SFO: {members: [T, S, U], stack: relay-udp.xml}
bridge: {stack: relay-bridge-tcp.xml, latency: 40ms}
traffic:
  - {site: NYC, rate: 50/s, size: 100B, stop: 4s}
timeline:
  - {at: 1s, leave: SFO.relay}
settle: 3s
expect: {lost: 0, duplicated: 0, out_of_order: 0}
"""
    )
    assert outcome.verdict.passed, outcome.result
    bridge = [r for r in outcome.run.records() if r.event == "view" and r.detail.get("bridge")]
    alone = next(r for r in bridge if r.site == "NYC" and r.t > 1 and len(r.detail["members"]) == 1)
    again = next(r for r in bridge if r.t > alone.t and len(r.detail["members"]) == 2)
    assert alone.t < 1.3
    assert again.t < 2.0


def test_no_latency_is_none_and_not_the_default(tmp_path: Path) -> None:
    (tmp_path / "thin.xml").write_text(STACK)
    for text, expected in (("latency: 0ms, ", 0.0), ("", 0.04)):
        drill = loader.loads(DRILL.replace("latency: 0.2ms..2ms, ", text), str(tmp_path / "d.yaml"))
        assert _link(plan.build(drill, 1).network, 0.04).latency == expected
