"""Members in processes of their own: commands that measure start, read and end them; and the members' own side. The
processes here are pipes in memory."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_one_way_pair

from jgroups_py.driver.unwrap import leaves
from jgroups_py.tools.child_side import forward_lines, run_child, set_at_first_line
from jgroups_py.tools.children import Child, ChildError, ready_children


class FakeProcess:
    """A process that prints the given lines, and ends with its standard input, or when it is killed."""

    def __init__(self, *events: str, ended: str = "", obeys: bool = True) -> None:
        self.stdin, self._words = memory_stream_one_way_pair()
        self._says, self.stdout = memory_stream_one_way_pair()
        self._complains, self.stderr = memory_stream_one_way_pair()
        self.events = events
        self.ended = ended
        """The child's last lines on standard error, after which it ends by itself; empty: it goes on."""
        self.obeys = obeys
        self.returncode: int | None = None
        self.killed = False
        self._over = trio.Event()

    async def run(self) -> None:
        for event in self.events:
            await self._says.send_all(json.dumps({"event": event}).encode() + b"\n")
        if not self.ended:
            async for _ in self._words:
                pass
            if not self.obeys:
                return
        await self._complains.send_all(self.ended.encode())
        await self._end(2 if self.ended else 0)

    async def _end(self, code: int) -> None:
        self.returncode = code
        await self._says.aclose()
        await self._complains.aclose()
        self._over.set()

    async def wait(self) -> None:
        await self._over.wait()

    def kill(self) -> None:
        self.killed = True
        self.returncode = -9
        self._over.set()


async def played(*processes: FakeProcess, seconds: float = 5.0) -> list[str]:
    """Start the children with these processes, and return the names of those that were ready."""

    async def start(number: int) -> Any:
        nursery.start_soon(processes[number].run)
        return processes[number]

    async with trio.open_nursery() as nursery:
        names = [f"M{number + 1}" for number in range(len(processes))]
        async with ready_children(names, start, seconds, missing="no view of 2") as children:
            return [child.name for child in children]
    raise AssertionError


async def test_children_that_are_ready_leave_at_the_end(autojump_clock: object) -> None:
    one, two = FakeProcess("other", "ready"), FakeProcess("ready")
    assert await played(one, two) == ["M1", "M2"]
    assert (one.returncode, two.returncode) == (0, 0)
    assert not one.killed and not two.killed
    assert trio.current_time() < 1


@pytest.mark.parametrize(
    ("average", "seconds", "busy"),
    [(1.0, 8, ""), (24.0, 80, " (12.0 processes wait for each core)")],
)
async def test_a_child_that_does_not_leave_is_killed(
    average: float,
    seconds: float,
    busy: str,
    autojump_clock: object,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    one, two = FakeProcess("ready"), FakeProcess("ready", obeys=False)
    began = trio.current_time()
    await played(one, two)
    assert (one.killed, two.killed) == (False, True)
    assert seconds <= trio.current_time() - began < seconds + 1
    assert caplog.messages == [f"member M2 has not left within {seconds} s{busy}: killed"]


@pytest.mark.parametrize(
    ("average", "seconds", "busy"),
    [(1.0, 3, ""), (24.0, 30, " (12.0 processes wait for each core)")],
)
async def test_children_that_are_late_are_told_and_leave(
    average: float,
    seconds: float,
    busy: str,
    autojump_clock: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (average, 0.0, 0.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    one, two = FakeProcess("ready"), FakeProcess()
    began = trio.current_time()
    with pytest.raises(ExceptionGroup) as raised:
        await played(one, two, seconds=3.0)
    assert seconds <= trio.current_time() - began < seconds + 1
    (error,) = leaves(raised.value)
    assert isinstance(error, ChildError)
    assert str(error) == f"no view of 2 within {seconds} s{busy}"
    assert (one.returncode, two.returncode) == (0, 0)


async def test_the_last_lines_of_a_child_that_died_are_reported(autojump_clock: object) -> None:
    one, two = FakeProcess("ready"), FakeProcess(ended="Traceback\nConfigError: no such stack\n")
    with pytest.raises(ExceptionGroup) as raised:
        await played(one, two)
    (error,) = leaves(raised.value)
    assert isinstance(error, ChildError)
    assert str(error) == "member M2 ended early: ConfigError: no such stack"
    assert one.returncode == 0


async def test_children_of_a_command_that_is_interrupted_leave(autojump_clock: object) -> None:
    process = FakeProcess("ready")

    async def start(number: int) -> Any:
        nursery.start_soon(process.run)
        return process

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as interrupted:
            async with ready_children(["M1"], start, 5.0, missing=""):
                interrupted.cancel()
                await trio.sleep_forever()
        assert (process.returncode, process.killed) == (0, False)


async def test_the_others_start_when_the_first_has_had_its_lead(autojump_clock: object) -> None:
    started: list[tuple[int, float]] = []
    joined: list[int] = []
    async with trio.open_nursery() as nursery:

        async def start(number: int) -> Any:
            started.append((number, round(trio.current_time() - began, 1)))
            process = FakeProcess("ready")
            nursery.start_soon(process.run)
            return process

        began = trio.current_time()
        async with ready_children(
            "ABC", start, 5.0, missing="", lead=0.5, joined=joined.append
        ) as children:
            assert all(isinstance(child, Child) for child in children)
    assert started == [(0, 0.0), (1, 0.5), (2, 0.5)]
    assert joined == [1, 2, 3]


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the parent's end of a pipe that plays standard input."""
    read, write = os.pipe()
    monkeypatch.setattr(os, "dup", lambda number: read)
    with open(write, "wb", buffering=0) as end:
        yield end


async def test_a_child_begins_at_the_first_line_and_leaves_at_the_end_of_its_input(
    parent: Any,
) -> None:
    begin, stay = trio.Event(), trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(set_at_first_line, begin, stay)
        with trio.fail_after(30), stay:
            await trio.testing.wait_all_tasks_blocked()
            assert not begin.is_set()
            parent.write(b'{"go": true}\n')
            await begin.wait()
            assert not stay.cancel_called
            parent.close()
            await trio.sleep_forever()


async def test_a_child_hears_every_line_and_leaves_at_the_end_of_its_input(parent: Any) -> None:
    told, words = trio.open_memory_channel[dict[str, Any]](2)
    stay = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(forward_lines, told, stay)
        with trio.fail_after(30), stay:
            parent.write(b'{"start": 1}\n{"tot')
            assert await words.receive() == {"start": 1}
            parent.write(b'als": [2]}\n')
            assert await words.receive() == {"totals": [2]}
            parent.close()
            await trio.sleep_forever()


@pytest.mark.parametrize(
    ("error", "last"),
    [
        (ChildError("no such stack"), "no such stack"),
        (ExceptionGroup("", [ExceptionGroup("", [ValueError("odd")])]), "ValueError: odd"),
    ],
)
def test_the_last_line_of_a_child_that_fails_tells_why(
    error: Exception,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    async def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as ended:
        run_child(fail)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == last
