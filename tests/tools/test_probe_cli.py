"""``jgroups-py probe`` asks members on loopback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from jgroups_py import open_channel
from jgroups_py.tools.cli import run
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.probing import PASSCODE_VARIABLE, passcode_of, targets_of

pytestmark = pytest.mark.sockets
WORDS = "keys member-addrs print-protocols uuids"
"""A request as long as an authenticator: a client without one is refused at once."""


def settings(port: int, passcode: str = "") -> dict[str, str]:
    return {
        "TCP.diag.enabled": "true",
        "TCP.diag.enable_tcp": "true",
        "TCP.diag.port": str(port),
        "TCP.diag.passcode": passcode,
    }


async def probed(args: list[str], passcode: str = "") -> int:
    """Run the command beside two members, and return its exit code."""
    port = free_block(8)
    attributes = settings(port, passcode)
    args = [arg.replace("PORT", str(port)).replace("LAST", str(port + 7)) for arg in args]
    with trio.fail_after(60):
        async with (
            open_channel("tcp.xml", cluster="demo", name="A", attributes=attributes) as a,
            open_channel("tcp.xml", cluster="demo", name="B", attributes=attributes),
        ):
            await a.wait_view(2)
            return await trio.to_thread.run_sync(run, ["probe", *args])


def test_members_answer_a_multicast(capsys: pytest.CaptureFixture[str]) -> None:
    assert trio.run(probed, ["--port", "PORT", "--timeout", "20s", "--count", "2"]) == 0
    out = capsys.readouterr().out
    assert "A (ip=127.0.0.1:" in out and "B (ip=127.0.0.1:" in out
    assert out.count("view=[A|1] (2) [A, B]") == 2
    assert out.endswith("2 responses (2 matches, 0 non matches)\n")


def test_members_answer_over_tcp_and_json_has_their_attributes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hosts = ["--host", "127.0.0.1:PORT-LAST", "--timeout", "20s"]
    assert trio.run(probed, [*hosts, "--of", "demo", "--json", "-", "GMS", "pp"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["head"].startswith("A [ip=") and second["head"].startswith("B [ip=")
    assert first["values"]["GMS"]["join_timeout"] == "2s"
    assert first["values"]["protocols"].startswith("TCP\n")


def test_a_member_that_does_not_match_is_counted_and_nobody_makes_exit_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hosts = ["--host", "127.0.0.1:PORT-LAST", "--timeout", "20s"]
    assert trio.run(probed, [*hosts, "--match", "nobody", "pp"]) == 1
    assert capsys.readouterr().out == "2 responses (0 matches, 2 non matches)\n"
    assert run(["probe", "--host", f"127.0.0.1:{free_block(1)}"]) == 1


def test_the_passcode_comes_from_a_file_and_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "passcode"
    file.write_text("letmein\n", encoding="utf-8")
    hosts = ["--host", "127.0.0.1:PORT-LAST", "--timeout", "20s"]

    async def both(*args: str) -> int:
        return await probed([*hosts, *args, "FD_ALL3.timeout=31s", WORDS], "letmein")

    assert trio.run(both, "--passcode-file", str(file)) == 0
    assert capsys.readouterr().out.count("FD_ALL3={timeout=31s}\n") == 2
    assert trio.run(both) == 1
    assert "letmein" not in capsys.readouterr().out


def test_a_passcode_file_that_is_not_there_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "passcode"
    assert run(["probe", "--passcode-file", str(file)]) == 2
    assert f"the passcode cannot be read from {file}: No such file" in capsys.readouterr().err
    monkeypatch.setenv(PASSCODE_VARIABLE, "x")
    assert passcode_of(None) == "x"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a", (("a", 7500),)),
        ("a:1-3", (("a", 1), ("a", 2), ("a", 3))),
        ("[::1]:9", (("::1", 9),)),
        ("::1", (("::1", 7500),)),
    ],
)
def test_hosts_name_ports(text: str, found: tuple[tuple[str, int], ...]) -> None:
    assert targets_of([text]) == found


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--host", "a:0"], "ports must be within 1..65535"),
        (["--host", "a:3-2"], "ports must be within 1..65535"),
        (["--host", "a:1-2000"], "more than 1000 hosts and ports"),
        (["--host", "a b:x"], "not HOST, HOST:PORT or HOST:FIRST-LAST"),
        (["--interface", "eth0"], "--interface must be a numeric address"),
        (["--group", "10.0.0.1"], "--group must be a multicast address"),
        (["--group", "ff0e::1"], "of the kind of 127.0.0.1"),
        (["--of", "a b"], "--of must be a name without blanks"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    args: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["probe", *args]) == 2
    assert problem in capsys.readouterr().err
