"""Memory of a process that reads much: what is freed stays with it (driver/heap.py), and what is kept takes no more than its size."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
from jgroups_py.driver import heap

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def fill_and_free():
    [bytes(1000) for _ in range(2500)]

if sys.argv[1] == "keep":
    heap.keep()
fill_and_free()
before = faults()
for _ in range(20):
    fill_and_free()
print(faults() - before)
"""


KEPT = """
import random, socket, trio
from pathlib import Path
from jgroups_py.driver import SocketTransport
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Bind, Bound, Datagram

PAIRS = 5000

class Keeping(Machine):
    at = None

    def handle(self, inputs, now):
        for item in inputs:
            if isinstance(item, Bound):
                self.at = item.local
            elif isinstance(item, Datagram) and len(item.data) < 1000:
                kept.append(item.data)

kept = []

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

async def main():
    machine = Keeping("A", random=random.Random(1))
    machine.put(Bind(1, "udp", "127.0.0.1", 0))
    driver = SocketTransport().driver(machine)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.run)
            driver.wake()
            while machine.at is None:
                await trio.sleep(0.001)
            before = resident()
            for count in range(2, PAIRS + 1, 2):
                for size in (60_000, 100, 60_000, 100):
                    sock.sendto(bytes(size), machine.at)
                while len(kept) < count:
                    await trio.sleep(0)
            print(resident() - before)
            nursery.cancel_scope.cancel()

trio.run(main)
"""


@pytest.mark.sockets
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_small_datagrams_that_are_kept_beside_large_ones_take_little_memory() -> None:
    """Each of them kept the 64 KB into which it was read from others."""
    done = subprocess.run([sys.executable, "-c", KEPT], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000_000


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_memory_that_is_freed_and_taken_again_costs_no_faults() -> None:
    assert faults("keep") < 1000 < faults("leave")
