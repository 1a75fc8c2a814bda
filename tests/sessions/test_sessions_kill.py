"""The example's three servers behind its router, under load; one is killed. Real HTTP requests."""

from __future__ import annotations

import importlib.util
import socketserver
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.commands.mperf_ports import private_attributes

pytestmark = [pytest.mark.sockets, pytest.mark.timeout(300)]
BUDDIES = "BuddyReplicationConfig: {buddyReplicationEnabled: true}"
SMALL = """EvictionPolicyConfig: {region: {name: /, maxNodes: 3}}, CacheLoaderConfiguration: {
  passivation: true, purgeOnStartup: true,
  cacheloader: {class: SqliteStore, properties: {location: ":memory:"}}}"""
"""Memory for three sessions; the others are in a store of each process."""
FILE = "cache: {{CacheMode: {mode}, ClusterName: shop, ClusterConfig: {stack}, {more}}}"
VISITORS, THREADS = 24, 4
WRITES = 4
"""Acknowledged writes of every session before the kill, and as many after it."""


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    path = Path(__file__).parents[2] / "examples" / "http_sessions.py"
    spec = importlib.util.spec_from_file_location("http_sessions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["http_sessions"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["http_sessions"]


@dataclass
class Visit:
    """The requests of one visitor, and their answers."""

    browser: Any
    acked: dict[str, str] = field(default_factory=dict)
    tried: dict[str, str] = field(default_factory=dict)
    served_by: str = ""
    problems: list[str] = field(default_factory=list)

    def write(self) -> None:
        """Put one more thing into the session. If the request is not acknowledged, the thing may be there or not."""
        key, value = f"n{len(self.tried)}", f"value {len(self.tried)}"
        self.tried[key] = value
        try:
            status, answer = self.browser.ask("POST", f"/?{key}={value.replace(' ', '+')}")
        except (OSError, HTTPException):
            return
        if status == 200:
            self.acked[key] = value
            self.served_by = answer["server"]
            self.check(answer["cart"], self.served_by)

    def check(self, cart: dict[str, str], where: str) -> None:
        lost = sorted(self.acked.items() - cart.items())
        invented = sorted(cart.items() - self.tried.items())
        if lost or invented:
            self.problems.append(f"at {where}: lost {lost}, invented {invented}")


def wait_until_protected(example: ModuleType, ports: Mapping[str, int]) -> None:
    """Wait until each server protects its sessions among three. On a busy machine a server may be alone at first, and merge
    later; an answer does not wait that long."""
    until = time.monotonic() + 90
    for port in ports.values():
        while (said := example.Visitor(port).ask("GET", "/protected?members=3"))[0] != 200:
            assert time.monotonic() < until, said


def shop_with(example: ModuleType, tmp_path: Path, mode: str, more: str) -> list[Visit]:
    """Run the load, the kill, and reads at the survivors. Return every visit with its mistakes."""
    config = load_stack("tcp.xml")
    stack, file = tmp_path / "stack.xml", tmp_path / "cache.yaml"
    attributes = private_attributes(config, 3) | {"pbcast.GMS.join_timeout": "500ms"}
    stack.write_text(to_xml(with_attributes(config, attributes)))
    file.write_text(FILE.format(mode=mode, stack=stack, more=more))
    servers = example.start("ABC", "--file", str(file))
    ports = {name: port for name, (_, port) in servers.items()}
    router = example.Router(0, ports)
    threading.Thread(target=router.serve_forever, args=(0.05,), daemon=True).start()
    visits = [Visit(example.Visitor(router.server_port)) for _ in range(VISITORS)]
    killed, give_up = threading.Event(), time.monotonic() + 120

    def shop(mine: list[Visit]) -> None:
        enough = [0] * len(mine)
        while time.monotonic() < give_up:
            for visit in mine:
                visit.write()
            if not killed.is_set():
                enough = [len(visit.acked) + WRITES for visit in mine]
            elif all(len(v.acked) >= n for v, n in zip(mine, enough, strict=True)):
                return

    try:
        if "buddy" in more:
            wait_until_protected(example, ports)
        shoppers = [
            threading.Thread(target=shop, args=(visits[n::THREADS],)) for n in range(THREADS)
        ]
        for shopper in shoppers:
            shopper.start()
        while min(len(v.acked) for v in visits) < WRITES and time.monotonic() < give_up:
            time.sleep(0.01)
        homes = Counter(visit.served_by for visit in visits)
        (victim, owned), *_ = homes.most_common(1)
        assert len(homes) == 3 and owned >= VISITORS // 4, homes  # the router spreads them
        servers[victim][0].kill()
        killed.set()
        for shopper in shoppers:
            shopper.join()
        for visit in visits:
            assert visit.served_by != victim and len(visit.acked) >= 2 * WRITES
            for name in sorted(ports.keys() - {victim}):
                visit.browser.port = ports[
                    name
                ]  # the router did not choose it: the session is found anywhere
                status, answer = visit.browser.ask("GET")
                assert status == 200 and answer["server"] == name
                visit.check(answer["cart"], name)
    finally:
        router.shutdown()
        router.server_close()
        example.stop(servers)
    return visits


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 200 OK\r\nDate: Mon"])
def test_an_answer_that_ends_within_its_headers_is_none(sent: bytes, example: ModuleType) -> None:
    class Dies(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(sent)

    dead = socketserver.TCPServer(("127.0.0.1", 0), Dies)
    with dead, example.Router(0, {"A": dead.server_address[1]}) as router:
        for server in (dead, router):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        visitor = example.Visitor(router.server_port)
        assert visitor.ask("POST", "/?milk=2") == (502, "A has died in the middle of it\n")
        assert visitor.ask("GET") == (503, "no server\n")
        router.shutdown()
        dead.shutdown()


@pytest.mark.seed("B7")
@pytest.mark.parametrize(
    "memory",
    ["all", pytest.param("few", marks=pytest.mark.slow)],
)
def test_a_killed_server_loses_no_session(memory: str, example: ModuleType, tmp_path: Path) -> None:
    more = BUDDIES if memory == "all" else f"{BUDDIES}, {SMALL}"
    visits = shop_with(example, tmp_path, "REPL_SYNC", more)
    assert [visit.problems for visit in visits if visit.problems] == []


@pytest.mark.slow
def test_without_copies_the_same_check_finds_lost_sessions(
    example: ModuleType, tmp_path: Path
) -> None:
    visits = shop_with(example, tmp_path, "LOCAL", "LockAcquisitionTimeout: 10s")
    assert sum(bool(visit.problems) for visit in visits) >= VISITORS // 4
