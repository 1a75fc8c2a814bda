"""Drills with ``--seal``: every packet of the sites and of the bridge is sealed, and the drill is judged as usual."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.file.sealing import keys_of
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.protocols.seal.wire import MAGIC
from jgroups_py.stack.ports import Datagram, Received
from jgroups_py.testing.sim.host import Host
from jgroups_py.tools.cli import run as command
from jgroups_py.tools.commands.drill import replay_command

DRILL = """\
name: two sites
sites:
  NYC: {members: [B, A], stack: relay-udp.xml}
  SFO: {members: [T, S], stack: relay-udp.xml}
bridge: {stack: relay-bridge-tcp.xml, latency: 20ms}
traffic:
  - {site: NYC, rate: 20/s, size: 100B, stop: 2s}
timeline:
  - {at: 1s, crash: NYC.relay}
settle: 3s
expect: {lost: 0, lost_inside: 0, duplicated: 0, out_of_order: 0, takeover: <= 10s}
"""


class Tap:
    """Notes whether the datagrams and connections that reach hosts begin as those of SEAL do."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sealed = 0
        self.clear = 0
        self._connections: dict[Any, None] = {}
        receive = Host.receive

        def noting(host: Host, item: Any) -> None:
            if type(item) is Datagram or (
                type(item) is Received and (host, item.handle) not in self._connections
            ):
                if type(item) is Received:
                    self._connections[host, item.handle] = None
                if item.data[:2] == MAGIC:
                    self.sealed += 1
                else:
                    self.clear += 1
            receive(host, item)

        patch.setattr(Host, "receive", noting)


@pytest.mark.parametrize("seal", [True, False])
def test_every_packet_of_the_sites_and_of_the_bridge_is_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seal: bool
) -> None:
    tap = Tap(monkeypatch)
    drill = loader.loads(DRILL, str(tmp_path / "d.yaml"))
    planned = plan.build(drill, 1, seal=seal)
    outcome = judged.run(planned, judged.runner_of(planned, False), NoProgress())
    assert outcome.verdict.passed
    assert (tap.sealed > 100, tap.clear > 100) == (seal, not seal)
    assert (tap.sealed == 0, tap.clear == 0) == (not seal, seal)


def test_a_run_with_seal_repeats(tmp_path: Path) -> None:
    drill = loader.loads(DRILL, str(tmp_path / "d.yaml"))
    results = []
    for _ in range(2):
        planned = plan.build(drill, 5, seal=True)
        result = judged.run(planned, judged.runner_of(planned, False), NoProgress()).result
        results.append({key: value for key, value in result.items() if key != "wall_s"})
    assert results[0] == results[1]
    assert keys_of(5) == plan.build(drill, 5, seal=True).seal != keys_of(6)


def test_no_key_is_in_the_repr_of_a_plan(tmp_path: Path) -> None:
    planned = plan.build(loader.loads(DRILL, str(tmp_path / "d.yaml")), 1, seal=True)
    assert planned.seal.split()[-1] not in repr(planned)


def test_the_command_says_seal_and_its_replay_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(DRILL.replace("takeover: <= 10s", "takeover: <= 0.001s"))
    assert command(["drill", str(file), "--seal"]) == 1
    shown = capsys.readouterr().out
    assert ", with SEAL)" in shown and "--seal" in shown.partition("replay: ")[2]
    assert "--seal" not in replay_command("f", False, 1, ())
