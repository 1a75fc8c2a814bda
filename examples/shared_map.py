"""Two hosts with two worker processes each share two maps: a counter and sessions.

Here both hosts are this machine: each has a folder of its own. Workers of one host share its folder, and one of them replicates.

python examples/shared_map.py
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from jgroups_py import blocking
from jgroups_py.blocking.maps import Map
from jgroups_py.maps import PnCounter

PORT = int(os.environ.get("JGROUPS_BIND_PORT", "8075")) + 1
WORKERS = (1, 1, 2, 2)
"""The host of each worker."""


def hits(folder: Path, host: int) -> Map:
    """Add to a number that all hosts share. No addition is lost."""
    place = f"127.0.0.1:{PORT}"
    return blocking.open_map(
        folder / f"hits{host}",
        name="hits",
        key=str,
        rule=PnCounter(),
        identifier=host,
        listen=place if host == 1 else None,
        peers=[] if host == 1 else [place],
    )


def sessions(folder: Path, host: int) -> Map:
    place = f"127.0.0.1:{PORT + 1}"
    return blocking.open_map(
        folder / f"sessions{host}",
        name="sessions",
        key=str,
        value="json",
        identifier=host,
        listen=place if host == 1 else None,
        peers=[] if host == 1 else [place],
    )


def work(folder: Path, host: int, over: int) -> None:
    with hits(folder, host) as counter, sessions(folder, host) as people:
        for _ in range(100):
            counter.increment("/")
        people[f"worker {os.getpid()}"] = {"host": host}
        os.read(over, 1)  # until the parent has read the values


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        over, end = os.pipe()
        workers = []
        for host in WORKERS:  # like servers that fork their workers
            pid = os.fork()
            if pid == 0:
                os.close(end)
                work(folder, host, over)
                os._exit(0)
            workers.append(pid)
        with (
            hits(folder, 1) as one,
            hits(folder, 2) as two,
            sessions(folder, 1) as here,
            sessions(folder, 2) as there,
        ):
            until = time.monotonic() + 40
            while time.monotonic() < until and not (
                one.get("/") == two.get("/") == 400 and len(here) == len(there) == 4
            ):
                time.sleep(0.05)
            print(f"host 1 counts {one.get('/')}, host 2 counts {two.get('/')}")
            print("the sessions are the same:", dict(here) == dict(there))
            os.close(end)
            for pid in workers:
                os.waitpid(pid, 0)


main()
