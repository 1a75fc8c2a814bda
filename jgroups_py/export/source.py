"""Source: the interface of exported data. The tree cache is one (``tree.py``)."""

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
"""A row of a bulk write: key, removed, data. ``RowWrite`` is one with names."""


class RowWrite(NamedTuple):
    """One row of a bulk write."""

    key: str
    removed: bool
    data: bytes


class RowsElsewhere(Protocol):
    """Rows that are not in memory."""

    count: int

    def rows(self, start: int, stop: int) -> AsyncGenerator[Sequence[Any], None]:
        """Yield the rows from ``start`` to ``stop``, in lots as they come. Raise JGroupsError if they cannot be
        read."""

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Frozen:
    """A snapshot: rows that do not change any more, and the place in the log whose state they are. ``stored`` rows come after
    those in memory. ``part`` is the state of the member's part at that moment."""

    rows: Sequence[Any]
    offset: Offset
    stored: RowsElsewhere | None = None
    part: PartOpened | None = None

    def __len__(self) -> int:
        return len(self.rows) + (self.stored.count if self.stored else 0)

    async def pages(self, start: int, stop: int, size: int) -> AsyncGenerator[Sequence[Any], None]:
        """Yield rows by place, at most ``size`` at once."""
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
    """A source of rows. It is called in the member's trio loop. Its rows have any form until it encodes them."""

    kind: ClassVar[str]
    """The value of the data source's option ``kind``."""
    values: str = "msgpack"
    """The encoding of values: "msgpack", or a name that readers do not know."""
    member: str = ""
    """The logical name of this member."""

    @abstractmethod
    def log_at(self, place: Offset | None) -> ChangeLog | OwnerLog:
        """Return the change log. Where each owner has a log, return the one that ``place`` is in.

        Raises:
            ExportError: no place is given, and there are several logs.
            Trimmed: the log of the place is not kept here.
        """

    def logs(self) -> Mapping[str, LogPlace] | None:
        """Return the part of each owner's log that is here, or None where there is one log."""
        return None

    @property
    @abstractmethod
    def members(self) -> tuple[str, ...]:
        """Return the logical names of all members that have a part."""

    @property
    @abstractmethod
    def origins(self) -> Collection[str]:
        """Return the origins whose changes may still come."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Return the number of rows now."""

    def turn_away(self, by: str, cause: str, host: str, causes: Mapping[str, str]) -> bool:
        """Count and report that ``by`` refused a client at ``host``, as ``Channel.turn_away``. Return False if there is
        no channel to report it."""
        return False

    def part(self) -> PartOpened | None:
        """Return the part of the rows that this member owns now, or None if it has all rows."""
        return None

    @abstractmethod
    async def freeze(self, under: Sequence[str]) -> Frozen:
        """Return a snapshot of one moment, with the keys at or below one of ``under``.

        Raises:
            JGroupsError: a key is wrong, or the rows cannot be read.
        """

    @abstractmethod
    def state_columns(self, rows: Sequence[Any]) -> list[list[Any]]:
        """Return rows in the form ``columns.STATE``."""

    @abstractmethod
    def change_columns(self, entries: Sequence[LogEntry]) -> list[list[Any]]:
        """Return rows in the form ``columns.CHANGES``."""

    @abstractmethod
    def prepared(self, rows: Sequence[Row]) -> Sequence[Any]:
        """Check rows and return them in the form in which they are written.

        Raises:
            JGroupsError: a row is wrong.
        """

    @abstractmethod
    async def write(self, rows: Sequence[Any], *, replace: bool, skip_equal: bool = False) -> None:
        """Write prepared rows as one batch, and wait for members with copies as the cache is configured. With
        ``skip_equal`` rows that equal the present nodes are left out.

        Raises:
            JGroupsError: nothing was written, or it may have been (``definite``).
        """

    @abstractmethod
    async def write_marked(
        self, rows: Sequence[Any], marker: Marker, *, replace: bool, last: bool
    ) -> bool:
        """Write like ``write``, unless the marker's batch is written already: then return False and do nothing. With ``last`` the
        batch counts as written after these rows."""

    @abstractmethod
    def close(self) -> None:
        """End the log."""


Progressed = Callable[[int], None]
"""A function that gets the number of further rows that are written."""
