"""A process is stopped for longer than the others wait, and goes on (formerly it kept its old view for 37
s, ``send`` succeeded, and 76 messages vanished)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.tools.commands.mperf_ports import free_block

PEER = Path(__file__).with_name("talking_peer.py")
NAMES = ("A", "B", "C")
QUICK = {
    "FD_ALL3.timeout": "5s",
    "FD_ALL3.interval": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
    # Announcements come no sooner than with udp.xml: the merge must not depend on more frequent ones.
    "MERGE3.min_interval": "120s",
    "MERGE3.max_interval": "240s",
    "GMS.join_timeout": "20s",
}
WAIT = 40.0
"""Seconds. The first announcement comes after three times as many."""
Row = dict[str, Any]

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason=f"no SIGSTOP on {sys.platform}"),
]


class Peer:
    """One process; ``rows``: its printed lines."""

    def __init__(self, stack: str, name: str, attributes: dict[str, str]) -> None:
        command = [sys.executable, str(PEER), stack, name, str(len(NAMES)), json.dumps(attributes)]
        self.name = name
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.rows: list[Row] = []
        self.log: list[str] = []
        self.readers = [threading.Thread(target=read) for read in (self._read, self._read_log)]
        for reader in self.readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            for line in out:
                self.rows.append(json.loads(line))

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as err:
            for line in err:
                self.log.append(line)

    def all(self, what: str, since: int = 0) -> list[Row]:
        return [row for row in self.rows[since:] if row["what"] == what]

    def has(self, sender: str) -> list[int]:
        return [row["number"] for row in self.all("came") if row["sender"] == sender]

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for reader in self.readers:
            reader.join()


def until(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def sees(peer: Peer, members: Sequence[str]) -> bool:
    views = peer.all("view")
    return bool(views) and views[-1]["members"] == list(members)


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    attributes = {**QUICK, "UDP.mcast_port": str(free_block(1))}
    started: list[Peer] = []
    try:
        for name in NAMES:
            started.append(Peer("udp.xml", name, attributes))
            assert until(lambda: sees(started[0], NAMES[: len(started)])), started[0].log
        yield started
    finally:
        for peer in started:
            peer.end()


def numbers(ranges: list[list[int]]) -> list[int]:
    return [number for first, last in ranges for number in range(first, last + 1)]


def test_a_stopped_process_learns_of_its_exclusion_and_its_lost_messages(peers: list[Peer]) -> None:
    a, b, c = peers
    assert until(lambda: len(a.has("C")) > 5), a.log
    c.process.send_signal(signal.SIGSTOP)
    assert until(lambda: sees(a, "AB")), a.log
    time.sleep(2.0)
    before = len(c.rows)
    c.process.send_signal(signal.SIGCONT)
    assert until(lambda: bool(c.all("excluded"))), (
        c.log
    )  # not only when the next announcement comes
    (told,) = c.all("excluded")
    assert told["without"] == ["A", "B"]
    assert until(lambda: c.all("view")[-1]["merged"]), "the merge need not wait for it either"
    order = [row["what"] for row in c.rows[before:] if row["what"] in ("excluded", "view")]
    assert order == ["excluded", "view"]
    first = len(c.rows)
    assert until(lambda: len(c.all("accepted", first)) > 10), c.log
    for peer in peers:
        peer.tell("stop")
    assert until(lambda: all(peer.all("stopped") for peer in peers)), c.log
    accepted = [row["number"] for row in c.all("accepted")]
    for other in (a, b):
        assert until(lambda: accepted[-1] in other.has("C")), other.log  # noqa: B023
    for other in (a, b):
        missing = sorted(set(accepted) - set(other.has("C")))
        assert set(missing) <= set(numbers(told["lost"])), "what send accepted came, or was named"
        if told["certain"]:
            assert missing == numbers(told["lost"])
    assert accepted[-1] > max(numbers(told["lost"]), default=0) + 5, "and it went on"
    if told["lost"]:
        said = ("are lost", "may be lost")
        assert until(lambda: any(words in line for line in c.log for words in said)), c.log
    assert not a.all("excluded") and not b.all("excluded")
