"""The lab: each back end finds a planted fault, makes it smaller, writes it and plays it again; the pool; the
shrinker."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.buddy.handover import Handover
from jgroups_py.cache.tree_cache import TreeCache
from jgroups_py.drill.run.patience import patient
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.testing.check.violation import Violated, Violation, violation_of
from jgroups_py.testing.explorer import lab
from jgroups_py.testing.explorer.back_ends import BACK_ENDS, back_end_of, kind_of, load
from jgroups_py.testing.explorer.lab import Size
from jgroups_py.testing.explorer.many import Job, run_seed
from jgroups_py.testing.explorer.pool import each
from jgroups_py.testing.explorer.shrink import Shrinker, shrink

FOUND = Path(__file__).parent / "found"


def plant_in_gms(patch: pytest.MonkeyPatch) -> None:
    def check(self: GMS) -> None:
        raise AssertionError("planted")

    patch.setattr(GMS, "check", check)


def plant_in_buddies(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Handover, "say_taken_again", lambda self: None)


def plant_in_caches(patch: pytest.MonkeyPatch) -> None:
    """A cache that confirms changes that it has not made."""

    async def put(self: TreeCache, *args: Any, **kwargs: Any) -> None:
        return None

    patch.setattr(TreeCache, "put", put)


def plant_in_discovery(patch: pytest.MonkeyPatch) -> None:
    """A searching member gets no answer."""
    patch.setattr(Discovery, "respond", lambda self, dest, members: None)


@pytest.mark.parametrize(
    ("profile", "kind", "plant", "seeds"),
    [
        ("membership", "stacks", plant_in_gms, range(1, 2)),
        ("crashes", "buddies", plant_in_buddies, range(40)),
        ("cache-local", "caches", plant_in_caches, range(1, 20)),
        ("starts", "starts", plant_in_discovery, range(1, 2)),
    ],
)
def test_a_planted_fault_is_found_made_smaller_and_played_again(
    profile: str,
    kind: str,
    plant: Callable[[pytest.MonkeyPatch], None],
    seeds: range,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    job = Job(profile, Size(), shrink_runs=15, folder=tmp_path)
    result = next(found for seed in seeds if (found := run_seed(job, seed)).violations)
    assert result.shrunk is not None
    violation = result.violations[0]
    assert violation.replay.endswith(f"--replay {result.seed} --profile {profile}")
    back_end, case = load(result.shrunk)
    assert back_end.kind == kind_of(Path(result.shrunk).read_text()) == kind
    again = back_end.play(case).first
    assert again is not None and again.check == violation.check
    monkeypatch.undo()
    assert back_end.play(case).problems == []


@pytest.mark.parametrize(
    "file", sorted(FOUND.glob("cache-buddy-*.json")), ids=lambda file: file.stem
)
def test_files_of_before_there_were_kinds_are_read(file: Path) -> None:
    assert '"kind"' not in file.read_text()
    assert load(file)[0].kind == "caches"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"setting": {"members": 2}, "steps": []}', "buddies"),
        ('{"seed": 1, "profile": "x", "sites": [], "stack": "sim.xml"}', "stacks"),
        ('{"kind": "clusters", "seed": 3}', "clusters"),
        ('{"seed": 1, "back_end": "local"}', "caches"),
        ("[1]", "stacks"),
        ("no json", "stacks"),
    ],
)
def test_the_kind_of_a_file_is_seen(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"kind": "weather"}')
    with pytest.raises(ConfigError, match=r"kind: one of stacks, caches, .*, not 'weather'"):
        load(file)


def test_a_file_that_is_too_long_for_a_schedule_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.json"
    monkeypatch.setattr(lab, "LENGTH_MAX", 10)
    file.write_text("x" * 10)
    assert lab.text_of(file) == "x" * 10
    file.write_text("x" * 11)
    with pytest.raises(ConfigError, match=r"x\.json.*too long for a schedule \(at most 10 char"):
        lab.text_of(file)


def test_each_profile_belongs_to_a_back_end() -> None:
    for back_end in BACK_ENDS:
        for profile in back_end.profiles:
            assert profile in back_end_of(profile).profiles
    with pytest.raises(ConfigError, match="profile: one of"):
        back_end_of("weather")


def test_the_text_of_an_error_is_complete() -> None:
    assert violation_of(Violated("I1", "two owners", 2.5)) == Violation("I1", "two owners", 2.5)
    try:
        raise ValueError("broken")
    except ValueError as error:
        found = violation_of(error, 1.0)
    assert (found.check, found.at) == ("exception", 1.0)
    assert found.detail.startswith("test_lab.py:") and found.detail.endswith("ValueError: broken")


# --- the pool


def square(number: int) -> int:
    return number * number


@pytest.mark.parametrize("processes", [1, 2])
def test_every_job_is_done_once(processes: int) -> None:
    assert sorted(each(square, range(7), processes, chunk=3)) == [n * n for n in range(7)]


def test_no_job_is_begun_after_the_time() -> None:
    def slow(number: int) -> int:
        time.sleep(0.05)
        return number

    assert len(list(each(slow, range(1000), 1, stop_after=0.1))) <= 4


def test_a_caller_that_stops_iterating_begins_nothing_more() -> None:
    drawn = []

    def jobs() -> Iterator[int]:
        for number in range(1000):
            drawn.append(number)
            yield number

    assert next(each(square, jobs(), 1)) == 0
    assert drawn == [0]


KILLED_WHILE_IT_SENDS = """
import os, signal, time
from multiprocessing import connection
from jgroups_py.testing.explorer import pool

