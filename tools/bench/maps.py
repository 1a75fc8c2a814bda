"""How long puts and gets of a map take, while a thread of this process merges, while another process does, and while that process is stopped.

python -m jgroups_py.tools.bench.maps --puts 20000
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from jgroups_py import blocking

KEYS = 5000
OTHER = """
import sys
from jgroups_py import blocking
m = blocking.open_map(sys.argv[1], key=str, value=bytes)
m["other"] = b""
m.wait_merged()
print("here", flush=True)
sys.stdin.read()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--puts", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    given = parser.parse_args()
    result: dict[str, Any] = {"load": os.getloadavg()[0], "bytes": given.size}
    for merger in ("thread", "process"):
        with tempfile.TemporaryDirectory() as folder:
            result[merger] = measured(f"{folder}/m", given.puts, given.size, merger=merger)
    with tempfile.TemporaryDirectory() as folder:
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER, f"{folder}/m"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert other.stdout is not None
        other.stdout.readline()
        other.send_signal(signal.SIGSTOP)  # it has the merger
        try:
            result["stopped merger"] = measured(f"{folder}/m", given.puts, given.size)
        finally:
            other.send_signal(signal.SIGCONT)
            other.communicate()
    print(json.dumps(result, indent=2))


def measured(folder: str, count: int, size: int, **options: Any) -> dict[str, Any]:
    value = bytes(size)
    with blocking.open_map(
        folder, key=str, value=bytes, inbox_bytes=64 * 1024 * 1024, **options
    ) as m:
        if options:
            m["first"] = value
            m.wait_merged()  # whoever merges has begun
        return {
            "put": times(count, lambda number: m.__setitem__(f"k{number % KEYS}", value)),
            "get": times(count, lambda number: m.get(f"k{number % KEYS}")),
        }


def times(count: int, call: Callable[[int], Any]) -> dict[str, float]:
    """Microseconds."""
    took = []
    clock = time.perf_counter
    begun = clock()
    for number in range(count):
        before = clock()
        call(number)
        took.append(clock() - before)
    total = clock() - begun
    took.sort()
    return {
        "per_second": round(count / total),
        **{
            name: round(took[min(int(count * share), count - 1)] * 1e6, 1)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0))
        },
    }


if __name__ == "__main__":
    main()
