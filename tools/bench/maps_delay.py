"""The time from a put until others see it: another process of the host, and another host over TCP on the loopback
interface.

    python -m jgroups_py.tools.bench.maps_delay --puts 2000 --json build/maps/delay.json

A value is the time at which its put began, by the clock that all processes of a machine share. A reader gets it again
and again, so with fewer than three cores the figures measure the scheduler. ``flush_interval`` is the map's wait before
it sends.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.maps import quantiles
from jgroups_py.tools.children import Child, end_all, start_process
from jgroups_py.tools.commands.mperf_ports import free_block

PUT_INTERVAL: Final = 0.005
GIVE_UP_SECONDS: Final = 30.0
START_SECONDS: Final = 60.0
END_SECONDS: Final = 15.0
PLACES: Final = ("another process", "another host")


def read(m: Any, puts: int) -> list[float]:
    """Return the seconds from the begin of each put to the get that saw it. Puts that were overtaken by later ones are
    left out."""
    seen, took = 0, []
    until = time.monotonic() + GIVE_UP_SECONDS + puts * PUT_INTERVAL
    while seen < puts and time.monotonic() < until:
        found = m.get("key")
        if found is not None and found[0] > seen:
            took.append((time.monotonic_ns() - found[1]) / 1e9)
            seen = found[0]
    return took


def serve(argument: dict[str, Any]) -> None:
    """Run the process of a reader."""
    from jgroups_py import blocking

    options = argument["options"]
    with blocking.open_map(argument["folder"], name="delay", key=str, value="json", **options) as m:
        print(json.dumps({"event": "ready"}), flush=True)
        for _ in sys.stdin:
            took = read(m, argument["puts"])
            print(json.dumps({"event": "took", "took": took}), flush=True)


async def measure(place: str, puts: int, flush_interval: float) -> dict[str, Any]:
    """Return the delays in microseconds."""
    from jgroups_py.maps import Replication, open_map

    first = free_block(2)
    places = [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
    apart = place != PLACES[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = (
            {
                "identifier": 1,
                "listen": places[0],
                "replication": Replication(flush_interval=flush_interval),
            }
            if apart
            else {}
        )
        theirs = {"identifier": 2, "listen": places[1], "peers": [places[0]]} if apart else {}
        argument = {
            "folder": str(folder / ("2" if apart else "1")),
            "puts": puts,
            "options": theirs,
        }
        async with (
            open_map(folder / "1", name="delay", key=str, value="json", **ours) as m,  # type: ignore[arg-type]
            trio.open_nursery() as nursery,
        ):
            reader = Child(await start_process(__spec__.name, argument), place)
            nursery.start_soon(reader.collect_problem)
            try:
                with trio.fail_after(START_SECONDS):
                    await reader.hear("ready")
                    while apart and not m.statistics().peers:  # noqa: ASYNC110 - it comes by itself
                        await trio.sleep(0.02)
                await reader.tell()
                for number in range(1, puts + 1):
                    m["key"] = [number, time.monotonic_ns()]
                    await trio.sleep(PUT_INTERVAL)
                took = (await reader.hear("took"))["took"]
            finally:
                with trio.CancelScope(shield=True):
                    await end_all([reader], END_SECONDS)
            nursery.cancel_scope.cancel()
    return {"to": place, "puts": puts, "seen": len(took), **quantiles(took)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--puts", type=int, default=1000)
    parser.add_argument("--flush-interval", type=float, default=0.01, help="seconds")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if given.puts < 1 or given.flush_interval <= 0:
        parser.error("--puts must be at least 1, and --flush-interval above 0")
    found: dict[str, Any] = {"flush_interval": given.flush_interval, "rows": []}
    for place in PLACES:
        row = trio.run(measure, place, given.puts, given.flush_interval)
        found["rows"].append(row)
        print(" ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    found["load"] = os.getloadavg()[0]
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        serve(json.loads(sys.argv[1]))
    else:
        end_with(main)
