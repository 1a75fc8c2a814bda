"""Spark's Python workers and a web server share one map, and are killed with -9: no returned put is lost, and each
entry is complete."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py.errors import ConfigError

pytestmark = [pytest.mark.spark, pytest.mark.sockets, pytest.mark.timeout(600)]


def test_workers_of_spark_and_of_a_web_server_share_a_map_under_kills() -> None:
    pytest.importorskip("pyspark")
    from jgroups_py.spark.session import check_java

    try:
        check_java()
    except ConfigError as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("kill_map_workers.py")), "--kills", "6"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("6 kills: ")
