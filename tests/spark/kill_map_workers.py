"""Five Python workers of Spark and a web server with two workers share the files of two maps, and any of them is killed at any moment.

    python tests/spark/kill_map_workers.py --kills 50

Tasks count hits and put carts into the maps of examples/web_map.py, and record each call that returned. Visitors do the
same over HTTP. In the end everything that was recorded or answered must be there, each cart must be whole, and there
must be no more additional hits than calls that were cut off.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "shared")]

TASKS: Final = 5
TRIES: Final = 1000
"""The number of times that Spark may restart a task."""
BURST: Final = 300
PAUSE: Final = 0.1
"""A task puts this number of carts, and rests for this number of seconds. Without rests five of them fill the map of 1
GB within two minutes, and leave no core to a web server that starts."""
TEXT_MAX: Final = 300
STALE: Final = 90.0
"""Seconds within which the workers must make progress."""


def task(folder: str, notes: str) -> Callable[[int, Iterator[Any]], Iterator[int]]:
    """Counts hits and puts carts until there is a file ``stop``. Each attempt records returned puts in a file of its
    own."""

    def put(number: int, _: Iterator[Any]) -> Iterator[int]:
        from jgroups_py import blocking
        from jgroups_py.maps import PerField, PnCounter

        mine = f"{number}-{os.getpid()}-{time.time_ns()}"
        host: Any = {"key": str, "identifier": 1}
        done = 0
        with (
            blocking.open_map(f"{folder}/hits", rule=PnCounter(), **host) as hits,
            blocking.open_map(f"{folder}/carts", value="json", rule=PerField(), **host) as carts,
            open(f"{notes}/{mine}", "wb", buffering=0) as log,
        ):
            while not os.path.exists(f"{notes}/stop"):
                hits.increment("home")
                carts[f"{mine}-{done}"] = {"number": str(done), "text": "x" * (done % TEXT_MAX)}
                log.write(b"%8d" % done)
                done += 1
                if done % BURST == 0:
                    time.sleep(PAUSE)
        yield done

    return put


def noted(notes: Path) -> dict[str, int]:
    """Return the number of puts that returned in each attempt."""
    return {file.name: file.stat().st_size // 8 for file in notes.glob("*-*-*")}


def wait_for_puts(notes: Path, more: int, alive: Callable[[], bool]) -> None:
    goal, until = sum(noted(notes).values()) + more, time.monotonic() + STALE
    while sum(noted(notes).values()) < goal:
        assert alive(), "the job has ended"
        assert time.monotonic() < until, f"no {more} puts in {STALE} s"
        time.sleep(0.02)


def busy_worker(notes: Path, chance: random.Random) -> int:
    """Return the pid of a Python worker that puts now."""
    before = noted(notes)
    until = time.monotonic() + STALE
    while time.monotonic() < until:
        time.sleep(0.05)
        busy = [name for name, puts in noted(notes).items() if puts > before.get(name, 0)]
        if busy:
            return int(chance.choice(sorted(busy)).split("-")[1])
    raise AssertionError(f"nobody puts for {STALE} s")


def judge_carts(folder: Path, notes: Path) -> tuple[int, int]:
    """Check that each recorded put is there and whole, and at most one more of each attempt. Return recorded hits, and
    hits of unknown outcome."""
    from jgroups_py import blocking

    found = noted(notes)
    with blocking.open_map(folder / "carts") as carts:
        there: dict[str, int] = dict.fromkeys(found, 0)
        for key, cart in carts.items():
            name, _, number = key.rpartition("-")
            if name in found:  # otherwise it is a visitor's
                assert cart == {"number": number, "text": "x" * (int(number) % TEXT_MAX)}, key
                there[name] += 1
        for name, puts in found.items():
            assert all(f"{name}-{number}" in carts for number in range(puts)), name
            assert there[name] in (puts, puts + 1), (name, puts, there[name])
    return sum(found.values()), len(found)


def run(folder: Path, kills: int, seed: int) -> str:
    from web_visitors import answered_hits, judge, kill_a_worker, visitors_of

    from examples.web_map import Host
    from jgroups_py.spark import open_session
    from jgroups_py.tools.commands.mperf_ports import free_block

    chance = random.Random(seed)
    notes = folder / "notes"
    notes.mkdir()
    port = free_block(3)  # one of the web server, two of the maps
    host = Host(1, folder, port, [port + 1])
    try:
        host.wait_ready()
        config = {"spark.python.worker.reuse": "false", "spark.excludeOnFailure.enabled": "false"}
        with open_session(f"local[{TASKS},{TRIES}]", config=config) as spark:
            rdd = spark.sparkContext.parallelize(range(TASKS), TASKS)
            put = task(str(folder / "host1"), str(notes))
            ended: list[Any] = []

            def work() -> None:
                try:
                    ended.append(rdd.mapPartitionsWithIndex(put).collect())
                except Exception as error:
                    ended.append(error)

            job = threading.Thread(target=work)
            job.start()
            with visitors_of([host], 3) as visitors:
                try:
                    for number in range(kills):
                        wait_for_puts(notes, 20, job.is_alive)
                        if number % 3 == 2:
                            kill_a_worker(host)
                        else:
                            os.kill(busy_worker(notes, chance), signal.SIGKILL)
                    wait_for_puts(notes, 100, job.is_alive)
                finally:
                    (notes / "stop").touch()
                    job.join(STALE)
            assert ended and isinstance(ended[0], list), ended
        puts, attempts = judge_carts(folder / "host1", notes)
        judge([host], visitors, more=puts, more_unsure=attempts)
        hits = answered_hits(visitors)
        return f"{kills} kills: {puts} puts of {attempts} attempts of tasks and {hits} hits of visitors are there"
    finally:
        host.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as name:
        print(run(Path(name), given.kills, given.seed))


if __name__ == "__main__":
    main()
