"""The shop of examples/web_map.py: two hosts with uvicorn and two workers each, while workers and a host are killed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from web_visitors import judge, kill_a_worker, kill_who_replicates, visitors_of, wait_for_hits

from examples import web_map

pytestmark = pytest.mark.sockets


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[web_map.Host]]:
    first = int(os.environ["JGROUPS_BIND_PORT"]) + 1
    with ExitStack() as stack:
        found = []
        for number in (1, 2):
            host = web_map.Host(number, tmp_path, first + 3 + number, [first, first + 2])
            stack.callback(host.kill)
            found.append(host)
        for host in found:
            host.wait_ready()
        yield found


def test_workers_and_a_host_are_killed_while_visitors_come_and_nothing_that_was_answered_is_lost(
    hosts: list[web_map.Host],
) -> None:
    one, two = hosts
    killed = set()
    with visitors_of(hosts, 6) as visitors:
        for host, name in ((one, "hits"), (two, "carts"), (one, "carts")):
            wait_for_hits(visitors, 60)
            killed.add(kill_who_replicates(host, name))
        two.kill()
        wait_for_hits(visitors, 60)
        two.start()
        two.wait_ready()
        wait_for_hits(visitors, 60)
        killed.add(kill_a_worker(two))
        wait_for_hits(visitors, 60)
    assert len(killed) == 4
    judge(hosts, visitors)


class Asked:
    """The application alone, without a server."""

    def __init__(self, app: web_map.Shop) -> None:
        self._app = app

    async def __call__(self, method: str, path: str, cookie: str = "") -> tuple[int, Any, str]:
        place, _, query = path.partition("?")
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b""}

        async def send(event: Any) -> None:
            sent.append(event)

        headers = [(b"cookie", cookie.encode())] if cookie else []
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "path": place,
            "headers": headers,
        }
        scope["query_string"] = query.encode("utf-8", "surrogateescape")
        await self._app(scope, receive, send)
        said = dict(sent[0]["headers"])
        return sent[0]["status"], json.loads(sent[1]["body"]), said.get(b"set-cookie", b"").decode()


@asynccontextmanager
async def served(folder: Path, host: int = 1) -> AsyncIterator[Asked]:
    first = int(os.environ["JGROUPS_BIND_PORT"]) + 1
    app = web_map.Shop(host, folder / f"host{host}", [first, first + 2])
    asked: asyncio.Queue[Any] = asyncio.Queue()
    told: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    said = await told.get()
    assert said["type"] == "lifespan.startup.complete", said
    yield Asked(app)
    await asked.put({"type": "lifespan.shutdown"})
    await life
    assert (await told.get())["type"] == "lifespan.shutdown.complete"


def test_a_cart_is_the_visitors_own_and_has_a_limit(tmp_path: Path) -> None:
    async def visit() -> None:
        async with served(tmp_path) as ask:
            _, cart, mine = await ask("POST", "/cart?milk=2&=3")
            assert cart == {"milk": "2"}
            mine = mine.partition(";")[0]
            assert (await ask("POST", "/cart?tea=1", mine))[1] == {"milk": "2", "tea": "1"}
            assert (await ask("GET", "/cart"))[1] == {}
            assert (await ask("GET", "/cart", "cart=../../etc"))[1] == {}
            many = "&".join(f"n{number}=1" for number in range(99))
            assert (await ask("POST", f"/cart?{many}", mine))[0] == 409
            assert (await ask("POST", f"/cart?big={'x' * 16_000}", mine))[0] == 409
            assert (await ask("GET", "/cart", mine))[1] == {"milk": "2", "tea": "1"}
            assert (await ask("POST", "/cart?\udcff=1"))[:2] == (200, {"\ufffd": "1"})
            for page in ("", "x" * 201, "\u00fc" * 101, "\ud800" * 600):
                assert (await ask("POST", f"/hits/{page}"))[0] == 400, page
            for path in ("*", "", "/", "//", "http:"):
                assert (await ask("OPTIONS", path))[0] == 404, path
            assert (await ask("POST", "/hits/home"))[1] == {"hits": 1}
            assert (await ask("GET", "/hits/home"))[1] == {"hits": 1}
            assert (await ask("GET", "/nothing"))[0] == 404
            # Without the other host there is no replication.
            assert (await ask("GET", "/replication"))[1] == {"hits": False, "carts": False}

    asyncio.run(visit())


def test_things_that_two_hosts_put_into_one_cart_at_once_are_all_there(tmp_path: Path) -> None:
    async def visit() -> None:
        async with served(tmp_path, 1) as one, served(tmp_path, 2) as two:
            mine = (await one("GET", "/cart"))[2].partition(";")[0]
            await one("POST", "/cart?milk=2", mine)
            await two("POST", "/cart?tea=1", mine)
            async with asyncio.timeout(30):
                for host in (one, two):
                    cart: Any = {}
                    while cart != {"milk": "2", "tea": "1"}:
                        await asyncio.sleep(0.01)
                        _, cart, _ = await host("GET", "/cart", mine)
                    # The map of carts may be connected before that of hits.
                    both = {"hits": True, "carts": True}
                    while (await host("GET", "/replication"))[1] != both:  # noqa: ASYNC110
                        await asyncio.sleep(0.01)

    asyncio.run(visit())


def test_a_cart_that_is_old_is_removed_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_map, "SWEEP_INTERVAL", 0.05)

    async def visit() -> None:
        async with served(tmp_path) as ask:
            _, _, mine = await ask("POST", "/cart?milk=2")
            await asyncio.sleep(0.1)
            assert (await ask("GET", "/cart", mine))[1] == {"milk": "2"}
            monkeypatch.setattr(web_map, "CART_AGE", -10)
            async with asyncio.timeout(30):
                while (await ask("GET", "/cart", mine))[1] != {}:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    asyncio.run(visit())


def test_a_worker_that_cannot_open_its_maps_says_why(tmp_path: Path) -> None:
    async def start() -> None:
        (tmp_path / "host1").mkdir()
        (tmp_path / "host1" / "hits").write_text("no folder")
        with pytest.raises(AssertionError, match=r"startup.failed.*hits"):
            async with served(tmp_path):
                pass

    asyncio.run(start())
