"""A live ActiveMQ Artemis and its backup, on the loopback interface: replicated, NIO journal with sync, STOMP.

It comes from Maven Central (``mvn``; it needs Java 11 or later) into build/artemis, and each pair begins with empty
journals there.
"""

from __future__ import annotations

import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VERSION: Final = "2.31.2"
STOMP_PORT: Final = 61613
"""The default port of Artemis; ``offset`` is added."""
CORE_PORT: Final = 61616
SYNC_SECONDS: Final = 120.0
IN_SYNC: Final = "synchronized"
"""The word in the backup's log once it has the live broker's messages."""


@contextmanager
def artemis_pair(folder: Path, offset: int = 0) -> Iterator[int]:
    """Run both until the end of the block. Yield the STOMP port of the live one; the backup's ports are one above.
    ``offset`` is added to all of Artemis' usual ports. RuntimeError: they cannot be fetched or do not synchronise;
    their logs are in ``folder``."""
    command = _got(folder)
    ports = CORE_PORT + offset, CORE_PORT + offset + 1
    brokers = []
    try:
        for name, number in (("live", 0), ("backup", 1)):
            _create(command, folder / name, offset + number, ports[1 - number], bool(number))
            with (folder / f"{name}.log").open("w") as log:
                run = [str(folder / name / "bin" / "artemis"), "run"]
                brokers.append(subprocess.Popen(run, stdout=log, stderr=subprocess.STDOUT))
        _wait_in_sync(folder / "backup.log", brokers)
        yield STOMP_PORT + offset
    finally:
        for broker in brokers:
            broker.kill()
            broker.wait()


def _got(folder: Path) -> Path:
    """Return the command of the distribution, which is fetched if it is missing."""
    command = folder / f"apache-artemis-{VERSION}" / "bin" / "artemis"
    if not command.exists():
        if shutil.which("mvn") is None:
            raise RuntimeError(f"{command} is not there, and there is no mvn to get it")
        folder.mkdir(parents=True, exist_ok=True)
        artifact = f"org.apache.activemq:apache-artemis:{VERSION}:zip:bin"
        _run(
            "mvn",
            "-q",
            "-B",
            "dependency:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={folder}",
        )
        with zipfile.ZipFile(folder / f"apache-artemis-{VERSION}-bin.zip") as packed:
            packed.extractall(folder)
        command.chmod(0o755)
    return command


def _create(command: Path, home: Path, offset: int, other: int, is_backup: bool) -> None:
    """Write the settings of an empty broker. ``other``: the port of its partner, so that nothing is multicast."""
    shutil.rmtree(home, ignore_errors=True)
    given = ["--host", "127.0.0.1", "--port-offset", str(offset), "--nio", "--no-web", "--silent"]
    given += ["--user", "bench", "--password", "bench", "--allow-anonymous"]
    given += ["--clustered", "--cluster-user", "bench", "--cluster-password", "bench"]
    given += ["--replicated", "--staticCluster", f"tcp://127.0.0.1:{other}"]
    _run(command, "create", home, *given, *(["--slave"] if is_backup else []))


def _run(*command: object) -> None:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(words[:3])} ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
        )


def _wait_in_sync(log: Path, brokers: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + SYNC_SECONDS
    while IN_SYNC not in log.read_text(errors="replace"):
        if any(broker.poll() is not None for broker in brokers) or time.monotonic() > until:
            raise RuntimeError(f"the backup is not in sync; see the logs in {log.parent}")
        time.sleep(0.2)
