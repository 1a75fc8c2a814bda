"""A drill that is shipped is found by its name, as stacks are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def drill(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jgroups_py", "drill", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )


def test_a_shipped_drill_is_run_by_its_name(tmp_path: Path) -> None:
    done = drill(tmp_path, "short")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verdict: PASS" in done.stdout


def test_a_file_of_that_name_comes_first(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("sites: {NYC: {members: [A], stack: udp.xml}}\nnmae: x\n")
    done = drill(tmp_path, "short")
    assert done.returncode == 2
    assert "short:2" in done.stderr


def test_an_unknown_name_is_answered_with_the_nearest_and_all_that_are_known(
    tmp_path: Path,
) -> None:
    done = drill(tmp_path, "nyc-sfoo")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert 'did you mean "nyc-sfo"?' in done.stderr
    assert "cache-sites, cache-sites-both" in done.stderr
    assert "site-split" in done.stderr
