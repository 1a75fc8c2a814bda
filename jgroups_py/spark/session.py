"""open_session: a Spark session with the data source, on loopback, with workers of this Python."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jgroups_py.errors import ConfigError


def check_java() -> None:
    """ConfigError: there is no Java."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java") is None:
        raise ConfigError("Spark needs Java 17: no java on the PATH, and no JAVA_HOME with one")


@contextmanager
def open_session(
    master: str = "local[2]",
    *,
    app: str = "jgroups-py",
    memory: str = "1g",
    config: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """A session for as long as the block lasts; one that is there already is used, and not stopped.

    Args:
        memory: of the driver's Java process; in local mode it does all the work.
        config: Spark's own settings, over ours.

    Raises:
        ConfigError: there is no Java.
    """
    from pyspark.sql import SparkSession

    from jgroups_py.spark.source import register

    active = SparkSession.getActiveSession()
    if active is not None:
        register(active)
        yield active
        return
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else "python3" of the PATH
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark picks another interface
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        **(config or {}),
    }
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        session.sparkContext.setLogLevel("ERROR")
        register(session)
        yield session
    finally:
        session.stop()
