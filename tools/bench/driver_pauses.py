"""The time for which a member's loop stands still in a Spark driver, and in a process of its own beside it.

    python -m jgroups_py.tools.bench.driver_pauses

A group of two: one member in the driver's process (``jgroups_py.blocking``), one in a process of its own. A task in
each loop is to run every 10 ms. The command prints its worst lateness, phase by phase, while the driver
imports and starts Spark, collects rows, and collects garbage. At the end the suspected members are printed.
Other work of the machine slows both.
"""

from __future__ import annotations

import argparse
import gc
import json
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import trio

from jgroups_py import WaitTimeout, blocking
from jgroups_py.tools.bench.ended import end_with

EVERY = 0.01
"""Seconds between two looks."""
CHILD = "member"
JOIN_SECONDS = 30.0


class Probe:
    """The lateness of the loop of a channel."""

    def __init__(self, channel: blocking.Channel) -> None:
        self._worst = 0.0
        self._end = False
        self._thread = threading.Thread(target=channel._call, args=(self._run,), daemon=True)
        self._thread.start()

    async def _run(self) -> None:
        while not self._end:
            wanted = trio.current_time() + EVERY
            await trio.sleep_until(wanted)
            self._worst = max(self._worst, trio.current_time() - wanted)

    def take(self) -> float:
        """Return the worst lateness since the last call, in seconds."""
        worst, self._worst = self._worst, 0.0
        return worst

    def stop(self) -> None:
        self._end = True
        self._thread.join(JOIN_SECONDS)


def child(stack: str, cluster: str) -> None:
    """Be the other member: print a number for each line of standard input, then the view."""
    with blocking.open_channel(stack, cluster=cluster, name=CHILD) as channel:
        probe = Probe(channel)
        print("ready", flush=True)
        for _ in sys.stdin:
            said = {"late": probe.take(), "members": len(channel.view)}
            print(json.dumps(said), flush=True)
        probe.stop()


def phases(rows: int) -> dict[str, Callable[[dict[str, Any]], None]]:
    """Return the phases by name, in order; each hands a dict to the next one."""

    def start(kept: dict[str, Any]) -> None:
        from jgroups_py.spark import open_session

        kept["session"] = open_session("local[2]", config={"spark.ui.showConsoleProgress": "false"})
        kept["spark"] = kept["session"].__enter__()

    def bring_in(kept: dict[str, Any]) -> None:
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
        import pyspark.sql  # noqa: F401

    def collect(kept: dict[str, Any]) -> None:
        kept["rows"] = kept["spark"].range(rows).selectExpr("id", "string(id) as s").collect()

    def garbage(kept: dict[str, Any]) -> None:
        for row in kept["rows"]:
            row.__dict__["itself"] = row  # cycles, which only the garbage collector frees
        del kept["rows"]
        gc.collect()

    return {
        "nothing (2 s)": lambda kept: time.sleep(2),
        "import pyspark, pyarrow, pandas": bring_in,
        "a session starts": start,
        "first query": lambda kept: kept["spark"].range(1000).count() and None,
        f"collect() of {rows:,} rows": collect,
        "garbage of all rows is collected": garbage,
        "toPandas()": lambda kept: kept["spark"].range(rows).toPandas() is None,
        "the session stops": lambda kept: kept["session"].__exit__(None, None, None),
    }


def measure(stack: str, rows: int) -> list[dict[str, Any]]:
    """Return, for each phase, its seconds and the worst lateness of both members."""
    cluster = f"pauses-{secrets.token_hex(4)}"
    words = [sys.executable, "-m", "jgroups_py.tools.bench.driver_pauses", "--member", cluster]
    other = subprocess.Popen(
        [*words, "--stack", stack], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin is not None and other.stdout is not None
    try:
        if other.stdout.readline().strip() != "ready":
            raise SystemExit("driver_pauses: the other member did not start")

        def ask() -> dict[str, Any]:
            assert other.stdin is not None and other.stdout is not None
            print(file=other.stdin, flush=True)
            said: dict[str, Any] = json.loads(other.stdout.readline())
            return said

        found, kept = [], dict[str, Any]()
        with blocking.open_channel(stack, cluster=cluster, name="driver") as channel:
            probe = Probe(channel)
            try:
                channel.wait_members(2, timeout=JOIN_SECONDS)
            except WaitTimeout as error:
                raise SystemExit(f"driver_pauses: {error}") from None
            for name, phase in phases(rows).items():
                probe.take(), ask()
                begun = time.monotonic()
                phase(kept)
                took = time.monotonic() - begun
                time.sleep(5 * EVERY)
                said = ask()
                found.append(
                    {
                        "phase": name,
                        "seconds": round(took, 2),
                        "driver_late": round(probe.take(), 3),
                        "member_late": round(said["late"], 3),
                        "views": [len(channel.view), said["members"]],
                    }
                )
            probe.stop()
        return found
    finally:
        other.stdin.close()
        try:
            other.wait(JOIN_SECONDS)
        except subprocess.TimeoutExpired:
            other.kill()
            other.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="driver_pauses", description=__doc__)
    parser.add_argument("--stack", default="udp.xml")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        child(given.stack, given.member)
        return 0
    found = measure(given.stack, given.rows)
    if given.json:
        print(json.dumps(found))
    else:
        print(
            f"{'':34}{'seconds':>9}{'driver late':>13}{'member late':>13}   members in both views"
        )
        for one in found:
            line = f"{one['phase']:34}{one['seconds']:9.2f}{one['driver_late'] * 1000:10.0f} ms"
            print(
                f"{line}{one['member_late'] * 1000:10.0f} ms   {one['views'][0]}, {one['views'][1]}"
            )
    return 1 if any(one["views"] != [2, 2] for one in found) else 0


if __name__ == "__main__":
    end_with(main)
