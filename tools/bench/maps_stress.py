"""Chronicle Map's published stress at ten times its rate: one host writes, three replicate, and equality is checked every second.

    python -m jgroups_py.tools.bench.maps_stress
    python -m jgroups_py.tools.bench.maps_stress --rate 10000 --seconds 60 --json build/maps/stress.json

Each host is a process of its own with a map of its own; they talk over TCP on the loopback interface. In each second the writer puts to one half of the keys, in
turn. So the other half is quiet, and must be equal at all hosts, in all keys, values and stamps, before that second
ends. The time until then is printed.

The rate is an aim; the reached rate is printed, too. Exit 0: all checks held; 1: a host was not equal in time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.child_side import say
from jgroups_py.tools.children import Child, end_all, start_process
from jgroups_py.tools.commands.mperf_ports import free_block

HOSTS: Final = 4
KEYS: Final = 5000
"""The number of keys in each half."""
BURST_SECONDS: Final = 0.005
"""Seconds between two bursts of the writer."""
LOOK_SECONDS: Final = 0.02
"""The seconds between two looks of a replica that is not equal yet."""
SECOND: Final = 1.0
START_SECONDS: Final = 60.0
END_SECONDS: Final = 15.0


# --- a host


class StressHost:
    """The work of a host's process."""

    def __init__(self, m: Any) -> None:
        self._map = m
        self._written = 0

    def write(self, half: int, rate: float, begin: float, until: float) -> int:
        """Put to one half of the keys until a time of this machine's clock. Return the number of puts.

        The number of due puts is counted from ``begin``, when the run began, so late puts are made up for. Each burst has the puts that are due before the next one.
        """
        begun, m = self._written, self._map
        while (now := time.monotonic()) < until:
            due = int((min(now + BURST_SECONDS, until) - begin) * rate)
            while self._written < due and time.monotonic() < until:
                self._written += 1
                m[f"{half}{self._written % KEYS:05}"] = b"%100d" % self._written
            time.sleep(min(BURST_SECONDS, max(0.0, until - time.monotonic())))
        return self._written - begun

    def digest(self, half: int) -> str:
        found = blake2b(digest_size=16)
        for key, entry in self._map._file.items(after=b"%d" % half):
            if not key.startswith(b"%d" % half):
                break
            found.update(b"%s %d %d %s\n" % (key, *entry.stamp, entry.value))
        return found.hexdigest()

    def wait_equal(self, half: int, digest: str, until: float) -> float | None:
        """Return the time when the half became equal to ``digest``, by this machine's clock. None: it was too late."""
        while self.digest(half) != digest:
            if time.monotonic() > until:
                return None
            time.sleep(LOOK_SECONDS)
        return time.monotonic()


def serve(argument: dict[str, Any]) -> None:
    """The process of a host: questions on standard input, answers on standard output."""
    from jgroups_py import blocking
    from jgroups_py.maps import Replication

    with blocking.open_map(
        argument["folder"],
        name="stress",
        key=str,
        value=bytes,
        identifier=argument["node"],
        listen=argument["places"][argument["node"] - 1],
        peers=[
            place
            for place in argument["places"]
            if place != argument["places"][argument["node"] - 1]
        ],
        replication=Replication(peers=frozenset(range(1, HOSTS + 1))),
    ) as m:
        host = StressHost(m)
        while len(m.statistics().peers) < HOSTS - 1:
            time.sleep(0.02)
        say(event="ready")
        for line in sys.stdin:
            asked = json.loads(line)
            call = asked.pop("call")
            say(event=call, result=getattr(host, call)(**asked))


# --- the parent


async def measure(rate: float, seconds: int) -> dict[str, Any]:
    """Return counts of puts and checks, and seconds from the last write of a half until all replicas had it."""
    first = free_block(HOSTS)
    places = [f"127.0.0.1:{first + number}" for number in range(HOSTS)]
    with tempfile.TemporaryDirectory() as name:
        hosts: list[Child] = []
        async with trio.open_nursery() as nursery:
            try:
                for node in range(1, HOSTS + 1):
                    folder = str(Path(name) / str(node))
                    argument = {"node": node, "places": places, "folder": folder}
                    host = Child(await start_process(__spec__.name, argument), f"host {node}")
                    nursery.start_soon(host.collect_problem)
                    hosts.append(host)
                with trio.fail_after(START_SECONDS):
                    for host in hosts:
                        await host.hear("ready")
                return await _run(hosts, rate, seconds)
            finally:
                with trio.CancelScope(shield=True):
                    await end_all(hosts, END_SECONDS)
                nursery.cancel_scope.cancel()
    raise AssertionError  # pragma: no cover


async def _run(hosts: Sequence[Child], rate: float, seconds: int) -> dict[str, Any]:
    writer, *replicas = hosts
    puts, late = 0, 0
    took: list[float] = []
    begin = time.monotonic()
    checked: tuple[int, str] | None = None
    for second in range(seconds + 1):
        half, until = second % 2, begin + (second + 1) * SECOND
        if second < seconds:
            await writer.tell(call="write", half=half, rate=rate, begin=begin, until=until)
        else:
            until += SECOND
        if checked is not None:
            since = time.monotonic()
            for replica in replicas:
                await replica.tell(
                    call="wait_equal", half=checked[0], digest=checked[1], until=until
                )
            for replica in replicas:
                at = (await replica.hear("wait_equal"))["result"]
                late += at is None
                took += [] if at is None else [max(0.0, at - since)]
        if second < seconds:
            puts += (await writer.hear("write"))["result"]
            await writer.tell(call="digest", half=half)
            checked = half, (await writer.hear("digest"))["result"]
    took.sort()
    return {
        "hosts": HOSTS,
        "seconds": seconds,
        "rate": rate,
        "puts": puts,
        "reached": round(puts / seconds),
        "checks": len(took) + late,
        "late": late,
        "equal_after_ms": {
            "p50": round(took[len(took) // 2] * 1000) if took else None,
            "max": round(took[-1] * 1000) if took else None,
        },
        "load": os.getloadavg()[0],
    }


def lines(found: dict[str, Any]) -> Iterator[str]:
    after = found["equal_after_ms"]
    yield f"{found['puts']:,} puts in {found['seconds']} s ({found['reached']:,} of {found['rate']:,.0f} a second wanted), load {found['load']:.1f}"
    yield (
        f"{found['checks']} checks, {found['late']} of them not equal in time; equal after p50 {after['p50']} ms, at most {after['max']} ms"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=10_000.0, help="puts a second")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    if given.rate <= 0 or given.seconds < 1:
        parser.error("--rate must be above 0, and --seconds at least 1")
    found = trio.run(measure, given.rate, given.seconds)
    print("\n".join(lines(found)))
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 1 if found["late"] else 0


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("{"):
        serve(json.loads(sys.argv[1]))
    else:
        end_with(main)
