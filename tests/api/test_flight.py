"""The flight recorder of a member, and the command that shows its files."""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from jgroups_py import ConfigError, MemoryNetwork, open_channel
from jgroups_py.channel import flight
from jgroups_py.channel.flight import FlightRecorder, flight_file_of
from jgroups_py.tools.cli import run
from jgroups_py.values.address import IpAddress
from jgroups_py.values.view import View, ViewId


def lines_of(file: Path) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


async def until_there(file: Path) -> list[Mapping[str, Any]]:
    """Wait in real time: a thread writes the file, and virtual time does not wait for it."""
    for _ in range(3000):
        if await trio.to_thread.run_sync(file.exists):
            break
        await trio.to_thread.run_sync(time.sleep, 0.01)
    return lines_of(file)


QUICK = {"FD_ALL3.timeout": "1s", "FD_ALL3.interval": "200ms", "FD_SOCK2.start_port": "0"}


async def test_a_suspicion_is_written_with_the_events_around_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    network, file = MemoryNetwork(), tmp_path / "flight.json"
    async with open_channel(
        "udp.xml", cluster="demo", name="A", transport=network, attributes=QUICK, flight_file=file
    ) as a:
        with trio.CancelScope() as crash:
            async with open_channel(
                "udp.xml", cluster="demo", name="B", transport=network, attributes=QUICK
            ) as b:
                await a.wait_view(2)
                assert not file.exists()
                b.stack.closed = True  # it does not say goodbye
                crash.cancel()
        head, *rest = await until_there(file)
    assert (head["name"], head["cluster"], head["why"]) == ("A", "demo", "members are suspected")
    assert file.stat().st_mode & 0o777 == 0o600
    told = [(line["by"], line["what"]) for line in rest if "what" in line]
    before, after = told[: told.index(("GMS", "suspect"))], told[told.index(("GMS", "suspect")) :]
    assert ("GMS", "view") in before and ("GMS", "view") in after
    (suspect,) = [line for line in rest if (line.get("by"), line.get("what")) == ("GMS", "suspect")]
    assert suspect["details"] == {"members": ["B"]} and suspect["at"] < 0
    protocols = {line["protocol"]: line for line in rest if "protocol" in line}
    assert protocols["FD_ALL3"]["settings"]["timeout"] == "1s"
    assert protocols["GMS"]["counters"]["views_installed"] == 3


async def test_an_error_that_ends_the_channel_is_why(tmp_path: Path) -> None:
    file = tmp_path / "flight.json"
    with pytest.raises(ValueError, match="sesame"):
        async with open_channel(
            "sim.xml", cluster="demo", name="A", transport=MemoryNetwork(), flight_file=str(file)
        ):
            raise ValueError("open sesame")
    assert lines_of(file)[0]["why"] == "the channel ended with ValueError"
    assert "sesame" not in file.read_text(encoding="utf-8")


async def test_a_channel_that_ends_well_or_is_cancelled_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "flight.json"
    with trio.CancelScope() as scope:
        async with open_channel(
            "sim.xml", cluster="demo", transport=MemoryNetwork(), flight_file=file
        ):
            scope.cancel()
            await trio.sleep_forever()
    assert os.listdir(tmp_path) == []
    assert not any(
        isinstance(h, flight._LogLines) for h in logging.getLogger("jgroups_py").handlers
    )


async def test_lines_of_the_log_are_recorded_and_the_trace_of_the_user_goes_on(
    tmp_path: Path,
) -> None:
    file, seen = tmp_path / "flight.json", []
    with pytest.raises(KeyError):  # noqa: PT012 - the block ends with it
        async with open_channel(
            "sim.xml",
            cluster="demo",
            name="A",
            transport=MemoryNetwork(),
            flight_file=file,
            trace=lambda at, member, protocol, what, details: seen.append(what),
        ) as channel:
            channel.warn("something %s", "odd\n")
            logging.getLogger("jgroups_py.X").warning("another member of this process")
            raise KeyError
    (line,) = [line["details"] for line in lines_of(file) if line.get("what") == "log"]
    assert line == {"level": "WARNING", "line": "A/demo: something odd\ufffd"}
    assert "view" in seen


async def test_the_ring_is_bounded_and_counts_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flight, "EVENTS_MAX", 10)
    file = tmp_path / "flight.json"
    with pytest.raises(KeyError):  # noqa: PT012 - the block ends with it
        async with open_channel(
            "sim.xml", cluster="demo", transport=MemoryNetwork(), flight_file=file
        ) as channel:
            for number in range(25):
                channel.stack.protocols[0].trace("tick", number=number, text="x" * 1000)
            raise KeyError
    head, *rest = lines_of(file)
    events = [line for line in rest if "what" in line]
    assert head["events"] == len(events) == 10 and head["dropped"] >= 15
    ticks = [event["details"] for event in events if event["what"] == "tick"]
    assert ticks[-1]["number"] == 24 and len(ticks[-1]["text"]) == flight.TEXT_MAX


