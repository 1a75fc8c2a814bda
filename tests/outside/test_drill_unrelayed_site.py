"""Three sites, senders in the second one. With RELAY's default only the first site relays.

An outsider writes the file, runs the command, and reads its exit code and its JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import run_apart, run_here

from jgroups_py import open_channel
from jgroups_py.tools.commands.mperf_ports import free_block

DRILL = """\
name: LON sends
sites:
  NYC: {members: [A, B], stack: relay-tcp.xml}
  LON: {members: [C, D], stack: relay-tcp.xml}
  SFO: {members: [E, F], stack: relay-tcp.xml}
traffic:
  - {site: LON, rate: 20/s, size: 100B, start: 0s, stop: 2s}
settle: 4s
expect: {lost: 0}
"""
SENT = 80


def drill(tmp_path: Path, text: str, *options: str) -> tuple[int, str, dict[str, Any]]:
    """Return exit code, text output, and JSON."""
    file, out = tmp_path / "three.yaml", tmp_path / "out.json"
    file.write_text(text)
    run = run_apart if "--real" in options else run_here
    done = run("drill", str(file), "--json", str(out), *options)
    assert out.exists(), done.out + done.err
    return done.code, " ".join((done.out + done.err).split()), json.loads(out.read_text())


@pytest.mark.parametrize("mode", ["--simulated", pytest.param("--real", marks=pytest.mark.sockets)])
def test_messages_of_a_site_that_does_not_relay_are_lost(tmp_path: Path, mode: str) -> None:
    code, said, result = drill(tmp_path, DRILL, mode)
    assert code == 1
    assert result["verdict"] == "fail"
    assert len(result["lost"]) == result["not_relayed"] == SENT
    assert result["sites"]["LON"]["lost"] == result["sites"]["LON"]["not_relayed"] == SENT
    assert result["primary"] == "NYC"
    assert "primary: NYC" in said
    assert "LON sends, but only NYC relays" in said
    assert "relay: primary only" in said


def test_a_drill_may_say_that_only_the_primary_relays(tmp_path: Path) -> None:
    code, said, result = drill(tmp_path, DRILL + "relay: primary only\n")
    assert (code, result["verdict"], result["lost"]) == (0, "pass", [])
    assert result["not_relayed"] == SENT
    assert "LON sends, but only NYC relays" in said


@pytest.mark.parametrize(
    ("more", "options"), [("primary: all\n", ()), ("", ("--set", "RELAY.primary=all"))]
)
def test_no_delivery_is_missing_when_every_site_relays(
    tmp_path: Path, more: str, options: tuple[str, ...]
) -> None:
    code, said, result = drill(tmp_path, DRILL + more, *options)
    assert (code, result["lost"], result["not_relayed"]) == (0, [], 0)
    assert result["primary"] == "all"
    assert "only NYC relays" not in said


def test_many_seeds_say_so_as_well(tmp_path: Path) -> None:
    code, said, result = drill(tmp_path, DRILL, "--seeds", "1..2")
    assert code == 1
    assert result["failed"] == 2
    assert [run["not_relayed"] for run in result["runs"]] == [SENT, SENT]
    assert "LON sends, but only NYC relays" in said


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("properties", "level", "words"),
    [
        ({"relay.sites": "NYC,LON"}, "WARNING", "primary: NYC, the first of sites; this site, LON"),
        ({"relay.primary": "NYC"}, "INFO", "primary: NYC; this site, LON, does not relay"),
        ({"relay.primary": "LON"}, "INFO", "primary: LON; this site relays to the others"),
        ({}, "INFO", "primary: all; this site, LON, relays to the others"),
    ],
)
async def test_relay_names_the_primary_at_its_start(
    properties: dict[str, str], level: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    port = str(free_block(4))  # no relay of another test is on this bridge
    bridge = {"relay.bridge.port": port, "relay.bridge.hosts": f"127.0.0.1[{port}]"}
    given = {"relay.site": "LON", "relay.bridge.port_range": "0", **bridge, **properties}
    async with open_channel("relay-tcp.xml", cluster="demo", name="A", properties=given):
        said = [
            (r.levelname, r.getMessage()) for r in caplog.records if "primary:" in r.getMessage()
        ]
    assert len(said) == 1
    assert said[0][0] == level
    assert words in said[0][1]
