"""Three processes chat over UDP and over TCP, and leave when they are asked to."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from commands import run_here

Start = Callable[..., "Chat"]
PATIENCE = 100.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""


class Chat:
    """A chat process; its output is collected."""

    def __init__(self, name: str, *options: str) -> None:
        command = [sys.executable, "-m", "jgroups_py.tools", "chat", "--name", name, *options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        print(text, file=self.process.stdin, flush=True)

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while not any(text in line for line in self.lines):
            if not self._reader.is_alive() or time.monotonic() > end:
                self.process.kill()
                self._reader.join()
                raise AssertionError(f"no {text!r} in {self.lines}: {self.error()}")
            time.sleep(0.02)

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def error(self) -> str:
        """Return the lines on standard error. A member says after 10 s that it is alone; on a busy machine the next one comes later."""
        assert self.process.stderr is not None
        return "".join(line for line in self.process.stderr if "is alone in its group" not in line)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass
        self._reader.join(5)


@pytest.fixture
def chat() -> Iterator[Start]:
    started: list[Chat] = []

    def start(name: str, *options: str) -> Chat:
        started.append(Chat(name, *options))
        return started[-1]

    yield start
    for one in started:
        one.close()


def options(stack: str, port: int) -> list[str]:
    """Return options for members on ``port``. A joiner waits long for an answer; otherwise it would found a group of its own when others
    are not run for a second."""
    waits = ["--set", "GMS.join_timeout=30s"]
    if stack == "tcp.xml":
        hosts = f"127.0.0.1[{port}],127.0.0.1[{port + 1}],127.0.0.1[{port + 2}]"
        return [*waits, "--stack", stack, "--set", f"TCP.bind_port={port}",
                "--set", f"TCPPING.initial_hosts={hosts}", "--set", "TCPPING.port_range=0",
                "--set", "FD_SOCK2.offset=4"]  # fmt: skip
    return [*waits, "--stack", stack, "-D", f"jgroups.udp.mcast_port={port}"]


@pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])
def test_three_processes_chat_with_each_other(
    chat: Start, stack: str, port: int, multicast: object
) -> None:
    members = []
    for name in ("Ann", "Bob", "Cid"):
        members.append(chat(name, *options(stack, port)))
        members[-1].wait_for(f", {name}]" if name != "Ann" else "[Ann|0] (1) [Ann]")
    ann, bob, cid = members
    ann.wait_for("** Bob came; [Ann|1] (2) [Ann, Bob]")
    ann.wait_for("** Cid came; [Ann|2] (3) [Ann, Bob, Cid]")
    ann.say("hello")
    bob.say("héllo \x1b[2J")
    for one in members:
        one.wait_for("Ann: hello")
        one.wait_for("Bob: héllo �[2J")
    cid.say("/quit")
    assert cid.ended() == 0
    bob.wait_for("** Cid left; [Ann|3] (2) [Ann, Bob]")
    bob.process.send_signal(signal.SIGTERM)
    assert bob.ended() == 128 + signal.SIGTERM
    ann.wait_for("** Bob left; [Ann|4] (1) [Ann]")
    ann.process.send_signal(signal.SIGINT)
    assert ann.ended() == 128 + signal.SIGINT
    assert ann.error() == ""


def test_input_from_a_pipe_is_sent_and_printed(port: int, multicast: object) -> None:
    command = [sys.executable, "-m", "jgroups_py.tools", "chat", "--name", "Ann"]
    done = subprocess.run(
        [*command, *options("udp.xml", port)],
        input="one\n/view\ntwo",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if "**" not in line] == [
        "Ann: one",
        "Ann: two",
    ]
    assert "** [Ann|0] (1) [Ann]" in done.stdout
    assert done.returncode == 0


def test_a_mistake_is_one_line(port: int) -> None:
    code, _, err = run_here("chat", "--set", "UDP.colour=red")
    assert code == 2
    assert err.count("\n") == 1
    assert "UDP.colour" in err
