"""Schedules that found faults are played again: design/simulate.md describes the faults.

They are files, so they stay the same when the explorer draws other schedules from the same seeds. The files have
whole schedules; the tests that the note names show the same faults in few steps. Newer findings, in the folder
above, are schedules that were made smaller.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jgroups_py.testing.explorer.back_ends import load

NOTE = Path(__file__).parents[2] / "design" / "simulate.md"
DRAWN = Path(__file__).parent / "found" / "drawn"
FILES = sorted(DRAWN.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_faults_that_were_found_once_stay_mended(file: Path) -> None:
    back_end, case = load(file)
    assert back_end.play(case).problems == []


def test_every_file_is_a_schedule_of_its_name() -> None:
    for file in FILES:
        _, case = load(file)
        assert f"{case.profile}-{case.seed}" == file.stem


def test_every_seed_of_the_note_has_a_file() -> None:
    table = (
        NOTE.read_text()
        .partition("## Faults that seeds found")[2]
        .partition("Some failed runs were right")[0]
    )
    named = []
    for line in table.splitlines():
        profile = ""
        for word, number in re.findall(r"`(?:([a-z]+) )?(\d+)`", line.partition(" | ")[0]):
            profile = word or profile
            named.append((profile, int(number)))
    assert len(named) > 80
    kept = {file.stem for file in FILES}
    assert [f"{p}-{n}" for p, n in named if p != "churn" and f"{p}-{n}" not in kept] == []
