"""The bench of doors compares the right stacks: each has its door, and ratios are those of one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from jgroups_py.channel.open import configure
from jgroups_py.config.file import load_stack
from jgroups_py.tools.bench.door_stacks import DOORS, STACKS, DoorStacks, doors_of
from jgroups_py.tools.bench.doors import FIGURES, DoorsPlan, markdown, summary

CASES = [(stack, door) for stack in STACKS for door in doors_of(stack)]


@pytest.mark.parametrize(("stack", "door"), CASES)
def test_each_file_is_the_shipped_stack_with_its_door(
    tmp_path: Path, stack: str, door: str
) -> None:
    file = DoorStacks(tmp_path).file(stack, door)
    config, _ = configure(file, None, {}, {})
    names = [protocol.short_name for protocol in config]
    added = [name for name in names if name == door.split()[0]]
    assert [n for n in names if n not in added] == [p.short_name for p in load_stack(stack)]
    assert len(added) == (door not in ("none", "TLS"))
    transport = {attribute.key: attribute.text for attribute in config.protocols[0].attributes}
    assert (transport.get("tls.enabled") == "true") == (door == "TLS")


def test_a_ratio_is_the_median_of_those_of_each_run() -> None:
    def run(none: float, seal: float) -> dict[tuple[str, int, str], dict[str, float]]:
        return {
            ("udp.xml", 100, "none"): dict.fromkeys(FIGURES, none),
            ("udp.xml", 100, "SEAL"): dict.fromkeys(FIGURES, seal),
        }

    none, seal = summary([run(10, 11), run(100, 130), run(20, 24)])
    assert none["cpu_us"] == {"min": 10, "median": 20, "max": 100, "ratio": 1}
    assert seal["cpu_us"] == {"min": 11, "median": 24, "max": 130, "ratio": 1.2}
    table = markdown({"machine": "m", "runs": 3, "seconds": 1, "rows": [none, seal]})
    assert "| udp.xml | 100 | SEAL | 24.0 (11.0-130), 1.20 |" in table


def test_without_none_there_is_no_ratio() -> None:
    (row,) = summary([{("tcp.xml", 1, "TLS"): dict.fromkeys(FIGURES, 5.0)}])
    assert "ratio" not in row["cpu_us"]


def test_only_connections_have_tls() -> None:
    cases = list(DoorsPlan(sizes=(100,)).cases())
    assert ("tcp.xml", 100, "TLS") in cases and ("udp.xml", 100, "TLS") not in cases
    assert len(cases) == 2 * len(DOORS) - 1
