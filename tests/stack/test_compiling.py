"""setup.py: the compiler takes the sources, and wrong values of its variables are refused. The C code is not compiled
here: ``make test-compiled`` does that, and runs all tests with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    line
    for line in (ROOT / "jgroups_py" / "compiled.txt").read_text().splitlines()
    if not line.startswith("#")
]


def set_up(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with ``words`` beside a copy of setup.py."""
    pytest.importorskip("setuptools", reason="newer Pythons have it in the builder's place only")
    shutil.copy(ROOT / "setup.py", folder)
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


WRONG = [
    ("JGROUPS_PY_COMPILE", "yes", "0 or 1"),
    ("JGROUPS_PY_COMPILE", "", "0 or 1"),
    ("JGROUPS_PY_OPTIMIZE", "12", "0 or 1 or 2 or 3"),
]


def test_a_wrong_variable_is_reported(tmp_path: Path) -> None:
    """One process tries all: importing setuptools takes half a second."""
    code = f"""
import os, runpy, sys
sys.argv = ["setup.py", "--version"]
for name, value, _ in {WRONG!r}:
    os.environ[name] = value
    try:
        runpy.run_path("setup.py")
    except SystemExit as ended:
        print(ended.code)
    del os.environ[name]
"""
    assert set_up(tmp_path, "-c", code).stdout.splitlines() == [
        f"{name} must be {accepted}, got {value!r}" for name, value, accepted in WRONG
    ]


def test_the_compiler_takes_the_sources(tmp_path: Path) -> None:
    for folder in ("jgroups_py", "protocols", "stacks", "tools"):
        shutil.copytree(
            ROOT / folder,
            tmp_path / folder,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    done = set_up(tmp_path, "setup.py", "--version", JGROUPS_PY_COMPILE="1")
    assert done.returncode == 0, done.stderr
    (code,) = (tmp_path / "build").glob("__native_*.c")
    text = code.read_text()
    for name in NAMES:
        assert f'"{name}"' in text, name
