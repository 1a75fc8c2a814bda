"""One local Spark session for most tests, then one on a standalone cluster; skipped, with the reason, if Spark or
Java is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = {
    # With many small queries the least compilation is fastest.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A process has one Spark at a time: tests with the cluster's Spark come last."""
    items.sort(key=lambda item: "shipped" in getattr(item, "fixturenames", ()))


def _check() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install -e '.[spark]'")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install -e '.[spark]'")
    from jgroups_py.errors import ConfigError
    from jgroups_py.spark.session import check_java

    try:
        check_java()
    except ConfigError as error:
        pytest.skip(str(error))
    os.environ["PYSPARK_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    _check()
    from jgroups_py.spark import open_session

    # Workers import this checkout, and only this file's folder besides.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    config = {**QUICK, "spark.sql.python.filterPushdown.enabled": "true"}
    with open_session(memory="1g", config=config) as session:
        yield session


@pytest.fixture(scope="session")
def standalone() -> Iterator[Any]:
    _check()
    from jgroups_py.spark.standalone import open_standalone

    with open_standalone(environment={"PYTHONPATH": ""}) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def shipped(standalone: Any) -> Iterator[Any]:
    """A session on the cluster; this package is sent to the executors. The local session ends first."""
    from pyspark.sql import SparkSession

    from jgroups_py.spark import open_session

    local = SparkSession.getActiveSession()
    if local is not None:
        local.stop()
    config = {
        **QUICK,
        "spark.task.maxFailures": "20",  # tests kill workers until they see that a task failed
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with open_session(standalone.master, config=config, ship=True) as session:
        yield session
