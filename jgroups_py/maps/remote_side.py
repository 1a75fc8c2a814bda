"""RemoteSide: the map of another machine, for a comparison."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import trio

from jgroups_py.errors import ConfigError, JGroupsError
from jgroups_py.maps.digests import DigestRow
from jgroups_py.maps.frames import (
    Away,
    BadStream,
    Inquiry,
    MapFrameReader,
    first_of,
    frame,
    opening,
)
from jgroups_py.maps.inquiry import (
    AskDigests,
    AskRows,
    BadInquiry,
    Described,
    Digests,
    Rows,
    answered,
    digests_in,
    encode,
    rows_in,
)
from jgroups_py.maps.tcp_places import check_clear, connect, place_from
from jgroups_py.tls import CredentialsError, TlsSettings, load

CONNECT_TIMEOUT: Final = 10.0
"""Seconds within which a host must connect and describe its map."""
ANSWER_TIMEOUT: Final = 120.0
"""Seconds that an answer may take."""


class CannotCompare(JGroupsError):
    """The host cannot be reached, does not answer, or answers nonsense."""


class RemoteSide:
    """Made by ``open_remote``. ``described``: the description of the map."""

    def __init__(self, stream: trio.abc.Stream, place: str) -> None:
        self._stream = stream
        self._place = place
        self._reader = MapFrameReader()
        self._frames: list[bytes] = []
        self.described = Described("", 0, "")

    async def open(self, name: str) -> None:
        with self._told_in_time(CONNECT_TIMEOUT):
            await self._stream.send_all(opening(Inquiry(name)))
            first = first_of(await self._next())
            if isinstance(first, Away):
                raise CannotCompare(f"{self._place}: {first.reason}")
            told = answered(await self._next())
        if not isinstance(first, Inquiry) or not isinstance(told, Described):
            raise CannotCompare(f"{self._place} does not describe its map")
        self.described = told

    async def digests(self) -> list[int]:
        told = await self._ask(AskDigests())
        if not isinstance(told, Digests):
            raise CannotCompare(f"{self._place} does not answer the question")
        return digests_in(told)

    async def rows(self, buckets: Collection[int]) -> dict[bytes, DigestRow]:
        found: dict[bytes, DigestRow] = {}
        after: bytes | None = b""
        while after is not None:
            told = await self._ask(AskRows(sorted(buckets), after))
            if not isinstance(told, Rows) or (told.last is not None and told.last <= after):
                raise CannotCompare(f"{self._place} does not answer the question")
            found |= rows_in(told)
            after = told.last
        return found

    async def _ask(self, question: AskDigests | AskRows) -> Described | Digests | Rows:
        with self._told_in_time(ANSWER_TIMEOUT):
            await self._stream.send_all(frame(encode(question)))
            return answered(await self._next())

    async def _next(self) -> bytes:
        while not self._frames:
            data = await self._stream.receive_some(65_536)
            if not data:
                raise CannotCompare(f"{self._place} has ended the connection")
            self._frames += [one for one in self._reader.feed(bytes(data)) if one]
        return self._frames.pop(0)

    @contextmanager
    def _told_in_time(self, seconds: float) -> Iterator[None]:
        try:
            with trio.fail_after(seconds):
                yield
        except trio.TooSlowError:
            raise CannotCompare(f"{self._place} does not answer within {seconds:g} s") from None
        except (BadStream, BadInquiry) as error:
            raise CannotCompare(f"{self._place} is no port of maps: {error}") from None
        except (trio.BrokenResourceError, OSError) as error:
            raise CannotCompare(f"{self._place}: {error}") from None


@asynccontextmanager
async def open_remote(
    place: str, name: str, *, tls: TlsSettings | None = None, insecure: bool = False
) -> AsyncIterator[RemoteSide]:
    """Connect, for as long as the block lasts, to the map ``name`` of the host that listens at ``place`` (HOST:PORT).

    ``tls``, ``insecure``: as for ``TcpLinks``.

    Raises:
        ConfigError: an argument is wrong. CannotCompare: there is no such host or map, or it is too busy.
    """
    host, port = place_from(place, "a host")
    if tls is None and not insecure:
        check_clear(host, f"the host at {place}")
    try:
        credentials = None if tls is None else load(tls)
    except CredentialsError as error:
        raise ConfigError(f"tls: {error}") from None
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            stream = await connect(host, port)
    except (trio.TooSlowError, OSError) as error:
        raise CannotCompare(f"{place} cannot be reached: {error or 'no answer'}") from None
    if credentials is not None:
        stream = trio.SSLStream(stream, credentials.client, server_hostname=host)
    try:
        side = RemoteSide(stream, place)
        await side.open(name)
        yield side
    finally:
        await trio.aclose_forcefully(stream)
