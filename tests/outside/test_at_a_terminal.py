"""`jgroups-py chat` and `cache` on a terminal, as a person uses them.

Messages of others do not break the line that a person is typing; a shell remembers typed lines.
"""

from __future__ import annotations

import codecs
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 60.0


class Person:
    """A person at a terminal of 80 columns. ``screen``: the visible lines."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(self.ours)[:4]
        """The settings of the terminal."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jgroups_py", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
            start_new_session=True,
        )
        os.close(theirs)
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def read(self, seconds: float = 0.1) -> None:
        while select.select([self.ours], [], [], seconds)[0]:
            try:
                data = os.read(self.ours, 65536)
            except OSError:  # the other end was closed
                return
            if not data:
                return
            self.raw += self._decoder.decode(data)

    @property
    def screen(self) -> list[str]:
        """The lines that a terminal shows after the control sequences that programs of ours use."""
        lines, row, column = [""], 0, 0
        for token in re.findall(r"\x1b\[\??[0-9;]*[A-Za-z]|[\s\S]", self.raw):
            number = int(re.sub(r"[^0-9]", "", token) or 1) if token.startswith("\x1b") else 0
            if token == "\n":
                row, column = row + 1, 0
                lines += [""] * (row + 1 - len(lines))
            elif token == "\r":
                column = 0
            elif token == "\x1b[K":
                lines[row] = lines[row][:column]
            elif token == "\x1b[2K":
                lines[row] = ""
            elif token.startswith("\x1b") and token.endswith("A"):
                row = max(0, row - number)
            elif token.startswith("\x1b") and token.endswith("C"):
                column += number
            elif token == "\x08":
                column -= 1
            elif not token.startswith("\x1b"):
                lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + 1 :]
                column += 1
        return [line.rstrip() for line in lines]

    def wait_for(self, text: str) -> None:
        self._wait(lambda: any(text in line for line in self.screen), text)

    def wait_for_last(self, text: str) -> None:
        """Wait until this is the last line."""
        self._wait(lambda: self.screen[-1] == text, text)

    def _wait(self, holds: Callable[[], bool], text: str) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, f"no {text!r} in {self.screen}"
            self.read()

    def leave(self) -> int:
        self.type("\x04")
        code = self.process.wait(PATIENCE)
        self.read()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.ours)


@pytest.fixture
def chatting(request: pytest.FixtureRequest) -> Iterator[Any]:
    people: list[Person] = []

    def start(name: str) -> Person:
        cluster = f"chat-{os.getpid()}-{request.node.name[-20:]}"
        patient = (
            "--set",
            "GMS.join_timeout=20s",
        )  # a busy machine may not run the other for seconds
        people.append(Person("chat", "--cluster", cluster, "--name", name, *patient))
        return people[-1]

    yield start
    for person in people:
        person.close()


@pytest.mark.sockets
def test_messages_appear_above_the_line_that_is_typed(chatting: Any) -> None:
    ada = chatting("Ada")
    ada.wait_for("[Ada|0] (1) [Ada]")
    ada.type("half a sent")
    ada.wait_for("half a sent")
    bob = chatting("Bob")
    ada.wait_for("** Bob came; [Ada|1] (2) [Ada, Bob]")
    bob.wait_for("[Ada|1] (2) [Ada, Bob]")
    bob.type("hello from Bob\r")
    ada.wait_for("Bob: hello from Bob")
    ada.wait_for_last("> half a sent")
    assert not any("half" in line for line in ada.screen[:-1]), ada.screen
    ada.type("ence\r")
    bob.wait_for("Ada: half a sentence")
    ada.wait_for("> half a sentence")
    assert bob.leave() == 0
    ada.wait_for("** Bob left; [Ada|2] (1) [Ada]")
    ada.type("/view\r")
    ada.wait_for("** [Ada|2] (1) [Ada]")
    assert ada.leave() == 0


@pytest.mark.sockets
def test_the_line_is_edited_with_the_usual_keys(chatting: Any) -> None:
    ada, bob = chatting("Ada"), chatting("Bob")
    ada.wait_for("(2) [")
    bob.wait_for("(2) [")
    ada.type("helo\x1b[Dl\x05 wrold\x17world\r")
    bob.wait_for("Ada: hello world")
    ada.type("\x1b[A!\r")
    bob.wait_for("Ada: hello world!")


def shell(home: Path, *lines: str) -> Person:
    person = Person("cache", "--cache", "local.xml", XDG_STATE_HOME=str(home), HOME=str(home))
    person.wait_for("cache>")
    for line in lines:
        person.type(f"{line}\r")
        person.wait_for(f"cache> {line}" if line.isprintable() else "cache>")
    return person


def test_the_shell_remembers_the_lines_of_the_last_time(tmp_path: Path) -> None:
    first = shell(tmp_path, "put /a k 1", "get /a k")
    try:
        assert first.leave() == 0
    finally:
        first.close()
    file = tmp_path / "jgroups-py" / "cache-history"
    assert file.read_text().splitlines() == ["put /a k 1", "get /a k"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    second = shell(tmp_path)
    try:
        second.type("\x1b[A\x1b[A")
        second.wait_for("cache> put /a k 1")
        second.type("0\r")
        second.type("get /a k\r")
        second.wait_for("10")
    finally:
        second.close()


def test_the_history_is_bounded_and_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "jgroups-py" / "cache-history"
    file.parent.mkdir()
    file.write_text("".join(f"get /{n}\n" for n in range(5000)))
    file.chmod(0o644)
    person = shell(tmp_path, "members")
    try:
        person.leave()
    finally:
        person.close()
    lines = file.read_text().splitlines()
    assert len(lines) <= 1001 and lines[-2:] == ["get /4999", "members"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate", "--seeds", "1..2"], "2 runs, 0 violations"),
        (["fuzz", "--inputs", "300", "--target", "kind:utf", "--jobs", "1"], "0 findings"),
    ],
)
def test_shown_progress_is_erased_at_the_end(words: list[str], said: str) -> None:
    person = Person(*words)
    try:
        person.wait_for(said)
        person.process.wait(PATIENCE)
        person.read()
        seen = "\n".join(person.screen)
        assert "\x1b[" in person.raw, "nothing was shown meanwhile"
        assert "seeds" not in seen and "fuzz:" not in seen and "\u2501" not in seen, seen
    finally:
        person.close()


@pytest.mark.sockets
@pytest.mark.parametrize("command", ["chat", "cache"])
def test_an_interrupt_leaves_the_terminal_as_it_was(command: str, tmp_path: Path) -> None:
    options = {"chat": ["--cluster", f"chat-{os.getpid()}"], "cache": ["--cache", "local.xml"]}
    person = Person(command, *options[command], XDG_STATE_HOME=str(tmp_path))
    try:
        person.wait_for(">")
        person.type("half a line")
        person.wait_for("> half a line")
        person.process.send_signal(signal.SIGINT)
        assert person.process.wait(PATIENCE) == 130
        assert termios.tcgetattr(person.ours)[:4] == person.before
    finally:
        person.close()
