"""Probes between Java and Python: JGroups' own Probe asks our member, and our command asks a Java member."""

from __future__ import annotations

import re
import subprocess

import pytest
import trio
from java_parts import JavaParts
from mixed_group import mixed_group

from jgroups_py.tools.cli import run
from jgroups_py.tools.commands.mperf_ports import free_block
from jgroups_py.tools.probing import ProbeQuestion
from jgroups_py.wire.probe import GROUP, decode_map

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


def diag(stack: str, port: int, **more: str) -> dict[str, str]:
    found = {"enabled": "true", "enable_udp": "true", "enable_tcp": "true", "port": str(port)}
    return {f"{stack.upper()}.diag.{key}": text for key, text in {**found, **more}.items()}


async def java_probe(parts: JavaParts, *args: str) -> str:
    """Return the output of JGroups' class Probe."""
    command = ["java", "-Djava.net.preferIPv4Stack=true", "-cp", str(parts.jar)]
    options = [*command, "org.jgroups.tests.Probe", "-bind_addr", "127.0.0.1", *args]
    done = await trio.run_process(
        options, capture_stdout=True, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode()


@pytest.mark.parametrize("passcode", ["", "letmein"])
async def test_the_probe_of_java_asks_a_python_member(parts: JavaParts, passcode: str) -> None:
    port = free_block(8)
    secret = ["-passcode", passcode] if passcode else []
    where = ["-port", str(port), "-timeout", "6000", *secret]
    async with mixed_group(parts, "tcp") as group:
        await group.python("P", attributes=diag("tcp", port, passcode=passcode))
        words = ["-cluster", f"{group.cluster[:4]}.*", "uuids", "jmx=FD_ALL3.timeout"]
        said = await java_probe(parts, *where, *words)
        assert "P [ip=127.0.0.1:" in said and "FD_ALL3={timeout=" in said
        assert "1 responses (1 matches, 0 non matches)" in said
        said = await java_probe(parts, *where, "-addr", "127.0.0.1", "-tcp", "true", "keys")
        assert "keys=keys member-addrs uuids" in said
        assert group.python_members[0].channel.statistics().turned_away == {}


async def test_our_probe_asks_a_java_member(parts: JavaParts) -> None:
    port = free_block(8)
    async with mixed_group(parts, "tcp", allowed=["Authorization failed"]) as group:
        more = {"bind_addr": "127.0.0.1", "passcode": "letmein"}
        await group.java("J", attributes=diag("tcp", port, **more))
        for targets in ((), (("127.0.0.1", port),)):
            asking = ProbeQuestion(targets, (GROUP, port), "127.0.0.1", 30.0, "letmein", 1)
            (heard,) = await asking.ask(f"cluster={group.cluster} keys jmx=GMS member-addrs")
            assert heard.answer.head.startswith("J [ip=127.0.0.1:")
            attributes = decode_map(heard.answer.values["GMS"])
            assert attributes is not None and attributes["coord"] == "true"
            assert "jmx" in heard.answer.values["keys"]
        wrong = ProbeQuestion((("127.0.0.1", port),), (GROUP, port), "127.0.0.1", 3.0, "wrong")
        assert await wrong.ask("keys") == []


async def test_numbers_of_a_java_member_reach_prometheus(
    parts: JavaParts, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_block(8)
    async with mixed_group(parts, "tcp") as group:
        await group.java("J", attributes=diag("tcp", port, bind_addr="127.0.0.1"))
        args = ["metrics", "--once", "--host", f"127.0.0.1:{port}", "--timeout", "30s"]
        assert await trio.to_thread.run_sync(run, args) == 0
        out = capsys.readouterr().out
        assert re.search(rf'jgroups_gms_\w+{{cluster="{group.cluster}",member="J"}} \d', out)
