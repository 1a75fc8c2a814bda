"""HttpServer: entries over HTTP/1.1, on trio. h11 reads and writes the protocol; requests of one client run one after the other."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Final

import h11
import trio

from jgroups_py.buckets.door import ClientDoor, DoorLimits, EndOfClient, Guest
from jgroups_py.buckets.http.exchange import (
    STATISTICS,
    Answer,
    Ask,
    HttpLimits,
    answered,
    asked,
    origin_form,
)
from jgroups_py.buckets.items.asking import Asking
from jgroups_py.buckets.items.store import ItemStore, StoreUnavailable

HTTP_DOOR_CAUSES: Final[Mapping[str, str]] = {
    "bad_request": "bytes that are no request",
    "body_too_large": "a body longer than allowed",
}
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n"
    b"Connection: close\r\n\r\n"
)
_PROBLEM: Final = {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}


class HttpServer:
    """Serves ``store``. ``clock`` tells the Unix time, ``draw`` gives stamps and invented keys; tests give their
    own."""

    def __init__(
        self,
        store: ItemStore,
        *,
        limits: DoorLimits | None = None,
        http_limits: HttpLimits | None = None,
        clock: Callable[[], float] = time.time,
        draw: random.Random | None = None,
    ) -> None:
        limits = limits or DoorLimits()
        self._store = store
        self._limits = http_limits or HttpLimits()
        self._door = ClientDoor("HTTP", self._serve, limits, HTTP_DOOR_CAUSES, _FULL)
        self._draw = draw or random.SystemRandom()
        self._asking = Asking(
            store, limits.answer_timeout, self._door.failed, clock=clock, draw=self._draw
        )
        self._requests = 0

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Serve clients until cancelled. ``driver.http_port.open_port`` opens a listener."""
        await self._door.serve(listeners)

    def statistics(self) -> Mapping[str, int]:
        """Return counters by name."""
        return {
            "requests": self._requests,
            "curr_connections": len(self._door),
            **self._door.counters,
            **self._store.statistics(),
        }

    async def _serve(self, guest: Guest) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_max)
        while await self._exchange(guest, connection):
            connection.start_next_cycle()

    async def _exchange(self, guest: Guest, connection: h11.Connection) -> bool:
        """Serve one request. Return whether another request may follow."""
        try:
            head = await self._next(guest, connection)
            if not isinstance(head, h11.Request):
                return False
            self._check(head)
            body = await self._body(guest, connection)
        except h11.RemoteProtocolError as error:
            await self._turn_away(guest, connection, error)
            return False
        guest.request_ended()
        self._requests += 1
        answer = await self._answer(head, body)
        await self._send(guest, connection, answer, head.method == b"HEAD")
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    def _check(self, head: h11.Request) -> None:
        """Check the length of a head, because h11 bounds only incomplete ones, and the length of the body that it announces."""
        size = len(head.target) + sum(len(name) + len(value) for name, value in head.headers)
        if size > self._limits.head_max:
            raise h11.RemoteProtocolError("the head is too long", error_status_hint=431)
        fields = dict(head.headers)
        if b"transfer-encoding" in fields:
            self._check_chunked(head, fields)
        elif int(fields.get(b"content-length", b"0")) > self._limits.body_max:
            raise self._body_too_long()

    def _check_chunked(self, head: h11.Request, fields: Mapping[bytes, bytes]) -> None:
        """Refuse a body whose length a proxy in front may read in another way, for the rest would be the next request (RFC 9112, 6.1
        and 6.3)."""
        if b"content-length" in fields:
            text = "a body has Content-Length or Transfer-Encoding, not both"
            raise h11.RemoteProtocolError(text, error_status_hint=400)
        if head.http_version < b"1.1":
            text = "HTTP/1.0 has no Transfer-Encoding"
            raise h11.RemoteProtocolError(text, error_status_hint=400)

    def _body_too_long(self) -> h11.RemoteProtocolError:
        text = f"the body is too long, at most {self._limits.body_max} bytes are taken"
        return h11.RemoteProtocolError(text, error_status_hint=413)

    async def _next(self, guest: Guest, connection: h11.Connection) -> object:
        """Return the next event. Read while there is none."""
        while True:
            event = connection.next_event()
            if event is not h11.NEED_DATA:
                return event
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await guest.send(connection.send(go_on) or b"")
            inside = connection.their_state is not h11.IDLE or bool(connection.trailing_data[0])
            connection.receive_data(await guest.receive(inside))

    async def _body(self, guest: Guest, connection: h11.Connection) -> bytes:
        body = bytearray()
        while True:
            event = await self._next(guest, connection)
            if isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._limits.body_max:
                    raise self._body_too_long()
            elif isinstance(event, h11.EndOfMessage):
                return bytes(body)
            else:
                raise EndOfClient

    async def _answer(self, head: h11.Request, body: bytes) -> Answer:
        method = head.method.decode("ascii")
        target = origin_form(head.target.decode("ascii", "replace"))
        if target == STATISTICS and method in ("GET", "HEAD"):
            page = json.dumps(dict(self.statistics()), indent=1).encode() + b"\n"
            return Answer(200, page, {"Content-Type": "application/json"})
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        ask = asked(method, target, headers, body, self._asking.clock(), self._invent)
        if isinstance(ask, Answer):
            return ask
        return await self._run(ask)

    async def _run(self, ask: Ask) -> Answer:
        try:
            return answered(ask, await self._asking.ask(ask.request, ask.stamp))
        except StoreUnavailable as error:
            return answered(ask, error)

    def _invent(self) -> str:
        return f"{self._draw.getrandbits(128):032x}"

    async def _turn_away(
        self, guest: Guest, connection: h11.Connection, error: h11.RemoteProtocolError
    ) -> None:
        """Answer bytes that are no request, and count them. The connection ends."""
        cause = "body_too_large" if error.error_status_hint == 413 else "bad_request"
        self._door.turn_away(cause, guest.host)
        if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = Answer(error.error_status_hint, f"{error}\n".encode(), _PROBLEM)
            await self._send(guest, connection, answer, head=False)
            await guest.drain()
        raise EndOfClient

    async def _send(
        self, guest: Guest, connection: h11.Connection, answer: Answer, head: bool
    ) -> None:
        bodyless = answer.status in (204, 304)
        headers = list(answer.headers.items())
        if not bodyless:
            headers.append(("Content-Length", str(len(answer.content))))
        response = h11.Response(status_code=answer.status, headers=headers)
        data = connection.send(response) or b""
        if not bodyless and not head:
            data += connection.send(h11.Data(data=answer.content)) or b""
        data += connection.send(h11.EndOfMessage()) or b""
        await guest.send(data)
