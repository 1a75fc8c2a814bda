"""Calls between processes over real sockets, and the command that measures them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from jgroups_py import RemoteError, Suspected, open_channel, open_rpc
from jgroups_py.config.settings import load_stack
from jgroups_py.driver import probe_multicast
from jgroups_py.tools import cli
from jgroups_py.tools.commands.mperf_ports import private_attributes
from jgroups_py.tools.commands.rpcperf_run import median_of

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(180)]
STACKS = pytest.mark.parametrize("stack", ["udp.xml", "tcp.xml"])


@pytest.fixture(autouse=True)
def multicast(request: pytest.FixtureRequest) -> None:
    stack = getattr(request.node, "callspec", None)
    if stack is not None and stack.params.get("stack") == "udp.xml":
        probe = probe_multicast("127.0.0.1")
        if not probe:
            pytest.skip(probe.why)


@STACKS
async def test_a_process_is_called_and_killed(stack: str) -> None:
    attributes = private_attributes(load_stack(stack), 2)
    # The process begins when this member is there, and waits for its answer: otherwise it may be alone until a merge.
    patient = json.dumps([stack, attributes | {"GMS.join_timeout": "30s"}])
    peer = [sys.executable, str(Path(__file__).parent / "rpc_peer.py"), patient]
    async with (
        open_channel(stack, cluster="calls", name="A", attributes=attributes) as channel,
        open_rpc(channel) as rpc,
    ):
        process = await trio.lowlevel.open_process(peer)
        try:
            await channel.wait_members(2, timeout=60)
            (b,) = [member for member in channel.view if member != channel.address]
            with trio.fail_after(60):
                assert await rpc.call(b, "process") == process.pid != os.getpid()
                large = os.urandom(300_000)
                assert await rpc.call(b, "reversed", large) == large[::-1]
                with pytest.raises(RemoteError, match="TypeError"):
                    await rpc.call(b, "process", 1)

                async def kill() -> None:
                    await trio.sleep(0.2)
                    process.kill()

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(kill)
                    with pytest.raises(Suspected, match="left or crashed"):
                        await rpc.call(b, "never")
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


def rpcperf(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jgroups_py.tools", "rpcperf", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_rpcperf_measures_calls() -> None:
    # A process that stands still for less than a second has calls in each window.
    options = ["--stack", "tcp.xml", "--callers", "1,4", "--for", "2s", "--size", "100"]
    options += ["--set", "GMS.join_timeout=20s"]
    done = rpcperf(*options, "--async", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["size"], result["method"], result["wrong"]) == (100, "async", 0)
    assert [run["callers"] for run in result["runs"]] == [1, 4]
    assert all(run["calls_per_s"] > 0 and run["p50_us"] <= run["p99_us"] for run in result["runs"])
    assert result["gain"] == round(
        result["runs"][1]["calls_per_s"] / result["runs"][0]["calls_per_s"], 2
    )


def test_the_median_of_runs_names_each() -> None:
    def result(*rates: int) -> dict[str, Any]:
        runs = [{"callers": n, "calls_per_s": rate} for n, rate in zip((1, 8), rates, strict=True)]
        return {"runs": runs, "gain": rates[1] / rates[0], "wrong": 1}

    merged = median_of([result(10, 20), result(20, 80), result(12, 60)])
    assert [run["calls_per_s"] for run in merged["runs"]] == [12, 60]
    assert [run["rates"] for run in merged["runs"]] == [[10, 20, 12], [20, 80, 60]]
    assert (merged["gain"], merged["wrong"]) == (4, 3)


@pytest.mark.parametrize(
    "options",
    [
        ["--callers", "0"],
        ["--callers", "one"],
        ["--size", "x"],
        ["--for", "0s"],
        ["--stack", "no-such.xml"],
    ],
)
def test_wrong_options_are_one_line_and_exit_2(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["rpcperf", *options]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
