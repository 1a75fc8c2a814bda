"""A web service on a tree cache: an ASGI application, with any server that speaks ASGI.

uvicorn --app-dir examples asgi_cache:app       (or python examples/asgi_cache.py, which needs none)

    PUT    /users/7   {"name": "Ada"}      204
    GET    /users/7                        200 {"name": "Ada"}, 404 where there is nothing
    DELETE /users/7                        204, 404
    POST   /users/7/visits                 200 {"visits": 1}, counted by every member

With CACHE=replicated.xml and CLUSTER=shop several processes serve the same data. CALL_TIMEOUT is the time of a request in seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from jgroups_py import aio
from jgroups_py.errors import CacheRefused

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]

CALL_TIMEOUT = float(os.environ.get("CALL_TIMEOUT", "5"))
"""Seconds for one request; then 503, and the call is cancelled."""
BODY_MAX = 1_000_000
"""Bytes of a request's body at most."""


class Application:
    """One cache, opened when the server starts and left when it ends (ASGI's lifespan)."""

    def __init__(self, config: str, cluster: str | None) -> None:
        self._cache = aio.open_tree_cache(config, cluster=cluster)

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            async with self._cache:
                await send({"type": "lifespan.startup.complete"})
                await receive()  # lifespan.shutdown
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Event, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                status, value = await self._serve(scope["method"], scope["path"], receive)
        except (CacheRefused, ValueError) as error:
            status, value = 400, {"error": str(error)}
        except TimeoutError:
            status, value = 503, {"error": f"no answer within {CALL_TIMEOUT:g} s"}
        body = b"" if value is None else json.dumps(value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _serve(self, method: str, path: str, receive: Receive) -> tuple[int, Any]:
        if method == "GET":
            node = await self._cache.get_node(path)
            return (404, None) if node is None else (200, node)
        if method == "PUT":
            value = json.loads(await _body(receive))
            if not isinstance(value, dict):
                return 400, {"error": "the body is an object"}
            await self._cache.put_node(path, value, replace=True)
            return 204, None
        if method == "DELETE":
            return (204 if await self._cache.remove_node(path) else 404), None
        if method == "POST" and path.endswith("/visits"):
            return 200, {"visits": await self._count(path.removesuffix("/visits"))}
        return 405, None

    async def _count(self, path: str) -> int:
        visits: int = await self._cache.increment(path, "visits")
        return visits


async def _body(receive: Receive) -> bytes:
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if len(body) > BODY_MAX:
            raise ValueError(f"a body has at most {BODY_MAX} bytes")
        if not event.get("more_body"):
            return body


def make_app() -> Application:
    """Open the cache of the environment."""
    return Application(os.environ.get("CACHE", "local.xml"), os.environ.get("CLUSTER"))


app = make_app()


async def request(app: Any, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Serve one request."""
    sent: list[Event] = []

    async def receive() -> Event:
        return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

    async def send(event: Event) -> None:
        sent.append(event)

    await app({"type": "http", "method": method, "path": path}, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"]) if sent[1]["body"] else None


async def main() -> None:
    """Start the application, ask it, and end it, as a server would."""
    asked: asyncio.Queue[Event] = asyncio.Queue()
    told: asyncio.Queue[Event] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    print((await told.get())["type"])
    print("put:", await request(app, "PUT", "/users/7", {"name": "Ada"}))
    await asyncio.gather(*(request(app, "POST", "/users/7/visits") for _ in range(20)))
    print("get:", await request(app, "GET", "/users/7"))
    print("gone:", await request(app, "GET", "/users/8"))
    await asked.put({"type": "lifespan.shutdown"})
    print((await told.get())["type"])
    await life


if __name__ == "__main__":
    asyncio.run(main())
