"""A bucket store in real processes with callers over HTTP at each node. A node is killed or stopped: the history of all
callers is linearizable, and no lock ever has two holders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from http_callers import LEASES, LOCKS, NUMBERS, WORDS, Caller, Door

from jgroups_py.config.settings import load_stack
from jgroups_py.testing import Operation, Registers, check_history
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

NODES = ("n1", "n2", "n3")
CALLERS = 2
"""Callers at each door."""
QUICK = "{FD_ALL3.timeout: 2s, FD_ALL3.interval: 400ms, VERIFY_SUSPECT2.timeout: 400ms}"


class Store:
    """The processes of a bucket store."""

    def __init__(self, folder: Path) -> None:
        places = private_attributes(load_stack("tcp.xml"), len(NODES) + 3)
        doors = free_block(len(NODES))
        self.doors = {name: doors + number for number, name in enumerate(NODES)}
        self.file = folder / "http.yaml"
        lines = "\n".join(f"  {name}: {{}}" for name in NODES)
        self.file.write_text(
            f"name: http-{doors}\nbuckets: 9\nstack: tcp.xml\nset: {QUICK}\n"
            f"application: jgroups_py.buckets.items.bucket_items:ITEMS\nnodes:\n{lines}\n"
        )
        self._where = ["--bind-addr", "127.0.0.1"]
        for name, value in places.items():
            self._where += ["--set", f"{name}={value}"]
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "jgroups_py", "buckets", *words, *self._where]

    def start(self, name: str) -> None:
        words = ["node", str(self.file), name, "--for", "60s"]
        self.running[name] = subprocess.Popen(
            self._command(*words, "--http", f"127.0.0.1:{self.doors[name]}"),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def ready(self, name: str) -> None:
        out = self.running[name].stdout
        assert out is not None
        for line in out:
            if b"are placed" in line:
                return
        raise AssertionError(f"{name} has ended")

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def order(self, order: str) -> None:
        ended = subprocess.run(
            self._command(order, str(self.file), "--for", "60s"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{order}: {ended.stdout}{ended.stderr}"

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)


@contextmanager
def opened_store(folder: Path) -> Iterator[Store]:
    store = Store(folder)
    try:
        for name in NODES:
            store.start(name)
        for name in NODES:
            store.ready(name)
        yield store
    finally:
        store.end()


class Run:
    """The callers of one run."""

    def __init__(self, store: Store, seed: int) -> None:
        self._ending = threading.Event()
        self.callers = [
            Caller(f"{name}/{number}", port, seed, self._ending)
            for name, port in store.doors.items()
            for number in range(CALLERS)
        ]
        door = Door(store.doors["n1"])
        for key in NUMBERS:
            assert door.ask("PUT", key, body="0").status == 201
        door.close()
        for caller in self.callers:
            caller.start()

    def end(self) -> None:
        self._ending.set()
        for caller in self.callers:
            caller.join(60)
            assert not caller.is_alive(), f"{caller.name} waits for ever"

    def served(self, names: Sequence[str], seconds: float = 60.0) -> None:
        """Wait until every caller at these nodes has a further answer."""
        begun = until = time.monotonic()
        until += seconds
        for caller in self.callers:
            while caller.name.partition("/")[0] in names and caller.last < begun:
                assert time.monotonic() < until, f"{caller.name} has no answer"
                time.sleep(0.02)

    @property
    def known(self) -> list[Any]:
        """The operations with a known result."""
        return [one for one in self.history if one.known]

    @property
    def holdings(self) -> int:
        return sum(len(caller.held) for caller in self.callers)

    def goes_on_until_it_tells(self, seconds: float = 60.0) -> None:
        """Wait until the history has enough calls to prove something. The number of a second depends on the machine."""
        until = time.monotonic() + seconds
        while not (
            len(self.known) > 300
            and self.holdings > 20
            and {one.what.name for one in self.known} == {*NUMBERS, *WORDS, *LOCKS}
        ):
            assert [problem for caller in self.callers for problem in caller.problems] == []
            assert time.monotonic() < until, f"{len(self.known)} calls, {self.holdings} locks"
            time.sleep(0.1)

    @property
    def history(self) -> list[Operation]:
        return [one for caller in self.callers for one in caller.history]

    def judge(self) -> None:
        assert [problem for caller in self.callers for problem in caller.problems] == []
        for key in (*LOCKS, *LEASES):
            times = sorted(
                (begin, end) for c in self.callers for lock, begin, end in c.held if lock == key
            )
            for (_, end), (begin, _) in pairwise(times):
                assert end <= begin, f"two holders of {key} at {begin}"
        verdict = check_history(
            self.history, Registers(dict.fromkeys(NUMBERS, 0)), steps_max=3_000_000
        )
        assert verdict.linearizable is True, verdict


def fail(store: Store, run: Run, fault: str, name: str, seconds: float) -> None:
    """Kill a node and bring it back, or stop it for some seconds."""
    others = [one for one in NODES if one != name]
    if fault == "kill":
        store.kill(name)
        run.served(others)
        store.start(name)
        store.ready(name)
        store.order("recreate")
        store.order("restore")
    else:
        store.running[name].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        store.running[name].send_signal(signal.SIGCONT)
    run.served(NODES)


def played(folder: Path, seed: int, faults: Sequence[tuple[str, str, float]]) -> Run:
    with opened_store(folder) as store:
        run = Run(store, seed)
        try:
            for fault, name, seconds in faults:
                time.sleep(1.0)
                fail(store, run, fault, name, seconds)
            time.sleep(1.0)
            run.goes_on_until_it_tells()
        finally:
            run.end()
    return run


@pytest.mark.sockets
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_callers_over_http_agree_when_a_node_is_lost(fault: str, tmp_path: Path) -> None:
    run = played(tmp_path, 1, [(fault, "n1", 1.5)])
    run.judge()
