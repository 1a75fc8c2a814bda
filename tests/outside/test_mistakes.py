"""Mistakes of new users: each is really made, and the page docs/howto/mistakes.md has its message.

``REWRITE=1 pytest tests/outside/test_mistakes.py`` writes the sentences into the page. Read the diff.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import MemoryNetwork, open_channel
from jgroups_py.stack.ports import Endpoint
from jgroups_py.tools import cli

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "mistakes.md"
BEGIN, END = "<!-- rows: tests/outside/test_mistakes.py -->\n", "<!-- end of rows -->\n"

SHOP = """<config>
    <UDP/>
    <PING/>
    <MERGE3 min_interval="1s" max_interval="3s"/>
    <FD_SOCK2/>
    <FD_ALL3 timeout="10s" interval="2s"/>
    <VERIFY_SUSPECT2 timeout="500ms"/>
    <pbcast.NAKACK2/>
    <UNICAST3/>
    <pbcast.STABLE/>
    <pbcast.GMS join_timeout="1s"/>
    <UFC/>
    <MFC/>
    <FRAG2/>
</config>
"""


@dataclass
class Lab:
    """The folder of shop.xml, and the message of a mistake in it."""

    folder: Path
    logged: pytest.LogCaptureFixture
    printed: pytest.CaptureFixture[str]

    def shop(self, old: str, new: str, name: str = "shop.xml") -> str:
        """Write the stack with a change; return its path."""
        assert old in SHOP
        return self.file(SHOP.replace(old, new), name)

    def file(self, text: str, name: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def command(self, *words: str, code: int = 2) -> str:
        """Run a command that must end with ``code`` and print one line; return the line."""
        self.printed.readouterr()
        assert cli.run(words) == code
        (line,) = self.printed.readouterr().err.splitlines()
        return line

    def alone(self, run: Callable[[], Awaitable[None]], level: int = logging.WARNING) -> str:
        """Return the first line in which a member says that it is alone."""
        with self.logged.at_level(level, "jgroups_py"):
            trio.run(run, clock=MockClock(autojump_threshold=0))
        lines = [r.getMessage() for r in self.logged.records if r.levelno >= level]
        return next(line for line in lines if "is alone" in line)


def unknown_attribute(lab: Lab) -> str:
    return lab.command("validate", lab.shop("join_timeout", "join_timeot"))


def wrong_unit(lab: Lab) -> str:
    return lab.command("validate", lab.shop('"10s"', '"10sec"'))


def missing_protocol(lab: Lab) -> str:
    return lab.command("validate", lab.shop("    <pbcast.NAKACK2/>\n", ""))


def wrong_order(lab: Lab) -> str:
    moved = SHOP.replace("    <PING/>\n", "").replace("    <UFC/>", "    <PING/>\n    <UFC/>")
    return lab.command("validate", lab.file(moved, "shop.xml"))


def port_in_use(lab: Lab) -> str:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        typed = ["chat", "--stack", "tcp.xml", "--set", "TCP.port_range=0"]
        return lab.command(*typed, "--set", f"TCP.bind_port={port}").replace(str(port), "7800")


def wrong_interface(lab: Lab) -> str:
    said = lab.command("chat", "--bind-addr", "203.0.113.7", "-D", "jgroups.insecure=true")
    return re.sub(r"which has .*", "which has 127.0.0.1, 10.0.0.5, ::1", said)


def name_of_an_interface(lab: Lab) -> str:
    said = lab.command("chat", "--bind-addr", "eth0")
    return re.sub(r"\(.*\)", "(127.0.0.1, 10.0.0.5, ::1)", said)


def nothing_encrypts(lab: Lab) -> str:
    return lab.command("validate", lab.shop("<UDP/>", '<UDP bind_addr="10.0.0.5"/>'), code=1)


def another_version(lab: Lab) -> str:
    network = MemoryNetwork()

    async def run() -> None:
        async with open_channel("udp.xml", cluster="shop", name="A", transport=network):
            # Version, flags and so on of a packet of JGroups 4.2.
            network.send(("10.0.0.9", 50000), bytes.fromhex("208102"), ("239.8.8.8", 45588))
            await trio.sleep(30)

    return lab.alone(run)


def another_cluster_name(lab: Lab) -> str:
    network = MemoryNetwork()
    stack = lab.file(SHOP, "shop.xml")

    async def run() -> None:
        async with (
            open_channel(stack, cluster="shop", name="A", transport=network),
            open_channel(stack, cluster="Shop", name="B", transport=network),
        ):
            await trio.sleep(30)

    return lab.alone(run)


class WithoutMulticast(MemoryNetwork):
    """A network as in most clouds: datagrams to groups vanish."""

    def send(self, source: Endpoint, data: bytes, dest: Endpoint) -> None:
        if dest not in self.groups:
            super().send(source, data, dest)


def no_multicast(lab: Lab) -> str:
    network = WithoutMulticast()

    async def run() -> None:
        async with (
            open_channel("udp.xml", cluster="shop", name="A", transport=network),
            open_channel("udp.xml", cluster="shop", name="B", transport=network) as other,
        ):
            await trio.sleep(30)
            assert len(other.view) == 1

    return lab.alone(run, logging.INFO)


def tab_in_yaml(lab: Lab) -> str:
    return lab.command("validate", lab.file("- UDP:\n\tmcast_port: 45588\n", "shop.yaml"))


def include_not_found(lab: Lab) -> str:
    return lab.command("validate", lab.shop("<UDP/>", '<include file="udp-defalt.xml"/>'))


def includes_in_a_circle(lab: Lab) -> str:
    lab.shop("<UDP/>", '<include file="shop.xml"/>', "transport.xml")
    return lab.command("validate", lab.shop("<UDP/>", '<include file="transport.xml"/>'))


WITH_SOCKETS = (port_in_use, wrong_interface)
MISTAKES: dict[str, Callable[[Lab], str]] = {
    '`join_timeot="1s"`: an attribute that is not known': unknown_attribute,
    '`timeout="10sec"`: a wrong unit': wrong_unit,
    "NAKACK2 is missing": missing_protocol,
    "PING stands above GMS": wrong_order,
    "the port is in use": port_in_use,
    "`bind_addr` is not an address of this machine": wrong_interface,
    "`--bind-addr eth0`: the name of an interface": name_of_an_interface,
    '`bind_addr="10.0.0.5"` without encryption': nothing_encrypts,
    "the others run JGroups 4": another_version,
    "the others use another cluster name": another_cluster_name,
    "the network has no multicast": no_multicast,
    "a tab in YAML": tab_in_yaml,
    "an include that is not there": include_not_found,
    "two files that include each other": includes_in_a_circle,
}
"""The first cell of a row of the page, and the way in which the mistake is made."""


def rows() -> dict[str, str]:
    """Return the table of the page: the mistake and its message."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    cells = [line.strip("| \n").split(" | ") for line in text.splitlines()[2:]]
    return {mistake: said.strip("`") for mistake, said in cells}


def write(found: dict[str, str]) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    lines = ["| mistake | what comes |", "|---|---|"]
    lines += [f"| {mistake} | `{found.get(mistake, '?')}` |" for mistake in MISTAKES]
    table = "\n".join(lines) + "\n"
    PAGE.write_text(before + BEGIN + table + END + rest.partition(END)[2], encoding="utf-8")


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(
            title, marks=[pytest.mark.sockets] if make in WITH_SOCKETS else [], id=make.__name__
        )
        for title, make in MISTAKES.items()
    ],
)
def test_the_page_has_the_real_messages(
    mistake: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = MISTAKES[mistake](Lab(tmp_path, caplog, capsys))
    said = said.replace(f"{tmp_path}/", "").replace(str(tmp_path), "/etc/shop")
    assert "|" not in said
    if os.environ.get("REWRITE"):
        write({**rows(), mistake: said})
    assert rows().get(mistake) == said


def test_the_page_has_all_mistakes_and_no_other() -> None:
    assert list(rows()) == list(MISTAKES)
