"""A map that is full, and other processes that give it more room."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from jgroups_py.maps.errors import MapFull
from jgroups_py.maps.shared import SharedFile

SMALL, LARGE = 1 << 20, 1 << 26
OTHER = """
import sys
from pathlib import Path
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.shared import SharedFile
shared = SharedFile(Path(sys.argv[1]), FileSettings(max_bytes=int(sys.argv[2])))
shared.write(sys.argv[3].encode(), b"value")
print(shared.max_bytes(), shared.get(b"k0"))
shared.close()
"""


def other(folder: Path, max_bytes: int, key: str = "other") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OTHER, str(folder), str(max_bytes), key]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def fill(shared: SharedFile) -> int:
    """Fill the map and return the number of puts before it was full."""
    for count in range(1000):
        try:
            shared.write(b"k%d" % count, bytes(3000))
        except MapFull as error:
            told = str(error)
            break
        time.sleep(0.0002)
    else:
        raise AssertionError("it takes 3 MB")
    assert "is full: " in told and "of 1,048,576 bytes (max_bytes) are used" in told
    return count


def until_merged(shared: SharedFile) -> None:
    end = time.monotonic() + 120
    while shared.waiting() > 0:
        assert time.monotonic() < end, shared.problem
        time.sleep(0.005)
    with shared._merger.lock:  # the merger has ended its turn
        pass
