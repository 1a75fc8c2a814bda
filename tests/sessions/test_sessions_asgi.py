"""Sessions of an ASGI application, and sessions that move between members. Full stack, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from jgroups_py import MemoryNetwork, aio
from jgroups_py.cache import BuddyReplicationConfig, CacheSettings, TreeCache, open_tree_cache
from jgroups_py.errors import BatchConflict
from jgroups_py.sessions import SESSION, AsgiSessions

BUDDIES = BuddyReplicationConfig(buddy_replication_enabled=True)


@asynccontextmanager
async def members(
    names: str, buddies: BuddyReplicationConfig | None = BUDDIES
) -> AsyncIterator[list[TreeCache]]:
    settings = CacheSettings(
        cache_mode="REPL_SYNC",
        stack="sim.xml",
        cluster_name="shop",
        buddy_replication_config=buddies,
    )
    network = MemoryNetwork()
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(open_tree_cache(settings, name=name, transport=network))
            for name in names
        ]


async def application(scope: Any, receive: Any, send: Any) -> None:
    """/a=1 sets a value, / shows all."""
    if scope["type"] != "http":
        await send({"type": "websocket.close"})
        return
    session, (name, _, value) = scope[SESSION], scope["path"][1:].partition("=")
    if name:
        session[name] = value
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    session["late"] = "yes" if name else session.get("late")
    await send({"type": "http.response.body", "body": repr(dict(session)).encode()})


class Visitor:
    def __init__(self) -> None:
        self.cookie = b""
        self.status = 0

    async def visit(self, sessions: AsgiSessions, path: str = "/") -> bytes:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [(b"cookie", b"x=y"), (b"cookie", self.cookie)] if self.cookie else []
        await sessions({"type": "http", "path": path, "headers": headers}, trio.sleep_forever, send)
        head, *body = sent
        assert head["type"] == "http.response.start" and body[-1]["type"] == "http.response.body"
        self.status = head["status"]
        for name, value in head["headers"]:
            if name == b"set-cookie":
                self.cookie = value.partition(b";")[0]
        return b"".join(message["body"] for message in body)


@pytest.mark.parametrize("buddies", [BUDDIES, None])
async def test_a_session_is_found_by_any_member(
    buddies: BuddyReplicationConfig | None, autojump_clock: Any
) -> None:
    """The session is also found where calls do not gravitate by themselves (autoDataGravitation false)."""
    async with members("ABC", buddies) as caches:
        a, b, c = sites = [
            AsgiSessions(application, cache, route=name)
            for name, cache in zip("ABC", caches, strict=True)
        ]
        visitor = Visitor()
        assert await visitor.visit(a, "/x=1") == b"a{'x': '1', 'late': 'yes'}"
        assert visitor.cookie.endswith(b".A")
        for number, site in enumerate((b, c, a, b)):
            await visitor.visit(site, f"/n={number}")
            assert visitor.cookie.endswith(b"." + site.store.route.encode())
        shown = b"a{'late': 'yes', 'n': '3', 'x': '1'}"
        for site in sites:
            assert sorted(await visitor.visit(site)) == sorted(shown)
        if buddies is not None:
            assert sum(cache.statistics().nodes for cache in caches) == 1


async def test_side_by_side_at_three_members_no_attribute_is_lost(autojump_clock: Any) -> None:
    for buddies in (BUDDIES, None):
        async with members("ABC", buddies) as caches:
            sites = [AsgiSessions(application, cache) for cache in caches]
            first = Visitor()
            await first.visit(sites[0], "/x=1")

            async def visits(site: AsgiSessions, number: int, cookie: bytes) -> None:
                visitor = Visitor()
                visitor.cookie = cookie
                for n in range(5):
                    await visitor.visit(site, f"/n{number}-{n}=1")
                    assert visitor.status == 200

            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(visits, sites[number % 3], number, first.cookie)
            assert (await first.visit(sites[1])).count(b"-") == 30


async def test_a_change_that_cannot_be_saved_is_not_answered(
    autojump_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_tree_cache("local.xml") as cache:
        site, visitor = AsgiSessions(application, cache), Visitor()
        await visitor.visit(site, "/a=1")

        async def fail(*_: Any, **__: Any) -> bool:
            raise BatchConflict("again and again")

        with monkeypatch.context() as patch:
            patch.setattr(TreeCache, "update_node", fail)
            assert b"Nothing was changed" in await visitor.visit(site, "/a=2")
            assert visitor.status == 503
        assert b"'a': '1'" in await visitor.visit(site)
    assert b"cannot be reached" in await visitor.visit(site) and visitor.status == 503
    counts = site.statistics()
    assert (counts["failed_saves"], counts["failed_loads"]) == (1, 1)


async def test_a_scope_that_is_not_http_passes_by() -> None:
    sent = []

    async def send(message: Any) -> None:
        sent.append(message)

    async with open_tree_cache("local.xml") as cache:
        site = AsgiSessions(application, cache)
        await site({"type": "websocket"}, trio.sleep_forever, send)
    assert sent == [{"type": "websocket.close"}]


def test_sessions_work_in_an_asyncio_server() -> None:
    async def main() -> bytes:
        async with aio.open_tree_cache("local.xml") as cache:
            site, visitor = AsgiSessions(application, cache), Visitor()
            await visitor.visit(site, "/a=1")
            assert await cache.update_node("/nope", {"a": 1}) is False
            return await visitor.visit(site)

    assert asyncio.run(main()) == b"a{'a': '1', 'late': 'yes'}"
