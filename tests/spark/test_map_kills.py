"""Spark's Python workers and a web server share one map, and are killed with -9: nothing that returned is lost, nothing is half."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(600)]


def test_workers_of_spark_and_of_a_web_server_share_a_map_under_kills(spark: Any) -> None:
    """``spark``: where there is none, this is skipped. The program has a session of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("kill_map_workers.py")), "--kills", "6"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("6 kills: ")
