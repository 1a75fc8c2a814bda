"""The README's counter behind web servers: 200 visitors at once, on real sockets. All visitors are answered, each is
counted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jgroups_py.config.settings import load_stack, with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

HERE = Path(__file__).parent
EXAMPLE = HERE.parent.parent / "examples" / "asgi_cache.py"
VISITORS = 200
pytestmark = [pytest.mark.sockets, pytest.mark.timeout(240)]

README = """
import json
from jgroups_py import aio

class App:
    def __init__(self):
        self.cache = aio.open_tree_cache("local.xml")

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            async with self.cache:
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        visits = await count(self.cache)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps({"visits": visits}).encode()})

app = App()
"""
COUNTERS = {
    "increment": """
async def count(cache):
    return await cache.increment("/users/7", "visits")
""",
    "update": """
async def count(cache):
    return await cache.update("/users/7", "visits", lambda visits: visits + 1, default=0)
""",
    "batch": """
async def count(cache):
    @cache.batch(retries=10)
    async def visit(batch):
        visits = await batch.get("/users/7", "visits", 0) + 1
        batch.put("/users/7", "visits", visits)
        return visits
    return await visit()
""",
}


@contextmanager
def servers(count: int, application: Path, environment: Mapping[str, str]) -> Iterator[list[int]]:
    first = free_block(count)
    ports = list(range(first, first + count))
    with ExitStack() as cleanup:
        peers = []
        for port in ports:
            peer = subprocess.Popen(
                [sys.executable, str(HERE / "asgi_server.py"), str(application), str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **environment},
                text=True,
            )
            cleanup.enter_context(peer)
            cleanup.callback(peer.kill)
            peers.append(peer)
            assert peer.stdout is not None and peer.stdout.readline() == "ready\n"
        yield ports


async def post(port: int) -> tuple[int, int]:
    """Status and visits."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /users/7/visits HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
    data = await reader.read()
    writer.close()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["visits"] if body else 0


async def visit(ports: list[int]) -> list[tuple[int, int]]:
    return await asyncio.gather(*(post(ports[n % len(ports)]) for n in range(VISITORS)))


def judge(answers: list[tuple[int, int]]) -> None:
    assert Counter(status for status, _ in answers) == {200: VISITORS}
    assert sorted(visits for _, visits in answers) == [*range(1, VISITORS + 1)]


@pytest.mark.parametrize("how", COUNTERS)
def test_two_hundred_visitors_of_the_readmes_counter(how: str, tmp_path: Path) -> None:
    application = tmp_path / "app.py"
    application.write_text(README + COUNTERS[how])
    with servers(1, application, {}) as ports:
        judge(asyncio.run(visit(ports)))


def test_two_hundred_visitors_of_the_example_alone() -> None:
    with servers(1, EXAMPLE, {}) as ports:
        judge(asyncio.run(visit(ports)))


def test_two_hundred_visitors_of_the_example_at_three_servers(tmp_path: Path) -> None:
    config = load_stack("tcp.xml")
    stack, file = tmp_path / "stack.xml", tmp_path / "cache.yaml"
    stack.write_text(to_xml(with_attributes(config, private_attributes(config, 3))))
    file.write_text(f"cache: {{CacheMode: REPL_SYNC, ClusterConfig: {stack}}}")
    with servers(3, EXAMPLE, {"CACHE": str(file), "CLUSTER": "shop"}) as ports:
        judge(asyncio.run(visit(ports)))
