"""Golden traces: each file of tests/traces is a story; its output is checked line for line.

After an intended change: ``REWRITE=1 pytest tests/sim/test_stories.py``, then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jgroups_py.testing.sim.story import check_story

STORIES = sorted((Path(__file__).parent.parent / "traces").glob("*.story"))


@pytest.mark.parametrize("path", STORIES, ids=lambda p: p.stem)
def test_the_story_is_told_as_written(path: Path) -> None:
    expected, actual = check_story(path, rewrite="REWRITE" in os.environ)
    assert actual == expected


def test_at_least_three_stories_are_recorded() -> None:
    assert len(STORIES) >= 3
