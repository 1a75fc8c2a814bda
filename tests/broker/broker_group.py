"""Brokers whose nodes share a network in memory, and a STOMP client. Clients come over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import trio
from split_network import SplitNetwork

from examples.broker.frames import Frame, Parser
from examples.broker.operations import KINDS, OPERATIONS
from examples.broker.server import Broker
from jgroups_py.livebackup import LiveBackupSettings, open_livebackup

ANSWERS = frozenset({"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"})


class Client:
    """A client of a broker. It keeps a frame that comes out of turn until a test asks for it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._parser = Parser(ANSWERS)
        self._frames: list[Frame] = []
        self._receipts = 0

    async def say(self, command: str, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        await self.say_frame(Frame(command, named, body))

    async def say_frame(self, frame: Frame) -> None:
        await self.stream.send_all(frame.encode())

    async def done(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame, and wait for its receipt."""
        self._receipts += 1
        await self.say(command, body, receipt=f"r{self._receipts}", **headers)
        found = await self.get("RECEIPT", "ERROR")
        assert found.headers.get("receipt-id") == f"r{self._receipts}", found

    async def get(self, *commands: str) -> Frame:
        with trio.fail_after(60):
            while True:
                for frame in self._frames:
                    if frame.command in commands:
                        self._frames.remove(frame)
                        return frame
                data = await self.stream.receive_some(65536)
                assert data, f"the broker hung up; there were {self._frames}"
                self._frames += self._parser.feed(data)

    async def bodies(self, number: int) -> list[str]:
        return [(await self.get("MESSAGE")).body.decode() for _ in range(number)]

    async def refused(self) -> str:
        """Return the reason of an ERROR. The broker closes the connection after it."""
        frame = await self.get("ERROR")
        with trio.fail_after(60):
            while await self.stream.receive_some(65536):
                pass
        return frame.headers["message"]


class Brokers:
    def __init__(self, nursery: trio.Nursery, settings: LiveBackupSettings) -> None:
        self._nursery = nursery
        self._settings = settings
        self._network = SplitNetwork()
        self._scopes: dict[str, trio.CancelScope] = {}
        self.brokers: dict[str, Broker] = {}
        self.clients: list[Client] = []

    async def start(self, name: str) -> Broker:
        broker: Broker = await self._nursery.start(self._run, name)
        return broker

    async def _run(self, name: str, *, task_status: trio.TaskStatus[Broker]) -> None:
        with trio.CancelScope() as self._scopes[name]:
            async with open_livebackup(
                "sim.xml",
                cluster="broker",
                name=name,
                kinds=KINDS,
                operations=OPERATIONS,
                settings=self._settings,
                transport=self._network,
            ) as node:
                await node.wait_role("live", "backup")
                broker = self.brokers[name] = Broker(node, 0)
                task_status.started(broker)
                await broker.serve()

    def kill(self, name: str) -> None:
        """Kill the broker without a goodbye."""
        self.brokers.pop(name).node.channel.driver.close_all()
        self._scopes[name].cancel()

    async def client(self, headers: Mapping[str, str] | None = None) -> Client:
        """Return a client that has connected to the live broker."""
        client = await self.stranger()
        connect = {"accept-version": "1.1,1.2", "host": "x", **(headers or {})}
        await client.say_frame(Frame("CONNECT", connect))
        await client.get("CONNECTED")
        return client

    async def stranger(self) -> Client:
        """Return a client that has not connected."""
        live = await self.live()
        client = Client(await trio.open_tcp_stream("127.0.0.1", live.port))
        self.clients.append(client)
        return client

    async def live(self) -> Broker:
        with trio.fail_after(60):
            while True:
                for broker in self.brokers.values():
                    if broker.is_listening:
                        return broker
                await trio.sleep(0.01)

    async def with_clients(self, number: int) -> None:
        """Wait until all brokers together have so many sessions."""
        with trio.fail_after(60):
            while sum(broker.clients for broker in self.brokers.values()) != number:  # noqa: ASYNC110
                await trio.sleep(0.01)


@asynccontextmanager
async def open_brokers(names: Iterable[str] = "A", backups_min: int = 0) -> AsyncIterator[Brokers]:
    async with trio.open_nursery() as nursery:
        brokers = Brokers(nursery, LiveBackupSettings(backups_min=backups_min))
        for name in names:
            await brokers.start(name)
        try:
            yield brokers
        finally:
            for client in brokers.clients:
                client.stream.socket.close()
            nursery.cancel_scope.cancel()
