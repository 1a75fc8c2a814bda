"""A state provider that raises: the joiner gets the error, and the members live and still exchange messages."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.commands.mperf_ports import private_attributes

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]
WAIT = 60.0


class Peer:
    """A process, its lines so far, and its log."""

    def __init__(self, stack: Path, name: str, begin: str, how: str, log: Path) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, str(Path(__file__).parent / "state_peer.py")),
                    *(str(stack), name, begin, how),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        self.lines: list[str] = []
        self._coming: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):  # the test has closed it
            for line in self.process.stdout:
                self._coming.put(line.strip())

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, wanted: str) -> str:
        """Return the next unread line that begins with this text."""
        until = time.monotonic() + WAIT
        while True:
            try:
                line = self._coming.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(
                    f"no {wanted!r}: {self.lines}, ended with {self.process.poll()}\n"
                    + self.log.read_text()
                ) from None
            self.lines.append(line)
            if line.startswith(wanted):
                return line

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[dict[str, Peer]]:
    """A, B and C over TCP, whose providers work. ``start`` starts further ones."""
    config = load_stack("tcp.xml")
    stack = tmp_path / "stack.xml"
    stack.write_text(to_xml(with_attributes(config, private_attributes(config, 6))))
    found: dict[str, Peer] = {}
    with ExitStack() as cleanup:

        def start(name: str, begin: str, how: str = "works") -> Peer:
            peer = found[name] = Peer(stack, name, begin, how, tmp_path / f"{name}.log")
            cleanup.enter_context(peer.process)
            cleanup.callback(peer.process.kill)
            return peer

        start("A", "first").wait("view 1")
        start("B", "first").wait("view 2")
        start("C", "first").wait("view 3")
        found["A"].wait("view 3")
        found["B"].wait("view 3")
        test = found.copy()
        test["start"] = start  # type: ignore[assignment]
        yield test


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "ValueError: no state today"),
        ("raises-late", "KeyError: 'half of it'"),
        ("no-bytes", "yielded int"),
        ("group", "ExceptionGroup: several"),
    ],
)
def test_a_provider_that_raises_harms_nobody(peers: dict[str, Peer], how: str, said: str) -> None:
    start = peers.pop("start")
    for peer in peers.values():
        peer.say(f"provide {how}")
        peer.wait("provides")
    joiner = start("D", "join")  # type: ignore[operator]
    error = joiner.wait("error StateTransferError")
    assert said in error
    assert joiner.process.wait(WAIT) == 0

    for name, peer in peers.items():
        assert peer.lives, (name, peer.log.read_text())
    for name, peer in peers.items():
        peer.say(f"say still here, says {name}")
    for peer in peers.values():
        for name in "ABC":
            while f"{name}: still here, says {name}" not in peer.lines:
                peer.wait("")

    for name, peer in peers.items():
        log = peer.log.read_text()
        assert log.count("the state provider") == 1, (name, log)
        assert log.count("Traceback") == (how != "no-bytes"), (name, log)

    for peer in peers.values():
        peer.say("provide works")
        peer.wait("provides")
    late = start("E", "join")  # type: ignore[operator]
    assert late.wait("state") == "state the state"
    late.say("say I have it")
    peers["A"].wait("E: I have it")
