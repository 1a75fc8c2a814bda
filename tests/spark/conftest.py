"""One Spark session for all tests; skipped, with a word, where Spark or Java is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install -e '.[spark]'")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install -e '.[spark]'")
    from jgroups_py.errors import ConfigError
    from jgroups_py.spark import open_session
    from jgroups_py.spark.session import check_java

    try:
        check_java()
    except ConfigError as error:
        pytest.skip(str(error))
    # Workers import this checkout, and this file's folder for nothing else.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.sql.python.filterPushdown.enabled": "true",
        # Many small queries: what compiles least is fastest.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    with open_session("local[2,4]", memory="1g", config=settings) as session:
        yield session
