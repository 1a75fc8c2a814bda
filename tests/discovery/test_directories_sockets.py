"""Members on real sockets that find each other through a real directory."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
import trio
from postgresql import PASSWORD, USER, NoServer, postgresql

from jgroups_py import Channel, JGroupsError, open_channel
from jgroups_py.driver.directories.database import answer
from jgroups_py.router import GossipRouter, RouterError, run_router
from jgroups_py.stack.directories import Database, ReadTable
from jgroups_py.tools.cli import run
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets

PATIENCE = 60.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""
QUICK = {
    "FD_SOCK2.offset": "10",  # within the block of ports of a member
    "MERGE3.min_interval": "200ms",
    "MERGE3.max_interval": "500ms",
    "GMS.join_timeout": "500ms",
    "VERIFY_SUSPECT2.timeout": "500ms",
}


def member(
    name: str, stack: str, attributes: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Channel]:
    return open_channel(
        stack,
        cluster="directories",
        name=name,
        attributes={"TCP.bind_port": str(free_block(20)), **QUICK, **(attributes or {})},
    )


async def together(*channels: Channel) -> None:
    """Wait until all members have one view of exactly themselves, and receive each other's messages."""
    with trio.fail_after(PATIENCE):
        while any(  # noqa: ASYNC110 - several channels
            len(channel.view.members) != len(channels) for channel in channels
        ):
            await trio.sleep(0.05)


def files(location: Path) -> list[str]:
    return sorted(name.split(".")[1] for name in os.listdir(location / "directories"))


async def test_a_folder_brings_members_together_and_is_clean_when_they_have_gone(
    tmp_path: Path,
) -> None:
    folder = {"FILE_PING.location": str(tmp_path)}
    async with member("A", "tcp-file.xml", folder) as a:
        async with member("B", "tcp-file.xml", folder) as b:
            await together(a, b)
            with trio.fail_after(PATIENCE):
                while files(tmp_path) != ["A"]:  # noqa: ASYNC110 - a file
                    await trio.sleep(0.05)
            await a.send(b"hello")
        await together(a)
    assert files(tmp_path) == []


async def test_a_location_that_cannot_be_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(JGroupsError, match=rf'FILE_PING: location must be a folder.*"{file}"'):
        async with member("A", "tcp-file.xml", {"FILE_PING.location": str(file)}):
            pass


async def test_our_router_brings_members_together() -> None:
    router = GossipRouter(bind_port=0)
    async with trio.open_nursery() as nursery:
        host, port = await nursery.start(partial(run_router, router))
        hosts = {"TCPGOSSIP.initial_hosts": f"{host}[{port}]"}
        async with (
            member("A", "tcp-gossip.xml", hosts) as a,
            member("B", "tcp-gossip.xml", hosts) as b,
        ):
            await together(a, b)
            assert router.statistics()["members"] == 2
        with trio.fail_after(PATIENCE):
            while router.statistics()["members"]:  # noqa: ASYNC110 - a number
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()


async def test_a_router_whose_port_is_taken_says_so() -> None:
    async with trio.open_nursery() as nursery:
        _, port = await nursery.start(partial(run_router, GossipRouter(bind_port=0)))
        with pytest.raises(RouterError, match=rf"cannot listen: 127.0.0.1:{port}.*in use"):
            await run_router(GossipRouter(bind_port=port))
        nursery.cancel_scope.cancel()


@pytest.mark.timeout(150)
def test_the_command_runs_a_router_until_it_is_interrupted() -> None:
    command = [sys.executable, "-m", "jgroups_py", "router", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert re.fullmatch(r"router listens on 127\.0\.0\.1 port [0-9]+\n", line)
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
        finally:
            process.kill()


def test_the_command_listens_beyond_loopback_only_if_that_is_requested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["router", "--bind-addr", "10.1.2.3"]) == 2
    assert "--allow-remote" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_database_brings_members_together(kind: str, tmp_path: Path) -> None:
    async def meet(attributes: dict[str, str], rows: Callable[[], object]) -> None:
        async with member("A", "tcp-jdbc.xml", attributes) as a:
            async with member("B", "tcp-jdbc.xml", attributes) as b:
                await together(a, b)
            await together(a)
        assert not rows()

    if kind == "sqlite":
        file = tmp_path / "members.db"
        database = Database(f"jdbc:sqlite:{file}", "", "", 60.0)
        await meet({"JDBC_PING2.connection_url": database.url}, partial(_rows, database))
        return
    try:
        with postgresql() as server:
            database = Database(server.url, USER, PASSWORD, 60.0)
            await meet(server.attributes(), partial(_rows, database))
            wrong = {**server.attributes(), "JDBC_PING2.connection_password": "wr0ng"}
            with pytest.raises(JGroupsError, match="password authentication failed") as caught:
                async with member("A", "tcp-jdbc.xml", wrong):
                    pass
            assert "wr0ng" not in str(caught.value)
    except NoServer as problem:
        pytest.skip(str(problem))


async def test_a_member_that_leaves_takes_its_row_along_though_the_database_is_slow(
    tmp_path: Path,
) -> None:
    """The leaver's driver used to end after a second, and its row sent joiners to a member that had left."""
    file = tmp_path / "members.db"
    database = Database(f"jdbc:sqlite:{file}", "", "", 60.0)
    attributes = {"JDBC_PING2.connection_url": database.url}
    async with trio.open_nursery() as nursery, member("A", "tcp-jdbc.xml", attributes) as a:
        await together(a)
        with trio.fail_after(PATIENCE):
            while not _rows(database):  # noqa: ASYNC110
                await trio.sleep(0.01)
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")

        async def let_go() -> None:
            await trio.sleep(1.6)
            holder.execute("COMMIT")
            holder.close()

        nursery.start_soon(let_go)
    assert not _rows(database)


def _rows(database: Database) -> object:
    select = ("SELECT address, name, ip, coord FROM jgroups WHERE cluster=?", ("directories",))
    return answer(ReadTable(database, select, 10, 4))
