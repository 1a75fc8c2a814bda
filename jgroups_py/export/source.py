"""Source: something a member exports. The tree cache is one (``tree.py``); later kinds are others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from jgroups_py.export.log import ChangeLog, LogEntry
from jgroups_py.export.messages import LogPlace, Marker, Offset, PartOpened
from jgroups_py.export.owners import OwnerLog

Row = tuple[str, bool, bytes]
"""Of a bulk write: key, removed, data. ``RowWrite`` is one with names."""


class RowWrite(NamedTuple):
    """One row of a bulk write."""

    key: str
    removed: bool
    data: bytes


class Stored(Protocol):
    """Rows that are not in memory."""

    count: int

    def rows(self, start: int, stop: int) -> AsyncGenerator[Sequence[Any], None]:
        """Some of them, as they come. JGroupsError: they cannot be read."""

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Frozen:
    """A snapshot: rows that do not change any more, and the place in the log that they are the state of.
    ``stored`` ones come after those in memory. ``part``: what the member said of its part at that moment."""

    rows: Sequence[Any]
    offset: Offset
    stored: Stored | None = None
    part: PartOpened | None = None

    def __len__(self) -> int:
        return len(self.rows) + (self.stored.count if self.stored else 0)

    async def pages(self, start: int, stop: int, size: int) -> AsyncGenerator[Sequence[Any], None]:
        """Rows by place, at most ``size`` at once."""
        here = len(self.rows)
        for at in range(start, min(stop, here), size):
            yield self.rows[at : min(at + size, stop)]
        if self.stored is not None and stop > here:
            async with aclosing(self.stored.rows(max(0, start - here), stop - here)) as pages:
                async for page in pages:
                    yield page

    async def aclose(self) -> None:
        if self.stored is not None:
            await self.stored.aclose()


class Source(ABC):
    """Called in the member's trio loop. Rows are of its own making until they are encoded."""

    kind: ClassVar[str]
    """What the data source's option ``kind`` says."""
    values: str = "msgpack"
    """How values are bytes: "msgpack", or a name that readers do not know."""
    member: str = ""
    """Logical name of this member."""

    @abstractmethod
    def log_at(self, place: Offset | None) -> ChangeLog | OwnerLog:
        """What happened so far; where each owner has a log of its own, the one that ``place`` is in.

        Raises:
            ExportError: no place is given, and there are several.
            Trimmed: the one it is in is not kept here.
        """

    def logs(self) -> Mapping[str, LogPlace] | None:
        """Where each owner has a log of its own: of each, how much of it is here. None: there is one log."""
        return None

    @property
    @abstractmethod
    def members(self) -> tuple[str, ...]:
        """Logical names of all members that have a part of it."""

    @property
    @abstractmethod
    def origins(self) -> Collection[str]:
        """Those whose changes may still come."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many, now."""

    def part(self) -> PartOpened | None:
        """Of which part of the rows this member is the owner, now. None: it has all of them."""
        return None

    @abstractmethod
    async def freeze(self, under: Sequence[str]) -> Frozen:
        """A snapshot of one moment. ``under``: keys at or below one of these.

        Raises:
            JGroupsError: such a key cannot be, or the rows cannot be read.
        """

    @abstractmethod
    def state_columns(self, rows: Sequence[Any]) -> list[list[Any]]:
        """As ``columns.STATE``."""

    @abstractmethod
    def change_columns(self, entries: Sequence[LogEntry]) -> list[list[Any]]:
        """As ``columns.CHANGES``."""

    @abstractmethod
    def prepared(self, rows: Sequence[Row]) -> Sequence[Any]:
        """Rows checked, in the form in which they are written.

        Raises:
            JGroupsError: one cannot be.
        """

    @abstractmethod
    async def write(self, rows: Sequence[Any], *, replace: bool, skip_equal: bool = False) -> None:
        """Writes prepared rows as one batch; waits for those who have copies, as the cache is configured.
        ``skip_equal``: without those that are there just so.

        Raises:
            JGroupsError: nothing was written, or it may have been (``definite``).
        """

    @abstractmethod
    async def write_marked(
        self, rows: Sequence[Any], marker: Marker, *, replace: bool, last: bool
    ) -> bool:
        """As ``write``, unless the marker's batch is written already: then False and nothing is done.
        ``last``: with these rows it is written, from now on."""

    @abstractmethod
    def close(self) -> None:
        """The log ends."""


Progressed = Callable[[int], None]
"""Is told how many rows more are written."""
