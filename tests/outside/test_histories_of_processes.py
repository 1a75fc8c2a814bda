"""Real processes with callers, one of them killed by SIGKILL: their histories are linearizable.

Replicated caches answer reads from the member's own copy, so the test checks them as reads of that copy
(design/linearizability.md). A read at the killed member of a value that no other caller got proves nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cache_peers import cache_file, go_on, peers, said

from jgroups_py.testing import NEVER, UNKNOWN, Call, Nodes, Operation, check_history

CALLERS, STEPS = 3, 40
KILLED = "C"
CACHES = {
    "replicated": "",
    "buddy": """
  BuddyReplicationConfig:
    buddyReplicationEnabled: true
    buddyLocatorProperties: {numBuddies: 1, ignoreColocatedBuddies: false}
    autoDataGravitation: true
""",
}


@contextmanager
def callers(
    folder: Path, kind: str, seed: int, *, kill: bool
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Three processes. That which is killed has more calls to make, so that it never ends before."""
    program, file = Path(__file__).parent / "history_peer.py", cache_file(folder, 3, CACHES[kind])
    steps = {name: STEPS * (100 if kill and name == KILLED else 1) for name in "ABC"}
    commands = {
        name: [
            *(str(program), str(file), name, "3"),
            *(str(CALLERS), str(steps[name]), str(seed), str(folder / name)),
        ]
        for name in "ABC"
    }
    with peers(commands) as found:
        yield found


def path_of(text: str) -> tuple[str, ...]:
    return tuple(text.strip("/").split("/"))


def node_of(node: dict[str, Any] | None) -> Any:
    return None if node is None else tuple(sorted(node.items()))


def call_of(asked: dict[str, Any], back: dict[str, Any]) -> tuple[Call, Any]:
    """Return a call as the model has it, and its result."""
    path, result = path_of(asked["path"]), back.get("result")
    values = (("v", asked.get("value")),)
    match asked["do"]:
        case "node":
            return Call("node", path), node_of(result)
        case "put":
            return Call("put", path, values), None
        case "batch":
            paths = [path_of(p) for p in asked["paths"]]
            nodes = [node_of(node) for node in back.get("seen", ())]
            changes = tuple(Call("put", p, values) for p in paths)
            # The reads of a batch that did not return are not recorded.
            return Call("batch", seen=tuple(zip(paths, nodes, strict=False)), changes=changes), None
        case "add":
            return Call("add", path, (("n", 1),)), result
        case "cas":
            return Call("cas", path, values, expected=asked["expected"]), result
        case "remove":
            return Call("remove_node", path), result
        case "tree":
            return Call("remove_tree", path), result
    return Call("move", path, to=path_of(asked["to"])), result


def history_of(files: Sequence[Path], kind: str, killed: str) -> list[Operation]:
    history = []
    for file in files:
        asked: dict[int, dict[str, Any]] = {}
        back: dict[int, dict[str, Any]] = {}
        for line in file.read_text().splitlines():
            record = json.loads(line)
            (asked if "do" in record else back)[record["number"]] = record
        for number, call in asked.items():
            answer = back.get(number, {})
            if answer.get("definite"):
                continue
            what, result = call_of(call, answer)
            if answer and not answer.get("failed"):
                own = what.do == "node" or (what.do in ("cas", "move") and not result)
                copy = file.name if own and kind == "replicated" else ""
                history.append(
                    Operation(call["caller"], what, call["t"], answer["t"], result, copy)
                )
            elif what.do != "node":
                history.append(Operation(call["caller"], what, call["t"], NEVER, UNKNOWN))
    unsure = [op for op in history if not op.known]
    return [
        op
        for op in history
        if not (op.caller.startswith(killed) and op.what.do == "node")
        or not any(other.call < op.returned for other in unsure)
    ]


def kill_in_a_call(process: subprocess.Popen[str], file: Path) -> None:
    """Kill a process when it has made a quarter of its calls, and a call that may change something has not returned."""
    until = time.monotonic() + 60
    while True:
        time.sleep(0.005)
        assert time.monotonic() < until, file.read_text()
        process.send_signal(signal.SIGSTOP)
        # Without WEXITED this would wait for ever for a process that has ended.
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert process.poll() is None, file.read_text()
        records = [json.loads(line) for line in file.read_text().splitlines()]
        asked = {one["number"] for one in records if one.get("do", "node") != "node"}
        back = {one["number"] for one in records if "do" not in one}
        if len(back) > CALLERS * STEPS / 4 and asked - back:
            process.kill()
            return
        process.send_signal(signal.SIGCONT)


def run(folder: Path, kind: str, seed: int, *, kill: bool) -> list[Operation]:
    with callers(folder, kind, seed, kill=kill) as found:
        for peer in found.values():
            assert said(peer) == "ready"
        for peer in found.values():
            go_on(peer)
        if kill:
            kill_in_a_call(found.pop(KILLED), folder / KILLED)
        for peer in found.values():
            assert said(peer) == "done"
        for peer in found.values():
            go_on(peer)
        for peer in found.values():
            assert said(peer) == "read 0"
    return history_of([folder / name for name in "ABC"], kind, KILLED if kill else "-")


@pytest.mark.sockets
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kill", [False, True], ids=["all live", "one is killed"])
@pytest.mark.parametrize("kind", CACHES)
def test_the_history_of_processes_is_linearizable(kind: str, kill: bool, tmp_path: Path) -> None:
    history = run(tmp_path, kind, 1, kill=kill)
    assert sum(op.known for op in history) > 150
    if kill:
        assert any(not op.known for op in history)
    verdict = check_history(history, Nodes(), steps_max=1_000_000)
    assert verdict.linearizable is True, verdict
