"""The port of the live node. A backup does not listen, so a client that knows both finds the live one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final

import trio

from examples.broker import operations
from examples.broker.connection import Connection, Operation, Running, error_frame
from examples.broker.message import Delivery
from jgroups_py.livebackup import LiveBackupError, LiveBackupNode

_log = logging.getLogger("broker")

CONNECTIONS_MAX: Final = 1_000
HOST: Final = "127.0.0.1"
TOLD_AFTER: Final = 2.0
"""The seconds after which a live node that does not listen yet says why."""


class Broker:
    """Serves clients while its node is live."""

    def __init__(self, node: LiveBackupNode, port: int) -> None:
        self.node, self.port = node, port
        self.counts: Counter[str] = Counter()
        self._connections: dict[str, Connection] = {}
        self._nursery: trio.Nursery | None = None
        self.is_listening = False
        self._sessions = count(1)

    @property
    def clients(self) -> int:
        """The number of sessions, including those that are ending."""
        return len(self._connections)

    async def serve(self) -> None:
        """Listen whenever the node is live, until cancelled. Raise OSError at once when the port is taken, not only at
        the take-over."""
        while True:
            port = trio.socket.socket()
            port.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_REUSEADDR, 1)
            with port:
                try:
                    await port.bind((HOST, self.port))
                except OSError as error:
                    raise OSError(error.errno, f"port {self.port}: {error.strerror}") from None
                self.port = port.getsockname()[1]
                await self.node.wait_role("live")
                try:
                    async with trio.open_nursery() as nursery:
                        self._nursery = nursery
                        nursery.start_soon(self._serve_live, port)
                        nursery.start_soon(self._tell_of_waiting)
                        await self.node.wait_role("joining", "backup", "fenced")
                        nursery.cancel_scope.cancel()
                except* LiveBackupError as errors:
                    _log.warning("%s", errors.exceptions[0])
                finally:
                    self.is_listening = False
                    self._connections.clear()

    async def _serve_live(self, port: trio.socket.SocketType) -> None:
        for session in await self.node.run(operations.sessions):  # of the previous live node
            await self.node.run(operations.disconnect, session)
        port.listen()
        self.is_listening = True
        _log.info("%s is live, clients: %s:%d", self.node.channel.name, HOST, self.port)
        await trio.serve_listeners(self._client, [trio.SocketListener(port)])

    async def _tell_of_waiting(self) -> None:
        """Say why a live node lets nobody in: its first operation waits for backups, too."""
        await trio.sleep(TOLD_AFTER)
        if not self.is_listening:
            name, there = self.node.channel.name, len(self.node.backups)
            _log.warning("%s is live, and waits for confirmations: backups: %d", name, there)

    async def _client(self, stream: trio.SocketStream) -> None:
        async with stream:
            if len(self._connections) >= CONNECTIONS_MAX:
                self.counts["crowded"] += 1
                with trio.move_on_after(1), suppress(trio.BrokenResourceError):
                    await stream.send_all(error_frame(f"there are {CONNECTIONS_MAX} clients"))
                return
            session = str(next(self._sessions))
            connection = self._connections[session] = Connection(stream, session, self)
            try:
                await connection.run()
            except Exception:
                self.counts["failed"] += 1
                _log.exception("a client's connection failed")
        await connection.idle()
        await self.start(operations.disconnect, session).wait()
        del self._connections[session]

    def start(self, operation: Operation, *arguments: Any) -> Running:
        """Run an operation and send its deliveries, even if no caller waits for it."""
        assert self._nursery is not None
        running = Running()
        self._nursery.start_soon(self._run, running, operation, arguments)
        return running

    async def _run(self, running: Running, operation: Operation, arguments: Sequence[Any]) -> None:
        try:
            value = await self.node.run(operation, *arguments)
            if isinstance(value, list):
                self._hand_out(value)
        except Exception as error:
            running.error = error
        finally:
            running.done.set()

    def _hand_out(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            session = delivery.subscription.partition("/")[0]
            connection = self._connections.get(session)
            if (
                connection is not None
            ):  # otherwise the subscription has ended, and its queue gets the message again
                connection.deliver(delivery)
