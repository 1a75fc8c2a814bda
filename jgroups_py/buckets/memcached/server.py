"""MemcachedServer: clients of memcached's text protocol, on trio. Commands of one client run in the order of their lines."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

import trio

from jgroups_py.buckets.door import ClientDoor, DoorLimits, EndOfClient, Guest
from jgroups_py.buckets.items.asking import Asking
from jgroups_py.buckets.items.requests import Found, ItemRequest, Outcome, Put, Touch
from jgroups_py.buckets.items.store import ItemStore, StoreUnavailable
from jgroups_py.buckets.memcached import replies
from jgroups_py.buckets.memcached.commands import (
    Command,
    Modify,
    Retrieve,
    Serve,
    ServiceCommand,
    Wrong,
)
from jgroups_py.buckets.memcached.limits import TextLimits
from jgroups_py.buckets.memcached.parser import TEXT_CAUSES, CommandParser

REFUSED: Final = "flush_all is refused: an entry stays until somebody removes it"
COMMANDS_OF: Final = "1.5.3"
"""The release of memcached whose commands are offered. Clients ask for it to learn the accepted commands;
libmemcached's clients do not accept 0.1.0."""
_FULL: Final = b"SERVER_ERROR too many open connections\r\n"
_COUNTED: Final = ("cmd_get", "cmd_set", "cmd_touch", "get_hits", "get_misses", "refused_flush_all")


@dataclass(frozen=True, kw_only=True)
class PipelineLimits:
    """The most work that the server does at once for one client."""

    keys_at_once: int = 16
    """The most keys of one get that are asked for at the same time. Their values are in memory together."""
    reply_bytes: int = 65_536
    """Answers to commands that came together leave together, as soon as they have this many bytes."""


class MemcachedServer:
    """Serves ``store`` to clients of memcached.

    ``clock`` tells the Unix time, ``draw`` gives stamps; tests give their own. ``counters`` of refused clients are in
    ``statistics()``, which ``stats`` prints.
    """

    def __init__(
        self,
        store: ItemStore,
        *,
        limits: DoorLimits | None = None,
        text_limits: TextLimits | None = None,
        pipeline_limits: PipelineLimits | None = None,
        clock: Callable[[], float] = time.time,
        draw: random.Random | None = None,
    ) -> None:
        self._store = store
        self._text_limits = text_limits or TextLimits()
        self._pipeline = pipeline_limits or PipelineLimits()
        limits = limits or DoorLimits()
        self._door = ClientDoor("MEMCACHED", self._serve, limits, TEXT_CAUSES, _FULL)
        self._asking = Asking(
            store, limits.answer_timeout, self._door.failed, clock=clock, draw=draw
        )
        self._counters = dict.fromkeys(_COUNTED, 0)
        self._started = clock()

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Serve clients until cancelled. ``driver.http_port.open_port`` opens a listener."""
        await self._door.serve(listeners)

    def statistics(self) -> Mapping[str, object]:
        """Return the lines of ``stats``: memcached's names where they exist, then this server's."""
        now = self._asking.clock()
        return {
            "pid": os.getpid(),
            "uptime": int(now - self._started),
            "time": int(now),
            "version": COMMANDS_OF,
            "jgroups_py_version": version("jgroups_py"),
            "curr_connections": len(self._door),
            "max_connections": self._door.limits.connections_max,
            "item_size_max": self._text_limits.value_max,
            "threads": 1,
            **self._counters,
            **self._door.counters,
            **self._store.statistics(),
        }

    async def _serve(self, guest: Guest) -> None:
        parser = CommandParser(self._text_limits)
        answers = bytearray()
        while True:
            command = parser.next_command(self._asking.clock())
            if command is None:
                await self._flush(guest, answers)
                data = await guest.receive(parser.is_inside)
                if not data:
                    return
                parser.feed(data)
                continue
            guest.request_ended()
            await self._run(guest, command, answers)
            if len(answers) >= self._pipeline.reply_bytes:
                await self._flush(guest, answers)

    async def _flush(self, guest: Guest, answers: bytearray) -> None:
        if answers:
            data = bytes(answers)
            answers.clear()
            await guest.send(data)

    async def _run(self, guest: Guest, command: Command, answers: bytearray) -> None:
        match command:
            case Retrieve():
                await self._retrieve(guest, command, answers)
            case Wrong(cause=cause, reply=reply, ends=ends):
                answers += reply + b"\r\n"
                self._door.turn_away(cause, guest.host)
                if ends:
                    await self._flush(guest, answers)
                    await guest.drain()
                    raise EndOfClient
            case Serve(service=ServiceCommand.QUIT):
                await self._flush(guest, answers)
                raise EndOfClient
            case Modify() | Serve():
                if isinstance(command, Modify):
                    answer = await self._modify(command.request)
                else:
                    answer = self._answer(command)
                if not command.noreply:
                    answers += answer

    async def _modify(self, request: ItemRequest) -> bytes:
        if isinstance(request, Put):
            self._counters["cmd_set"] += 1
        elif isinstance(request, Touch):
            self._counters["cmd_touch"] += 1
        try:
            return replies.of_change(await self._asking.ask(request))
        except StoreUnavailable as error:
            return replies.server_error(_told(error))

    async def _retrieve(self, guest: Guest, command: Retrieve, answers: bytearray) -> None:
        """Ask for some keys at once, send their values, then ask for the next ones."""
        at_once = self._pipeline.keys_at_once
        for start in range(0, len(command.requests), at_once):
            requests = command.requests[start : start + at_once]
            found = await self._found(requests)
            for request, outcome in zip(requests, found, strict=True):
                if isinstance(outcome, StoreUnavailable):
                    answers += replies.server_error(_told(outcome))
                    return
                hit = isinstance(outcome, Found)
                self._counters["cmd_get"] += 1
                self._counters["get_hits" if hit else "get_misses"] += 1
                answers += replies.of_value(request.key, outcome, command.unique)
            if len(answers) >= self._pipeline.reply_bytes:
                await self._flush(guest, answers)
        answers += replies.END

    async def _found(self, requests: tuple[ItemRequest, ...]) -> list[Outcome | StoreUnavailable]:
        outcomes: list[Outcome | StoreUnavailable] = [StoreUnavailable("")] * len(requests)

        async def one(number: int, request: ItemRequest) -> None:
            try:
                outcomes[number] = await self._asking.ask(request)
            except StoreUnavailable as error:
                outcomes[number] = error

        if len(requests) == 1:
            await one(0, requests[0])
            return outcomes
        async with trio.open_nursery() as nursery:
            for number, request in enumerate(requests):
                nursery.start_soon(one, number, request)
        return outcomes

    def _answer(self, command: Serve) -> bytes:
        match command.service:
            case ServiceCommand.VERSION:
                return f"VERSION {COMMANDS_OF}\r\n".encode()
            case ServiceCommand.FLUSH_ALL:
                self._counters["refused_flush_all"] += 1
                return replies.server_error(REFUSED)
            case ServiceCommand.STATS if not command.argument:
                return replies.of_statistics(self.statistics())
            case ServiceCommand.STATS:
                return replies.END  # memcached's kinds of statistics are about its slabs
            case _:
                return replies.OK  # verbosity


def _told(error: StoreUnavailable) -> str:
    """Return the text for the client. It says whether the request may have run."""
    return f"{error} ({'nothing was changed' if error.definite else 'it may have run'})"
