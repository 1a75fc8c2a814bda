"""Schedules that found faults are played again: design/simulate.md describes the faults.

They are files, so they stay the same when the explorer draws other schedules from the same seeds. The files have
whole schedules; the tests that the note names show the same faults in few steps. Newer findings, in the folder
above, are schedules that were made smaller.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jgroups_py.testing.explorer.back_ends import load

DRAWN = Path(__file__).parent / "found" / "drawn"
FILES = sorted(DRAWN.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_faults_that_were_found_once_stay_mended(file: Path) -> None:
    back_end, case = load(file)
    assert back_end.play(case).problems == []


def test_every_file_is_a_schedule_of_its_name() -> None:
    """The test above reads the whole schedules."""
    for file in FILES:
        fields = json.loads(file.read_text(encoding="utf-8"))
        assert f"{fields['profile']}-{fields['seed']}" == file.stem
