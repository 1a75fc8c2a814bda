"""Processes of a bucket store are killed under load of memcached clients: a short share of ``make buckets-kills``. Real sockets."""

from __future__ import annotations

from pathlib import Path

import pytest
from kill_components import arguments, main

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(600)]


async def test_answers_hold_when_processes_are_killed_while_copies_move(
    tmp_path: Path,
) -> None:
    given = [
        "--kills",
        "1",
        "--roles",
        "master",
        "index",
        "router",
        "--moves",
        "--versions",
        "--log",
    ]
    log = tmp_path / "nodes.log"
    try:
        found = await main(arguments([*given, str(log)]))
    finally:
        print(log.read_text())  # pytest shows it if the test fails
    assert found["problems"] == []
    assert found["answered"] > 100 and found["reads"] > 20 and found["moves"] > 0
