"""A PostgreSQL server in a process of its own, for tests; its data are deleted with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jgroups_py.tools.commands.mperf_ports import free_block

USER, PASSWORD, DATABASE = "tester", "s3cret-of-the-tests", "postgres"
START_SECONDS = 60.0


class NoServer(Exception):
    """The reason why there is no server on this machine."""


@dataclass(frozen=True)
class Server:
    """``url``: as JDBC writes it."""

    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{DATABASE}"

    def attributes(self) -> dict[str, str]:
        """Return the attributes of JDBC_PING2 for this server."""
        return {
            "JDBC_PING2.connection_url": self.url,
            "JDBC_PING2.connection_username": USER,
            "JDBC_PING2.connection_password": PASSWORD,
            "JDBC_PING2.lookup_timeout": "60s",
        }


def program(name: str) -> str:
    places = [Path(f) for f in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    for place in places:
        if (place / name).exists():
            return str(place / name)
    found = shutil.which(name)
    if found is None:
        raise NoServer(f"there is no {name} here")
    return found


@contextmanager
def postgresql() -> Iterator[Server]:
    """A server on loopback that requires the password.

    Raises:
        NoServer: PostgreSQL is not installed, or there is no user to run it.
    """
    initdb, postgres = program("initdb"), program("postgres")
    who: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server does not start as root
        who = {"user": "postgres", "group": "postgres", "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="jgroups-postgresql-"))
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        if who:
            try:
                for place in (folder, password):
                    shutil.chown(place, "postgres", "postgres")
            except LookupError:
                raise NoServer(
                    "PostgreSQL does not run as root, and there is no user postgres"
                ) from None
        data = folder / "data"
        made = [
            initdb,
            "-D",
            str(data),
            "-U",
            USER,
            f"--pwfile={password}",
            "-A",
            "scram-sha-256",
            "-N",
        ]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, timeout=300, **who)
        with _running(postgres, data, who) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(postgres: str, data: Path, who: dict[str, Any]) -> Iterator[Server]:
    port = free_block(1)
    settings = [
        f"port={port}",
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "fsync=off",
    ]
    command = [postgres, "-D", str(data), *(word for s in settings for word in ("-c", s))]
    with open(data.parent / "log", "w+b") as log:
        process = subprocess.Popen(command, cwd=data, stdout=subprocess.DEVNULL, stderr=log, **who)
        try:
            end = time.monotonic() + START_SECONDS
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    raise NoServer(f"PostgreSQL does not start: {log.read().decode()[-1000:]}")
                time.sleep(0.05)
            yield Server(port)
        finally:
            process.send_signal(2)  # fast shutdown: open connections end
            try:
                process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(port: int) -> bool:
    import pg8000.dbapi

    try:
        # A short time would leave a socket open: the driver does not close it when the server, which may listen already, answers too late.
        pg8000.dbapi.connect(
            USER,
            host="127.0.0.1",
            port=port,
            password=PASSWORD,
            database=DATABASE,
            timeout=START_SECONDS,
        ).close()
    except Exception:  # the server refuses, or is starting
        return False
    return True
