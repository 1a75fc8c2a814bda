"""``jgroups-py buckets``: planning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SEATS = """\
name: seats
buckets: 9
nodes:
  n1: {fails_with: rack-a, buckets: 6, masters: 5}
  n2: {fails_with: rack-b, buckets: 6, masters: 5}
  n3: {fails_with: rack-c, buckets: 6, masters: 5}
"""


@pytest.fixture
def file(deployment: Any) -> str:
    return str(deployment(SEATS))


def test_validate_reports_mistakes_and_notes(file: str, run: Any) -> None:
    assert run("validate", "--strict", file) == (
        0,
        f"{file}: 9 buckets on 3 nodes can be placed\n",
        "",
    )
    Path(file).write_text(SEATS.replace("masters: 5", "masters: 4"))
    code, out, _ = run("validate", file)
    assert code == 0 and "! after the loss of node n1 node n" in out
    assert run("validate", "--strict", file)[0] == 1
    Path(file).write_text(SEATS.replace("buckets: 9", "buckets: 10"))
    code, out, err = run("validate", file)
    assert (code, out) == (2, "")
    assert f"{file}:2:1: buckets: 10 pairs are 20 copies" in err and "at most 9 are possible" in err


def test_init_shows_the_plan_and_writes_it(file: str, tmp_path: Path, run: Any) -> None:
    out_file = tmp_path / "plan.json"
    code, out, _ = run("init", file, "--json", str(out_file))
    assert code == 0 and out.startswith("seats: 9 buckets, 3 index copies of which 2 decide\n")
    assert "n1    rack-a      manager index router proxies  3 of 5   6 of 6  0-1 6 (2 4 8)" in out
    plan = json.loads(out_file.read_text())
    assert plan["placement"]["0"] == ["m/n1", "m/n2"] and len(plan["placement"]) == 9
    assert [len(node["masters"]) for node in plan["nodes"]] == [3, 3, 3]
    assert plan["index_copies"] == ["i/n1", "i/n2", "i/n3"] and plan["findings"] == []


def test_long_lists_are_cut_for_people(file: str, run: Any) -> None:
    Path(file).write_text("name: a\nbuckets: 3000\nnodes: {n1: , n2: , n3: }\n")
    code, out, _ = run("init", file)
    assert code == 0 and " ... (" in out and max(map(len, out.splitlines())) < 250
