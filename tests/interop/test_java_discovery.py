"""Java and Python members that find each other through a directory: a folder, a gossip router, a database."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from java_parts import JavaParts, Unavailable, with_postgresql
from mixed_group import Group, Member, mixed_group
from postgresql import PASSWORD, USER, NoServer, postgresql

from jgroups_py.router import GossipRouter, run_router
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = [pytest.mark.java, pytest.mark.sockets, pytest.mark.timeout(240)]
PATIENT = {"GMS.join_timeout": "2000"}
"""A member that gets a Java member's request to join may first have to locate it."""
Router = Callable[[JavaParts], AbstractAsyncContextManager[int]]


def stack_file(parts: JavaParts, folder: Path, discovery: str) -> Path:
    """tcp.xml of the jar with another discovery."""
    text = (parts.stacks / "tcp.xml").read_text(encoding="utf-8")
    changed, count = re.subn(r"<TCPPING\b[^>]*/>", discovery, text)
    assert count == 1
    shutil.copy(parts.stacks / "tcp-default.xml", folder)
    file = folder / "tcp-directory.xml"
    file.write_text(changed, encoding="utf-8")
    return file


async def agree(*members: Member, seconds: float = 60.0) -> None:
    """Wait until all members have one view of exactly themselves."""
    names = sorted(member.name for member in members)

    def settled() -> bool:
        newest = {(m.views[-1].number, m.views[-1].creator, m.views[-1].ids) for m in members}
        return len(newest) == 1 and all(sorted(m.members) == names for m in members)

    with trio.move_on_after(seconds):
        while not settled():  # noqa: ASYNC110 - several members, each with an event of its own
            await trio.sleep(0.02)
    assert settled(), "\n".join(member.summary() for member in members)


async def both_ways(group: Group) -> None:
    """Each finds the other, in any order of starts and leaves."""
    python = await group.python("P")
    java = await group.java("J")
    await agree(python, java)
    assert python.members == ("P", "J")
    await python.send("from-python")
    await java.tell("send", "*", "-", "from-java")
    await java.until(lambda: "from-python" in java.texts(python))
    await python.until(lambda: "from-java" in python.texts(java))
    await python.leave()
    await agree(java)
    again = await group.python("Q")
    await agree(java, again)
    assert again.members == ("J", "Q")
    third = await group.python("R")
    await agree(java, again, third)
    await java.tell("close")
    await agree(again, third)
    last = await group.java("K")
    await agree(again, third, last)


async def test_a_folder_brings_java_and_python_together(parts: JavaParts, tmp_path: Path) -> None:
    location = tmp_path / "shared"
    file = stack_file(parts, tmp_path, f'<FILE_PING location="{location}"/>')
    async with mixed_group(parts, "tcp", PATIENT, file=file) as group:
        await both_ways(group)


@asynccontextmanager
async def java_router(parts: JavaParts) -> AsyncIterator[int]:
    """JGroups' GossipRouter, and its port."""
    port = free_block(1)
    options = ["-Djava.net.preferIPv4Stack=true", "-Xmx64m", "-XX:TieredStopAtLevel=1"]
    where = ["-bind_addr", "127.0.0.1", "-port", str(port), "-diag_enabled", "false"]
    command = ["java", *options, "-cp", str(parts.jar), "org.jgroups.stack.GossipRouter", *where]
    process = await trio.lowlevel.open_process(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with trio.fail_after(60):
            while True:
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    await trio.sleep(0.1)
        yield port
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def python_router(parts: JavaParts) -> AsyncIterator[int]:
    """Our gossip router, and its port."""
    router = GossipRouter(bind_port=0)
    async with trio.open_nursery() as nursery:
        _, port = await nursery.start(partial(run_router, router))
        yield port
        nursery.cancel_scope.cancel()
    counted = router.statistics()
    told = {name: counted[name] for name in counted if name.startswith(("refused", "dropped"))}
    assert not any(told.values()), told


@pytest.mark.parametrize("router", [java_router, python_router])
async def test_a_gossip_router_brings_java_and_python_together(
    parts: JavaParts, tmp_path: Path, router: Router
) -> None:
    async with router(parts) as port:
        hosts = f"127.0.0.1[{port}]"
        file = stack_file(parts, tmp_path, f'<TCPGOSSIP initial_hosts="{hosts}"/>')
        async with mixed_group(parts, "tcp", PATIENT, file=file) as group:
            await both_ways(group)


async def test_a_database_brings_java_and_python_together(parts: JavaParts, tmp_path: Path) -> None:
    try:
        java = with_postgresql(parts)
        with postgresql() as server:
            where = (
                f'connection_url="{server.url}" connection_username="{USER}" '
                f'connection_password="{PASSWORD}" connection_driver="org.postgresql.Driver" '
                'remove_all_data_on_view_change="true"'
            )
            file = stack_file(parts, tmp_path, f"<JDBC_PING2 {where}/>")
            async with mixed_group(java, "tcp", PATIENT, file=file) as group:
                await both_ways(group)
    except (NoServer, Unavailable) as problem:
        pytest.skip(str(problem))
