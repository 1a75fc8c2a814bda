"""The commands that explore the bucket store and simultaneous starts."""

import itertools
import json
import re
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.testing.explorer import pool
from jgroups_py.testing.explorer.back_ends import load
from jgroups_py.testing.explorer.buckets.back_end import Buckets
from jgroups_py.testing.explorer.buckets.ledger import TokenLedger
from jgroups_py.testing.explorer.many import Job, Result, run_seed
from jgroups_py.tools import cli


@pytest.mark.parametrize(
    ("command", "options", "events"),
    [
        ("buckets-explore", ["--profile", "buckets-versions-blips"], "requests"),
        ("starts-explore", [], "starts"),
    ],
)
def test_seeds_are_explored_and_counted(
    command: str, options: list[str], events: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["dev", command, *options, "--seeds", "1..2", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["runs"], told["violations"]) == (2, [])
    assert told[events] > 2 and told["faults"] > 0


@pytest.mark.parametrize(
    "command", [["simulate"], ["dev", "starts-explore"], ["dev", "buddy-explore"]]
)
def test_an_interrupted_command_says_which_seeds_it_has_played(
    command: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(job: Job, seeds: range, *rest: object) -> Generator[Result, None, None]:
        for seed in (3, 1, 2, 5):
            yield Result(seed, (), 10, 1.0, 4)
        raise KeyboardInterrupt

    monkeypatch.setattr("jgroups_py.tools.dev.explored.run_seeds", interrupted)
    assert cli.run([*command, "--seeds", "1..9", "--json", "-"]) == cli.INTERRUPTED
    told = capsys.readouterr()
    assert "interrupted; seeds played: 1..3, 5\n" in told.err
    summary = json.loads(told.out)
    assert (summary["runs"], summary["seeds"], summary["interrupted"]) == (4, "1..3, 5", True)


def test_a_sweep_that_its_time_ended_says_which_seeds_it_has_played(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jgroups_py.tools.dev.explored.cores", lambda: 1)
    clock = (
        itertools.count()
    )  # the second look at it comes before the first seed, the third one after it
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    command = ["simulate", "--profile", "state", "--members", "2..2", "--seeds", "2..9"]
    assert cli.run([*command, "--for", "1500ms", "--json", "-"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["seeds"], summary["interrupted"]) == ("2", False)


def test_a_plan_that_fails_is_made_smaller_and_played_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Discovery, "respond", lambda self, dest, members: None)
    assert cli.run(["dev", "starts-explore", "--seeds", "1..1", "--json", "out.json"]) == 1
    violation = json.loads(Path("out.json").read_text())["violations"][0]
    assert len(json.loads(Path(violation["shrunk"]).read_text())["starts"]) == 2
    capsys.readouterr()
    assert cli.run(["dev", "starts-explore", "--replay", violation["shrunk"]]) == 1
    told = capsys.readouterr().out
    assert violation["check"] in told and told.count(" starts; ") == 2


def test_shrinking_removes_needless_steps_from_a_schedule_of_buckets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(TokenLedger, "serialise", lambda self, version: b"")
    back_end = Buckets()
    result = run_seed(Job("buckets", shrink_runs=6, folder=tmp_path), 1)
    assert result.shrunk is not None and result.violations[0].check == "kept"
    _, case = load(result.shrunk)
    again = back_end.play(case).first
    assert again is not None and again.check == "kept"
    assert len(case.faults) < len(back_end.draw(1, "buckets").faults) / 4


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"kind": "starts", "seed": 1}', "not a plan of starts: .*`starts`"),
        (
            '{"kind": "starts", "seed": 1, "jitter": 0, "crash_at": null, "starts": [{"at": 0, "name": "Z",'
            ' "cluster": "test", "turn": 0, "pause_after": 0, "pause": 0}]}',
            "names A, B, C, D, E, F, each once",
        ),
        ('{"kind": "buckets", "seed": 1}', "not a schedule of buckets: .*`blips`"),
        (
            '{"kind": "buckets", "seed": 1, "blips": false, "versions": false, "asks": [], "faults": [[1.0, "rain"]]}',
            "faults: one of lose, move, cut_off, not 'rain'",
        ),
        ('{"kind": "clusters", "seed": "x"}', "not a cluster's seed"),
    ],
)
def test_a_file_that_is_no_case_is_refused(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "case.json"
    file.write_text(text)
    assert cli.run(["dev", "starts-explore", "--replay", str(file)]) == 2
    told = capsys.readouterr().err
    assert str(file) in told and re.search(problem, told)
