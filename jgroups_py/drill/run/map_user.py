"""The application of a map drill: it puts, removes and reads at a rate, and logs others' changes that it sees.

A value names its writer and number: ``["NYC", "A#1", 17, padding]``. Puts return at once, so a request never waits.
Others' values are read when they arrive, and all keys every ``LOOK_SECONDS``, in case an event was missed.
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

import trio

from jgroups_py.drill.file.map_keys import MapLoad
from jgroups_py.drill.run.user import Log, User
from jgroups_py.errors import JGroupsError
from jgroups_py.maps.errors import MapError
from jgroups_py.maps.host import MapEvent
from jgroups_py.maps.orders import Arrived

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at all keys."""

Version = tuple[str, str, int]
"""Site, ``NAME#incarnation`` and number of a value's writer."""


class Keys(Protocol):
    """An application's access to a map of this host."""

    @abstractmethod
    def read(self, key: str) -> Any:
        """Return the value, or None."""

    @abstractmethod
    def write(self, key: str, value: Any) -> bool:
        """Write a value; None removes. False: there was no value to remove. ``MapError``: nothing was changed."""

    @abstractmethod
    def all_keys(self) -> Iterable[str]: ...


class MapRequest(NamedTuple):
    """``kind``: read, put or remove."""

    key: int
    kind: str


class MapUser(User[MapLoad, MapRequest]):
    """One host's requests."""

    def __init__(self, keys: Keys, site: str, origin: str, chance: random.Random, log: Log) -> None:
        super().__init__(site, origin, chance, log)
        self._keys = keys
        self._seen: dict[str, Version | None] = {}

    def source(self, load: MapLoad) -> Callable[[], MapRequest]:
        chance = self._chance

        def following() -> MapRequest:
            key = chance.randrange(load.keys)
            if chance.random() < load.read_ratio:
                return MapRequest(key, "read")
            return MapRequest(key, "remove" if chance.random() < load.remove_ratio else "put")

        return following

    def refuse(self, request: MapRequest, why: str) -> None:
        self._log("failed", key=request.key, why=why)

    async def do(self, request: MapRequest, load: MapLoad) -> None:
        key = name_of(request.key)
        if request.kind == "read":
            origin, seqno, more = self._named(self._look(key))
            self._log("got", origin, seqno, key=request.key, took=0.0, **more)
        else:
            self._put(request, key, load)

    def _put(self, request: MapRequest, key: str, load: MapLoad) -> None:
        self._seqno += 1
        seqno, value = self._seqno, None
        if request.kind == "put":
            padding = "." * max(0, load.value_size - len(self._site) - len(self._origin) - 16)
            value = [self._site, self._origin, seqno, padding]
        more = {"removed": True} if value is None else {}
        self._log("put", self._origin, seqno, key=request.key, **more)
        try:
            changed = self._keys.write(key, value)
        except MapError as error:
            self._log("failed", self._origin, seqno, key=request.key, why=str(error), definite=True)
            return
        self._seen[key] = None if value is None else (self._site, self._origin, seqno)
        more = {} if changed else {"nothing": True}
        self._log("acked", self._origin, seqno, key=request.key, **more)

    # --- writes of others

    def on_event(self, event: MapEvent) -> None:
        """Handle an event of the map."""
        if isinstance(event, Arrived) and self.awake:
            for key, _ in event.entries:
                self.look(key.decode())

    def look(self, key: str) -> None:
        """Log the key's value if it has changed."""
        version = self._look(key)
        if version != self._seen.get(key):
            self._seen[key] = version
            origin, seqno, more = self._named(version)
            self._log("seen", origin, seqno, key=number_of(key), **more)

    async def watch(self) -> None:
        """Look at all keys, again and again."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            if self.awake:
                for key in [*self._keys.all_keys(), *self._seen]:
                    self.look(key)

    def census(self, **more: Any) -> None:
        """Log all that this host has."""
        owned: dict[str, Any] = {}
        for key in self._keys.all_keys():
            version = self._look(key)
            if version is not None:
                self._seen[key] = version
                owned[str(number_of(key))] = [version[1], version[2], version[0]]
        self._log("census", owned=owned, **more)

    def _look(self, key: str) -> Version | None:
        value = self._keys.read(key)
        try:
            return None if value is None else (str(value[0]), str(value[1]), int(value[2]))
        except (TypeError, IndexError, ValueError, KeyError):
            raise JGroupsError(f"key {key} has a value that nobody of this drill wrote") from None

    def _named(self, version: Version | None) -> tuple[str | None, int | None, dict[str, Any]]:
        """Return a version in the form of records: origin, number, and ``from`` if it is of another site."""
        if version is None:
            return None, None, {}
        site, origin, seqno = version
        return origin, seqno, {} if site == self._site else {"from": site}


def name_of(key: int) -> str:
    return f"k{key}"


def number_of(key: str) -> int:
    return int(key[1:])
