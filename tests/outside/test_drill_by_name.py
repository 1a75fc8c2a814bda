"""A shipped drill is found by its name, as stacks are."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run_here


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_shipped_drill_is_run_by_its_name() -> None:
    done = run_here("drill", "short")
    assert done.code == 0, done.out + done.err
    assert "verdict: PASS" in done.out


def test_a_file_of_that_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("sites: {NYC: {members: [A], stack: udp.xml}}\nnmae: x\n")
    done = run_here("drill", "short")
    assert done.code == 2
    assert "short:2" in done.err


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known_names() -> None:
    done = run_here("drill", "nyc-sfoo")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert 'did you mean "nyc-sfo"?' in done.err
    assert "cache-sites, cache-sites-both" in done.err
    assert "site-split" in done.err
