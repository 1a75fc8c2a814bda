"""open_session: opens a Spark session with the data source and workers of this Python. It is on loopback unless its master is
elsewhere. ``package_archive`` makes a file of this package that can be sent to executors.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import jgroups_py
from jgroups_py.errors import ConfigError

LOCAL = "local[2,4]"
"""The default master: two tasks at once in this machine, each tried four times, as clusters do."""
JAVA_MIN = 17
JAVA_SECONDS = 30.0
"""Seconds until Java has reported its version."""
_LEFT_OUT = ("__pycache__",)


def package_archive(folder: Path) -> Path:
    """Write ``jgroups_py.zip`` to ``folder``; ``spark.submit.pyFiles`` and ``addPyFile`` take it."""
    target = folder / "jgroups_py.zip"
    root = Path(jgroups_py.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, folders, names in os.walk(root, followlinks=True):
            folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
            for name in sorted(names):
                file = Path(place, name)
                archive.write(file, Path("jgroups_py", file.relative_to(root)))
    return target


def check_java() -> None:
    """Raise ConfigError if there is no Java, or an old one. Spark takes that of JAVA_HOME, or else that of the PATH."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise ConfigError("Spark needs Java 17: no java on the PATH, and no JAVA_HOME with one")
    try:
        said = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) else "it does not answer"
        where = " (JAVA_HOME)" if home else ""
        raise ConfigError(f"Spark needs Java 17: {java}{where}: {reason}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    if found is not None and int(found[1]) < JAVA_MIN:
        raise ConfigError(f"Spark needs Java {JAVA_MIN}: {java} is Java {found[1]}")


@contextmanager
def open_session(
    master: str = LOCAL,
    *,
    app: str = "jgroups-py",
    memory: str = "1g",
    config: Mapping[str, str] | None = None,
    ship: bool = False,
) -> Iterator[Any]:
    """Open a session for as long as the block lasts. A session that is there already is used and not stopped.

    Args:
        master: Spark's master. The default is local, with tasks that are tried again.
        memory: the memory of the driver's Java process. In local mode it does all the work.
        config: Spark's own settings. They override ours.
        ship: send this package to the executors. Without it they must have it installed. They need Python with
            pyarrow, msgspec and pandas in any case.

    Raises:
        ConfigError: there is no Java, or an old one.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from jgroups_py.spark.source import register

    if SparkContext._active_spark_context is not None:  # also a session of another thread
        active = SparkSession.builder.getOrCreate()
        register(active)
        yield active
        return
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # otherwise it is "python3" of the PATH
    here = {}
    if master.startswith(("local", "spark://127.", "spark://localhost")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # else Spark picks another interface
        here = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    settings = {
        "spark.driver.memory": memory,
        **here,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",  # commands have their own progress
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        **(config or {}),
    }
    builder = SparkSession.builder.master(master).appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="jgroups-py-ship-"))
        session = builder.getOrCreate()
        stack.callback(session.stop)
        session.sparkContext.setLogLevel("ERROR")
        if ship:
            session.sparkContext.addPyFile(str(package_archive(Path(folder))))
        register(session)
        yield session
