"""Freed memory stays with a process that reads much (driver/heap.py)."""

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


def faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_memory_that_is_freed_and_taken_again_costs_no_faults() -> None:
    assert faults("keep") < 1000 < faults("leave")
