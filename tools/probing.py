"""Asks members with probes, over UDP multicast or over TCP. ``jgroups-py probe`` and ``jgroups-py top`` do it.

Anybody may answer, so answers are bounded, and any bytes are an answer.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import trio

from jgroups_py.driver import opening
from jgroups_py.errors import ConfigError
from jgroups_py.stack.ports import Bind
from jgroups_py.values.address import is_numeric_host
from jgroups_py.wire import probe

ANSWERS_MAX: Final = 1000
"""Answers to one request over UDP."""
ANSWER_MAX: Final = 2_000_000
"""Bytes of an answer over TCP that are read."""
TARGETS_MAX: Final = 1000
"""Hosts and ports that are asked over TCP."""
AT_ONCE: Final = 20
"""Connections at the same time."""
METRICS: Final = "metrics"
"""The word that asks for all counters."""
_NUMBER: Final = re.compile(r"   ([\w.\-]{1,100}): (\S{1,40})")
PASSCODE_VARIABLE: Final = "JGROUPS_PROBE_PASSCODE"


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer and where it came from. ``size`` is in bytes."""

    host: str
    port: int
    size: int
    answer: probe.ProbeAnswer


@dataclass(frozen=True, slots=True)
class ProbeQuestion:
    """The members to ask, and the way to ask them. ``targets`` are asked over TCP. Without any, ``group`` is asked over UDP through ``interface``."""

    targets: tuple[tuple[str, int], ...]
    group: tuple[str, int]
    interface: str
    timeout: float
    passcode: str | None
    count: int = ANSWERS_MAX
    """Do not wait for more answers than these, over UDP."""
    ttl: int = 8

    def __repr__(self) -> str:
        return f"Asking({self.targets or self.group})"  # not its passcode

    async def ask(self, words: str) -> list[Heard]:
        """Return all answers that came in time, in order of host and port.

        Raises:
            ConfigError: the request cannot be sent.
        """
        found: list[Heard] = []
        if self.targets:
            limit = trio.CapacityLimiter(AT_ONCE)
            async with trio.open_nursery() as nursery:
                for host, port in self.targets:
                    nursery.start_soon(self._ask_one, host, port, words, found, limit)
        else:
            await self._ask_group(words, found)
        return sorted(found, key=lambda heard: (heard.host, heard.port))

    def _request(self, words: str) -> bytes:
        head = probe.authenticator(self.passcode) if self.passcode else b""
        return probe.encode_request(words, head)

    async def _ask_group(self, words: str, found: list[Heard]) -> None:
        bind = Bind(0, "udp", self.interface, 0, multicast_ttl=self.ttl)
        try:
            sock = trio.socket.from_stdlib_socket(opening.open_udp(bind, 0))
        except OSError as error:
            raise ConfigError(f"cannot ask through {self.interface}: {error.strerror}") from None
        with sock:
            try:
                await sock.sendto(self._request(words), self.group)
            except OSError as error:
                host, port = self.group
                raise ConfigError(f"cannot ask {host}:{port}: {error.strerror}") from None
            with trio.move_on_after(self.timeout):
                while len(found) < min(self.count, ANSWERS_MAX):
                    data, source = await sock.recvfrom(65535)
                    found.append(Heard(source[0], source[1], len(data), probe.decode_answer(data)))

    async def _ask_one(
        self, host: str, port: int, words: str, found: list[Heard], limit: trio.CapacityLimiter
    ) -> None:
        async with limit:
            data = b""
            try:
                with trio.move_on_after(self.timeout):
                    async with await trio.open_tcp_stream(host, port) as stream:
                        await stream.send_all(self._request(words) + probe.LINE_END)
                        while len(data) < ANSWER_MAX:
                            piece = await stream.receive_some()
                            if not piece:
                                break
                            data += piece
            except (OSError, trio.BrokenResourceError):
                pass  # no process is there, or it refused
            if data:
                found.append(Heard(host, port, len(data), probe.decode_answer(data)))


def targets_of(texts: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return hosts and ports of ``HOST``, ``HOST:PORT`` and ``HOST:FIRST-LAST``; an IPv6 address stands in brackets.

    Raises:
        ValueError: a text has another form, or they are more than TARGETS_MAX.
    """
    found: list[tuple[str, int]] = []
    for text in texts:
        match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::(\d{1,5})(?:-(\d{1,5}))?)?", text)
        if match is None and is_numeric_host(text):
            match = re.fullmatch(r"()(.+)()()", text)
        if match is None:
            raise ValueError(f'not HOST, HOST:PORT or HOST:FIRST-LAST: "{text}"')
        first = int(match[3] or probe.PORT)
        last = int(match[4] or first)
        if not 1 <= first <= last <= 65535:
            raise ValueError(f'ports must be within 1..65535, the first no larger: "{text}"')
        found += [(match[1] or match[2], port) for port in range(first, last + 1)]
        if len(found) > TARGETS_MAX:
            raise ValueError(f"more than {TARGETS_MAX} hosts and ports")
    return tuple(dict.fromkeys(found))


def identity_of(head: str) -> tuple[str, str]:
    """Return the member and the cluster of the first line of an answer; empty texts where there are none."""
    match = re.fullmatch(r"(.*?) \[ip=.*?, cluster=(.*), version=.*\]", head)
    return (match[1], match[2]) if match else ("", "")


def numbers_of(heard: Heard) -> Iterator[tuple[str, str, float]]:
    """Yield protocol, name and value of each counter of an answer to METRICS. Lines of another form are passed over."""
    protocol = ""
    for line in heard.answer.values.get(METRICS, "").splitlines():
        match = _NUMBER.fullmatch(line)
        if match is None:
            protocol = line.removesuffix(":")
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        if math.isfinite(value):
            yield protocol, match[1], value


def passcode_of(file: str | None) -> str | None:
    """Return the passcode of a file, or of the environment.

    Raises:
        ConfigError: the file cannot be read.
    """
    if file is None:
        return os.environ.get(PASSCODE_VARIABLE) or None
    try:
        return Path(file).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the passcode cannot be read from {file}: {reason}") from None


class ProbeTarget(click.ParamType[str]):
    """Checks one ``--host``."""

    name = "HOST[:PORT[-LAST]]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            targets_of([value])
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)
