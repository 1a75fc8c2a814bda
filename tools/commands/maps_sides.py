"""The sides of ``jgroups-py maps diff``: a map in a folder, or the map NAME of the host at HOST:PORT."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from jgroups_py.errors import ConfigError
from jgroups_py.maps.digests import Difference, DigestRow, compared, differing, digests, rows
from jgroups_py.maps.remote_side import open_remote
from jgroups_py.tls import TlsSettings

_REMOTE: Final = re.compile(r"(?P<place>.+:[0-9]+)/(?P<name>[^/]+)")


class DiffSide(Protocol):
    """``key_codec`` is known after ``digests``."""

    key_codec: str

    async def digests(self) -> list[int]: ...
    async def rows(self, buckets: Collection[int]) -> dict[bytes, DigestRow]: ...


class Local:
    """An open file."""

    def __init__(self, file: Any) -> None:
        self.key_codec: str = file.key_codec
        self._file = file

    async def digests(self) -> list[int]:
        return await trio.to_thread.run_sync(digests, self._file.items())

    async def rows(self, buckets: Collection[int]) -> dict[bytes, DigestRow]:
        return dict((await trio.to_thread.run_sync(rows, self._file, buckets))[0])


class Remote:
    """The map of a host. Each question has a connection of its own, because much time may pass between two
    questions."""

    def __init__(self, place: str, name: str, tls: TlsSettings | None, insecure: bool) -> None:
        self.key_codec = "bytes"
        self._place, self._name = place, name
        self._how: dict[str, Any] = {"tls": tls, "insecure": insecure}

    async def digests(self) -> list[int]:
        async with open_remote(self._place, self._name, **self._how) as remote:
            self.key_codec = remote.described.key
            return await remote.digests()

    async def rows(self, buckets: Collection[int]) -> dict[bytes, DigestRow]:
        async with open_remote(self._place, self._name, **self._how) as remote:
            return await remote.rows(buckets)


def remote_named(text: str, tls: TlsSettings | None, insecure: bool) -> Remote | None:
    """Return the side named by HOST:PORT/NAME. None: it is a folder. ConfigError: it is neither."""
    if (Path(text) / "data.mdb").exists():
        return None
    match = _REMOTE.fullmatch(text)
    if match is None:
        raise ConfigError(
            "there is no map in this folder; the map of another machine is HOST:PORT/NAME",
            file=text,
        )
    return Remote(match["place"], match["name"], tls, insecure)


async def differences(here: DiffSide, there: DiffSide, limit: int | None) -> list[Difference]:
    """Return the first keys that differ."""
    buckets = differing(await here.digests(), await there.digests())
    if not buckets:
        return []
    found: Iterator[Difference] = compared(await here.rows(buckets), await there.rows(buckets))
    return list(islice(found, limit))
