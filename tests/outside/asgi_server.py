"""A server of an ASGI application on a real socket, as small as possible: HTTP/1.0, one request a connection.

Arguments: the file of the application, the port, the number of ``members`` that its cache waits for. When an
application raises, the answer is 500, as with other servers. It prints "ready" when it listens, and ends
with its input.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from typing import Any


def load(file: str) -> Any:
    spec = importlib.util.spec_from_file_location("application", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["application"] = module
    spec.loader.exec_module(module)
    return module.app


async def answer(app: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    method, path, _ = (await reader.readline()).decode().split()
    size = 0
    while (line := (await reader.readline()).decode().strip().lower()) != "":
        if line.startswith("content-length:"):
            size = int(line.partition(":")[2])
    body = await reader.readexactly(size)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    try:
        await app({"type": "http", "method": method, "path": path}, receive, send)
        status, data = sent[0]["status"], sent[1]["body"]
    except Exception as error:
        print(type(error).__name__, error, file=sys.stderr, flush=True)
        status, data = 500, b""
    writer.write(b"HTTP/1.0 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data)
    await writer.drain()
    writer.close()
    await writer.wait_closed()


async def main(file: str, port: int) -> None:
    app = load(file)
    asked: asyncio.Queue[Any] = asyncio.Queue()
    told: asyncio.Queue[Any] = asyncio.Queue()
    life = asyncio.create_task(app({"type": "lifespan"}, asked.get, told.put))
    await asked.put({"type": "lifespan.startup"})
    assert (await told.get())["type"] == "lifespan.startup.complete"
    server = await asyncio.start_server(
        lambda reader, writer: answer(app, reader, writer), "127.0.0.1", port, backlog=500
    )
    async with server:
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await asked.put({"type": "lifespan.shutdown"})
    await life


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
