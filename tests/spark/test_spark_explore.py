"""Seeds as a Spark job: the same rows as without Spark, the worst first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("default"),  # Spark's own
    pytest.mark.timeout(600),
]
DRILL = """
name: small
sites:
  NYC: {members: [C, B, A], stack: relay-udp.xml}
  SFO: {members: [T, S], stack: relay-udp.xml}
bridge: {stack: relay-bridge-tcp.xml, latency: 20ms}
traffic:
  - {site: NYC, rate: 10/s, size: 100B, start: 0s, stop: 2s}
timeline:
  - {at: 0.5s..1.5s, crash: NYC.relay}
settle: 4s
expect: {lost: 0, takeover: <= 30s}
"""


def test_seeds_give_the_same_rows_as_without_spark(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from jgroups_py.drill.file import loader
    from jgroups_py.spark.explore import row_of
    from jgroups_py.tools.cli import run

    file, target = tmp_path / "small.yaml", str(tmp_path / "rows")
    file.write_text(DRILL)
    command = ["spark", "explore", str(file), "--seeds", "1..4", "--to", target]
    capsys.readouterr()
    assert run(command) == 0
    said = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (said["passed"], said["failed"], said["broken"]) == (4, 0, 0)
    rows = [row.asDict() for row in spark.read.parquet(target).collect()]
    assert sorted(row["seed"] for row in rows) == [1, 2, 3, 4]
    times = [row["takeover_s"] for row in rows]
    assert times == sorted(times, reverse=True) and times[0] > 0
    loaded = loader.load(str(file))
    assert rows[0] == row_of(loaded, rows[0]["seed"], ())
    assert said["worst"][0]["seed"] == rows[0]["seed"]

    assert run(command) == 2
    assert "is there already" in capsys.readouterr().err
    assert run([*command[:3], "--seeds", "4..1"]) == 2
    file.write_text(DRILL.replace("<= 30s", "<= 1ms"))
    assert run([*command[:3], "--seeds", "1..2"]) == 1
    said = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (said["passed"], said["failed"]) == (0, 2)
    assert {row["verdict"] for row in said["worst"]} == {"fail"}