def send_half(self, data, write=None):
    os.write(self._handle, bytes(data)[: len(data) // 2])
    os.kill(os.getppid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGKILL)

def work(number):
    if number == 0:
        connection.Connection._send = send_half
    return bytes(1000)

if __name__ == "__main__":
    pool.END_SECONDS = 0.5
    try:
        list(pool.each(work, range(100_000), 2))
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_ends_processes_of_which_one_was_killed_while_it_sent_its_result(
    tmp_path: Path,
) -> None:
    """The pool waited for the other half of that result for ever, so ``drill --seeds`` did not end after a SIGTERM
    to all its processes."""
    script = tmp_path / "script.py"
    script.write_text(KILLED_WHILE_IT_SENDS)
    command = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        out, _ = command.communicate(timeout=patient(20))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()
    assert out == "interrupted\n"
    assert command.returncode == 0


KILLED_AT_WORK = """
import time
from jgroups_py.testing.explorer.pool import each

def work(number):
    if number >= 4:
        time.sleep(0.2 if number % 2 else 1_000)
    return number

if __name__ == "__main__":
    for number in each(work, range(1_000), 2):
        print(number, flush=True)
"""


def test_processes_end_when_their_command_is_killed(tmp_path: Path) -> None:
    """Each keeps the pipe of all open, so they waited for further work for ever."""
    script = tmp_path / "script.py"
    script.write_text(KILLED_AT_WORK)
    command = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert command.stdout is not None
        assert command.stdout.readline()
        command.kill()
        # The output ends when no process has it any more.
        command.communicate(timeout=patient(20))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()


# --- the shrinker


def test_a_list_is_cut_to_the_needed_part() -> None:
    calls = []

    def fails(case: tuple[int, ...]) -> bool:
        calls.append(case)
        return {3, 17} <= set(case)

    passes = [lambda s: s.cut(lambda c: c, lambda _, kept: tuple(kept))]
    assert shrink(tuple(range(40)), fails, passes) == (3, 17)
    assert len(calls) < 60


def test_a_proposal_is_made_for_the_smallest_case_so_far() -> None:
    def fewer(case: frozenset[str]) -> Iterator[frozenset[str]]:
        for name in sorted(case):
            yield case - {name}

    shrinker = Shrinker(frozenset("ABCDE"), lambda case: "C" in case, 100)
    shrinker.offer(fewer)
    assert shrinker.best == frozenset("C")


def test_the_number_of_runs_is_limited() -> None:
    calls = []

    def fails(case: tuple[int, ...]) -> bool:
        calls.append(case)
        return False

    shrinker = Shrinker(tuple(range(100)), fails, 3)
    shrinker.cut(lambda case: case, lambda _, kept: tuple(kept), whole=False)
    assert shrinker.is_over and len(calls) == 3 and len(shrinker.best) == 100
