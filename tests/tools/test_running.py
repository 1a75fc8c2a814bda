"""Asynchronous commands end on SIGINT and SIGTERM by leaving their blocks."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from jgroups_py.tools.running import run_command

CODE = """
import sys, trio
from jgroups_py.tools.running import run_command

async def command():
    try:
        print("ready", flush=True)
        await trio.sleep_forever()
    finally:
        print("left", flush=True)

sys.exit(run_command(command))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_command_say_goodbye(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == ("left\n", "", 128 + number)


def test_the_result_is_the_exit_code() -> None:
    async def four() -> int:
        return 4

    async def nothing() -> None:
        return None

    assert run_command(four) == 4
    assert run_command(nothing) == 0


def test_sigterm_ends_a_command_that_a_shell_started_in_the_background() -> None:
    """Such a process ignores SIGINT. The workers of the command end with it."""
    command = "from jgroups_py.tools.cli import main; main()"
    arguments = ["simulate", "--profile", "membership", "--seeds", "1..5000"]
    with subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + 60
        while len(psutil.Process(process.pid).children()) < 2:
            assert time.monotonic() < deadline, "it has no workers"
            time.sleep(0.05)
        assert process.poll() is None
        time.sleep(0.5)  # it is playing
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
