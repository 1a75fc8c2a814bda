"""Locks and counters of a live node with two backups, in real processes, while the live node is killed or stopped: the
history of all callers is linearizable, and no lock ever has two holders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from cache_peers import go_on, said
from locking import Asked, Things

from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.testing import NEVER, UNKNOWN, Operation, check_history
from jgroups_py.tools.commands.mperf_ports import private_attributes

NAMES = "ABC"
CALLERS = 4
QUICK = {
    "FD_ALL3.timeout": "2s",
    "FD_ALL3.interval": "400ms",
    "VERIFY_SUSPECT2.timeout": "400ms",
}
PEER = Path(__file__).with_name("locking_peer.py")


class Group:
    """Three processes. Each start of a process has a file of its own."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed = folder, seed
        self._stack = folder / "stack.xml"
        config = load_stack("tcp.xml")
        self._stack.write_text(
            to_xml(with_attributes(config, {**private_attributes(config, len(NAMES)), **QUICK}))
        )
        self.files: list[Path] = []
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        file = self._folder / f"{name}{len(self.files)}"
        self.files.append(file)
        words = [str(self._stack), name, str(len(NAMES)), str(CALLERS), str(self._seed), str(file)]
        self.running[name] = subprocess.Popen(
            [sys.executable, str(PEER), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, name: str) -> None:
        """Wait until a started process is ready, and let its callers begin."""
        assert said(self.running[name]) == "ready"
        go_on(self.running[name])

    def live(self) -> str:
        """Return the node whose calls return, as soon as there is one. Members that were apart merge within about a minute."""
        until = time.monotonic() + 120
        sizes = {file: file.read_text().count('"result"') for file in self.files if file.exists()}
        while time.monotonic() < until:
            time.sleep(0.1)
            for file in self.files:
                # A node that was stopped may still note a result for each caller.
                known = sizes.get(file, 0) + CALLERS
                if file.exists() and file.read_text().count('"result"') > known:
                    return file.name[0]
        raise AssertionError("no call returns any more")

    def goes_on_until_it_tells(self) -> None:
        """Wait until the history has enough calls to prove something. The number of a second depends on the machine."""
        until = time.monotonic() + 60
        while True:
            history = history_of(self.files)
            known, held = sum(op.known for op in history), sum(map(len, holdings(history).values()))
            if known > 200 and held > 10:
                return
            assert time.monotonic() < until, f"{known} calls, {held} locks"
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()

    def end(self) -> list[dict[str, Any]]:
        """End the calls. Return the statistics of each process."""
        for process in self.running.values():
            go_on(process)
        return [json.loads(said(process)) for process in self.running.values()]


@contextmanager
def group(folder: Path, seed: int) -> Iterator[Group]:
    found = Group(folder, seed)
    try:
        for name in NAMES:
            found.start(name)
        for name in NAMES:
            found.begin(name)
        yield found
    finally:
        for name in list(found.running):
            found.kill(name)


def history_of(files: Sequence[Path]) -> list[Operation]:
    history = []
    for file in files:
        asked: dict[int, dict[str, Any]] = {}
        back: dict[int, dict[str, Any]] = {}
        for line in (
            file.read_text().rpartition("\n")[0].splitlines()
        ):  # the last one may be half written
            record = json.loads(line)
            (asked if "do" in record else back)[record["number"]] = record
        for number, call in asked.items():
            answer = back.get(number)
            if answer and answer.get("definite"):
                continue
            # A process that comes back has callers of the same names, so the file is a part of the name.
            what = Asked(call["do"], call["name"], tuple(call["arguments"]))
            caller = f"{file.name}:{call['caller']}"
            if answer is not None:
                history.append(Operation(caller, what, call["t"], answer["t"], answer["result"]))
            elif what.do != "value":
                history.append(Operation(caller, what, call["t"], NEVER, UNKNOWN))
    return history


def holdings(history: Sequence[Operation]) -> dict[str, list[tuple[float, float]]]:
    """Return, by lock, the times in which a caller was certain to hold it, ordered by begin."""
    found: dict[str, list[tuple[float, float]]] = {}
    left: dict[str, list[float]] = {}
    for one in history:
        if one.what.do == "leave":
            left.setdefault(one.caller, []).append(one.call)
    for one in history:
        if one.what.do == "take" and one.known and one.result:
            _, at, lease = one.what.arguments
            ends = [call for call in left.get(one.caller, ()) if call >= one.returned]
            end = min([*ends, at + lease])
            if end > one.returned:
                found.setdefault(one.what.name, []).append((one.returned, end))
    return {name: sorted(times) for name, times in found.items()}


def judge(history: Sequence[Operation]) -> None:
    for name, times in holdings(history).items():
        for (_, end), (begin, _) in pairwise(times):
            assert end <= begin, f"two holders of {name} at {begin}"
    verdict = check_history(history, Things(), steps_max=3_000_000)
    assert verdict.linearizable is True, verdict


def run(folder: Path, seed: int, faults: Sequence[str], stopped: float = 6.0) -> list[Operation]:
    """Carry out the faults on the node that is live at that time. Return the history."""
    with group(folder, seed) as found:
        for number, fault in enumerate(faults):
            time.sleep(0.5)
            live = found.live()
            if fault == "kill":
                found.kill(live)
                found.live()
                found.start(live)
                found.begin(live)
            else:
                process = found.running[live]
                process.send_signal(signal.SIGSTOP)
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                if number == 0:
                    found.live()  # the two others have a quorum; later one of them may still be apart
                time.sleep(stopped)
                process.send_signal(signal.SIGCONT)
        found.live()
        found.goes_on_until_it_tells()
        found.end()
    return history_of(found.files)


@pytest.mark.sockets
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_no_lock_has_two_holders_when_the_live_node_is_lost(fault: str, tmp_path: Path) -> None:
    history = run(tmp_path, 1, [fault, fault])
    assert sum(op.known for op in history) > 200
    assert len({op.caller[0] for op in history if op.known}) > 1, "another node went on"
    assert sum(map(len, holdings(history).values())) > 10
    judge(history)


def test_the_judge_sees_two_holders_and_a_stale_read() -> None:
    grants = [
        Operation("A", Asked("take", "x", ("A", 0.0, 1.0)), 0.0, 0.1, 1),
        Operation("B", Asked("take", "x", ("B", 0.2, 1.0)), 0.2, 0.3, 2),
    ]
    with pytest.raises(AssertionError, match="two holders of x"):
        judge(grants)
    with pytest.raises(AssertionError):
        judge(
            [
                Operation("A", Asked("add", "x", (1,)), 0.0, 0.1, 1),
                Operation("B", Asked("value", "x"), 0.2, 0.3, 0),
            ]
        )
