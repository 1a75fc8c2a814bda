"""Processes share a map and are killed in the middle of writes. Only public calls are used."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py import blocking

SIZE = 1 << 28
WRITER = f"""
import os, sys
from jgroups_py import blocking
m = blocking.open_map(sys.argv[1], key=str, value="json", max_bytes={SIZE})
first = int(sys.argv[2])
for number in range(first, first + 10**9):
    m[f"k{{number % 200}}"] = [number, "x" * (number % 1000)]
    os.write(1, b"%12d" % number)
"""


def kill_writers(folder: Path, kills: int, seed: int) -> None:
    """Start a writer and kill it after a random number of puts. Check that every put that had returned is there, and
    that each value is whole."""
    chance = random.Random(seed)
    first = 0
    with blocking.open_map(folder, key=str, value="json", max_bytes=SIZE) as m:
        for _ in range(kills):
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(folder), str(first)], stdout=subprocess.PIPE
            )
            assert writer.stdout is not None
            said = writer.stdout.read(12 * chance.randint(1, 3000))
            writer.kill()
            said += writer.stdout.read()
            writer.stdout.close()
            writer.wait()
            last = int(said[len(said) // 12 * 12 - 12 :][:12])
            assert last >= first
            for number in range(max(first, last - 199), last + 1):
                value = m[f"k{number % 200}"]
                # The put that was under way may also have happened.
                assert value[0] in (number, last + 1)
                assert len(value[1]) == value[0] % 1000
            first = last + 2
        assert m.wait_merged(timeout=60)
        assert all(len(text) == number % 1000 for number, text in m.values())


def test_writers_that_are_killed_leave_every_put_that_returned_and_no_half_entry(
    tmp_path: Path,
) -> None:
    kill_writers(tmp_path / "m", kills=3, seed=1)


@pytest.mark.slow
def test_writers_are_killed_a_thousand_times(tmp_path: Path) -> None:
    """``make maps-kills`` runs this; JGROUPS_KILLS=N sets another number."""
    kill_writers(tmp_path / "m", kills=int(os.environ.get("JGROUPS_KILLS", "1000")), seed=2)


def test_the_only_process_that_merges_is_killed_and_the_file_opens(tmp_path: Path) -> None:
    for round_ in range(2):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "m"), str(round_ * 100_000)],
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        said = writer.stdout.read(12 * 2000)
        writer.kill()
        said += writer.stdout.read()
        writer.stdout.close()
        writer.wait()
        last = int(said[len(said) // 12 * 12 - 12 :][:12])
        with blocking.open_map(tmp_path / "m", key=str, value="json", max_bytes=SIZE) as m:
            assert m[f"k{last % 200}"][0] == last and len(m) == 200