async def test_no_secret_of_the_stack_is_written(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    file = tmp_path / "flight.json"
    attributes = {"UDP.diag.enabled": "true", "UDP.diag.passcode": "letmein"}
    with pytest.raises(KeyError):
        async with open_channel(
            "udp.xml",
            cluster="demo",
            transport=MemoryNetwork(),
            attributes=attributes,
            flight_file=file,
        ):
            raise KeyError
    text = file.read_text(encoding="utf-8")
    assert "diag_enabled" in text and "letmein" not in text


async def test_older_files_are_kept_up_to_their_limit(tmp_path: Path) -> None:
    file = tmp_path / "flight.json"
    for number in range(7):
        flight._write(file, str(number))
    names = ["flight.json", *(f"flight.json.{n}" for n in range(1, 5))]
    assert sorted(os.listdir(tmp_path)) == names
    assert [(tmp_path / name).read_text() for name in names] == ["6\n", "5\n", "4\n", "3\n", "2\n"]


def test_a_full_disk_takes_no_older_file_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "flight.json"
    for number in range(5):
        flight._write(file, str(number))
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}

    def full(descriptor: int, *args: Any, **options: Any) -> Any:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    for _ in range(6):
        with pytest.raises(OSError, match="No space"):
            flight._write(file, "lost")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == before


def test_members_of_one_process_may_write_to_one_file(tmp_path: Path) -> None:
    """They do when all of them suspect a member. No recording is lost."""
    problems = []
    together = threading.Barrier(4)

    def write(name: str) -> None:
        try:
            for number in range(50):
                together.wait(30)
                flight._write(tmp_path / str(number) / "flight.json", name)
        except OSError as error:
            problems.append(error)

    for number in range(50):
        (tmp_path / str(number)).mkdir()
    threads = [threading.Thread(target=write, args=(name,)) for name in "ABCD"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    for folder in tmp_path.iterdir():
        assert all(path.name.startswith("flight.json") for path in folder.iterdir())
        assert sorted(path.read_text() for path in folder.iterdir()) == ["A\n", "B\n", "C\n", "D\n"]


async def test_details_are_shown_with_names_and_without_bytes() -> None:
    async with open_channel(
        "sim.xml", cluster="demo", name="A", transport=MemoryNetwork()
    ) as channel:
        recorder, own = FlightRecorder(channel, None), channel.address
        view = View(ViewId(own, 3), (own,))
        for value, text in (
            (own, "A"),
            (view, "[A|3] (1) [A]"),
            ((own, 1, None), ["A", 1, None]),
            (b"secret", "6 bytes"),
            (IpAddress("127.0.0.1", 7800), "127.0.0.1:7800"),
            ({"a": 1}, "{'a': 1}"),
            (range(3), "range(0, 3)"),
        ):
            assert recorder._shown(value) == text


async def test_a_file_that_cannot_be_is_refused_before_anything_starts(tmp_path: Path) -> None:
    for file in (tmp_path / "none" / "flight.json", tmp_path):
        with pytest.raises(ConfigError, match=r"flight_file must be a file in a folder that"):
            async with open_channel("udp.xml", cluster="demo", flight_file=file):
                pass
    with pytest.raises(TypeError, match="flight_file is a str or a Path, got"):
        async with open_channel("udp.xml", cluster="demo", flight_file=7):  # type: ignore[arg-type]
            pass


def test_the_environment_names_a_file_for_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flight_file_of(None, "a", "b") is None
    monkeypatch.setenv("JGROUPS_FLIGHT_FILE", "/x/{cluster}-{name}.json")
    assert flight_file_of(None, "a/b", "../c") == Path("/x/a-b-..-c.json")
    assert flight_file_of("y", "a", "b") == Path("y")


# --- the command


def written(file: Path, name: str, written_at: float, *events: Mapping[str, Any]) -> str:
    head = {"format": 1, "why": "members are suspected", "cluster": "demo", "name": name}
    head |= {"written": written_at, "now": 50.0, "view": "[A|1] (1) [A]", "dropped": 2}
    lines = [head, {"protocol": "GMS", "settings": {}, "counters": {}}, *events]
    file.write_text("\n".join(map(json.dumps, lines)) + "\nnot json\n", encoding="utf-8")
    return str(file)


def event(at: float, what: str, **details: Any) -> dict[str, Any]:
    return {"at": at, "by": "GMS", "what": what, "details": details}


def test_the_command_puts_events_of_several_members_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = written(
        tmp_path / "a", "A", 100.0, event(-3, "one"), event(-1, "three", members=["B", "C"])
    )
    b = written(tmp_path / "b", "Bob", 100.5, event(-2.5, "two", text="x\x1b[2J"))
    assert run(["flight", a, b]) == 0
    first, second, *lines = capsys.readouterr().out.splitlines()
    assert first.endswith(
        ": A of demo, 1970-01-01 00:01:40.000 UTC: members are suspected; view [A|1] (1) [A]; "
        "2 events, 2 older ones were dropped, 1 lines are no events"
    )
    assert "Bob of demo" in second
    assert lines == [
        "1970-01-01 00:01:37.000 A    GMS one",
        "1970-01-01 00:01:38.000 Bob  GMS two text=x\ufffd[2J",
        "1970-01-01 00:01:39.000 A    GMS three members=B,C",
    ]
    assert run(["flight", a, b, "--last", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["what"] == "three"
    assert run(["flight", a, "--protocol", "NAKACK2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[]", b"{}", b'{"format": 1}', b"[" * 100_000]
)
def test_a_file_that_is_no_recording_is_reported(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    assert run(["flight", str(file)]) == 2
    assert f"{file} is no recording of a member" in capsys.readouterr().err


def test_odd_times_do_not_end_the_command(tmp_path: Path) -> None:
    odd = [event(1e300, "x"), event(-1e12, "y"), {"at": True, "details": {}}, event(-1e10, "z")]
    assert run(["flight", written(tmp_path / "a", "A", 100.0, *odd)]) == 0
