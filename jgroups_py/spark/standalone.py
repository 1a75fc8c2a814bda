"""A Spark standalone cluster on loopback: a master and workers in processes of their own, started with
pyspark's own ``spark-class``. It is for tests, measurements and demonstrations. Executors are processes of their own,
too.

    with open_standalone(workers=2) as cluster, open_session(cluster.master) as spark: ...
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from jgroups_py.errors import JGroupsError
from jgroups_py.spark.session import check_java

HOST = "127.0.0.1"
START_SECONDS = 60.0
"""Seconds until the master listens, and until it knows each worker."""
STOP_SECONDS = 10.0
"""Seconds after which a process that was asked to end is killed."""
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Standalone:
    """``master``: Spark's master URL. The processes are those of the master and the workers."""

    master: str
    processes: Sequence[subprocess.Popen[bytes]]

    def executors(self) -> list[psutil.Process]:
        """Return the running executors: Java processes of the workers."""
        return [
            process
            for process in self._below()
            if any(_EXECUTOR in word for word in _words_of(process)[:40])
        ]

    def python_workers(self) -> list[psutil.Process]:
        """Return the Python processes in which executors run tasks: those that a daemon has forked."""
        found = []
        for process in self._below():
            if "pyspark.daemon" in _words_of(process):
                parent = process.parent()
                if parent is not None and "pyspark.daemon" in _words_of(parent):
                    found.append(process)
        return found

    def _below(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for worker in self.processes:
            try:
                found += psutil.Process(worker.pid).children(recursive=True)
            except psutil.NoSuchProcess:
                continue
        return found


@contextmanager
def open_standalone(
    *,
    workers: int = 2,
    cores: int = 1,
    memory: str = "1g",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Standalone]:
    """Run a cluster for as long as the block lasts.

    Args:
        cores, memory: of each worker, for its executors.
        environment: more variables of master, workers, and so of executors.

    Raises:
        ConfigError: there is no Java.
        JGroupsError: the cluster did not start. The text has its last line of output.
    """
    import pyspark

    check_java()
    home = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "PYSPARK_PYTHON": sys.executable,
        **(environment or {}),
    }
    started: list[subprocess.Popen[bytes]] = []
    with TemporaryDirectory(prefix="jgroups-py-spark-") as folder:

        def start(log: Path, *words: str) -> None:
            command = [str(home / "bin" / "spark-class"), *words]
            with log.open("wb") as out:
                started.append(
                    subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=folder)
                )

        try:
            log = Path(folder, "master.log")
            start(log, _MASTER, "--host", HOST, "--port", "0", "--webui-port", "0")
            master = _said(log, r"Starting Spark master at (spark://\S+)", started[-1])
            logs = [Path(folder, f"worker{number}.log") for number in range(workers)]
            for log in logs:
                work = str(log.with_suffix(".work"))
                start(
                    log, _WORKER, "--host", HOST, "--webui-port", "0", "--cores", str(cores),
                    "--memory", memory, "--work-dir", work, master,
                )  # fmt: skip
            for log, process in zip(logs, started[1:], strict=True):
                _said(log, r"(Successfully registered) with master", process)
            yield Standalone(master, started)
        finally:
            _end(started)


def _said(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + START_SECONDS
    while True:
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(pattern, text):
            return found[1]
        if process.poll() is not None or time.monotonic() > end:
            last = (text.strip().splitlines() or ["it said nothing"])[-1]
            raise JGroupsError(f"Spark's {log.stem} did not start: {last}")
        time.sleep(0.05)


def _end(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the workers first. Executors end with their worker, but not at once."""
    below: list[psutil.Process] = []
    for process in reversed(started):
        try:
            below += psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            pass
        process.terminate()
    for process in started:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    _, left = psutil.wait_procs(below, timeout=STOP_SECONDS)
    for child in left:
        child.kill()


def _words_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
