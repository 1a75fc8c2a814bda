"""The log lines of a map's host; a host that loses its disk."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jgroups_py import blocking
from jgroups_py.maps import MemoryLinks
from jgroups_py.maps.orders import Told
from jgroups_py.maps.telling import Telling
from jgroups_py.tools.commands.mperf_ports import free_block

SIZE = 64 * 1024**2


def test_log_lines_have_the_right_level_and_are_few(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    telling = Telling("fx", lambda: now[0])
    with caplog.at_level(logging.INFO):
        for kind in ("connected", "skew", "same identifier"):
            telling.tell(Told(kind, 2, "the\ntext"))
        for _ in range(50):
            telling.tell(Told("skew", 2, "the text"))
        telling.tell(Told("skew", 3, "the text"))
        now[0] = 11.0
        telling.tell(Told("skew", 2, "the text"))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", 'the map "fx": connected: the?text'),
        ("WARNING", 'the map "fx": skew: the?text'),
        ("ERROR", 'the map "fx": same identifier: the?text'),
        ("WARNING", 'the map "fx": skew: the text'),
        ("WARNING", 'the map "fx": skew: the text (50 more like this left out)'),
    ]


@pytest.mark.seed("K17", "K18")
def test_an_identifier_that_two_hosts_have_is_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    links = MemoryLinks()
    with (
        blocking.open_map(tmp_path / "1", name="fx", identifier=1, network=links, max_bytes=SIZE),
        blocking.open_map(
            tmp_path / "2", name="fx", identifier=1, network=links, max_bytes=SIZE
        ) as m,
    ):
        until(lambda: [r for r in caplog.records if "given twice" in r.getMessage()], m)
    errors = [r for r in caplog.records if "given twice" in r.getMessage()]
    assert {record.levelname for record in errors} == {"ERROR"}


def until(condition: Callable[[], object], waits: Any) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit and not waits.closed
        time.sleep(0.01)


HOST = """
import sys
import time
from jgroups_py import blocking

folder, mine, other = sys.argv[1:]
with blocking.open_map(folder, name="fx", key=int, value=str, identifier=1, listen=mine, peers=[other],
                       max_bytes=64 * 1024**2) as m:
    for number in range(200):
        m[number] = f"value {number}"
    m.wait_replicated(1)
    m[200] = "perhaps"
    print("replicated", flush=True)
    sys.stdin.read()
"""


@pytest.mark.sockets
@pytest.mark.seed("K24")
def test_a_killed_host_that_lost_its_disk_gets_replicated_changes_back(
    tmp_path: Path,
) -> None:
    port = free_block(2)
    mine, other = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
    options: Any = {"name": "fx", "key": int, "value": str, "max_bytes": SIZE}
    with blocking.open_map(
        tmp_path / "2", identifier=2, listen=other, peers=[mine], **options
    ) as backup:
        host = subprocess.Popen(
            [sys.executable, "-c", HOST, str(tmp_path / "1"), mine, other],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        assert host.stdout is not None
        assert host.stdout.readline() == "replicated\n"
        host.send_signal(signal.SIGKILL)
        host.communicate()
        shutil.rmtree(tmp_path / "1")
        expected = {number: f"value {number}" for number in range(200)}
        assert expected.items() <= dict(backup).items()
        backup[0] = "changed meanwhile"
        with blocking.open_map(
            tmp_path / "1", identifier=1, listen=mine, peers=[other], **options
        ) as again:
            until(lambda: dict(again) == dict(backup), again)
            again[1] = "of the new life"
            again.wait_replicated(1)
            assert (backup[0], backup[1]) == ("changed meanwhile", "of the new life")
