"""The waiting messages of a queue: the oldest ones in memory, the others of a deep queue in SQLite.

The file holds messages for which this process has no room. It is no store: the other nodes have every message that must
survive. So the file is not synchronised, and it ends with the process.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterator
from functools import cache
from itertools import count

import msgspec

from examples.broker.message import Message

IN_MEMORY = 10_000
"""Messages of a queue that are kept in memory. Further ones are paged."""
PAGE = 1_000
"""Messages that are read at once."""

_sections = count(1)


@cache
def _file() -> sqlite3.Connection:
    """The file of paged messages has no name: SQLite removes it when the process ends in any way."""
    found = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    found.execute("PRAGMA journal_mode = OFF")
    found.execute("PRAGMA synchronous = OFF")
    found.execute(
        "CREATE TABLE body (section INTEGER, number INTEGER, data BLOB, PRIMARY KEY (section, number)) WITHOUT ROWID"
    )
    return found


def _forget(section: int) -> None:
    """Delete the messages of a queue that is gone."""
    _file().execute("DELETE FROM body WHERE section = ?", (section,))


class Bodies:
    """Number -> message, of one queue."""

    def __init__(self) -> None:
        self._section = next(_sections)
        self._memory: dict[int, Message] = {}
        self.paged = 0
        """The number of messages in the file."""
        self._had_paged = False

    def __len__(self) -> int:
        return len(self._memory) + self.paged

    def __getitem__(self, number: int) -> Message:
        found = self._memory.get(number)
        if found is None:
            self._depage(number)
            found = self._memory[number]
        return found

    def __setitem__(self, number: int, message: Message) -> None:
        if len(self._memory) < IN_MEMORY:
            self._memory[number] = message
            return
        if not self._had_paged:
            self._had_paged = True
            weakref.finalize(self, _forget, self._section).atexit = False
        data = msgspec.msgpack.encode(message.save())
        _file().execute("INSERT INTO body VALUES (?, ?, ?)", (self._section, number, data))
        self.paged += 1

    def __delitem__(self, number: int) -> None:
        if self._memory.pop(number, None) is None:
            _file().execute(
                "DELETE FROM body WHERE section = ? AND number = ?", (self._section, number)
            )
            self.paged -= 1

    def __iter__(self) -> Iterator[tuple[int, Message]]:
        """Yield all messages, without keeping those of the file in memory."""
        yield from list(self._memory.items())
        last = -1
        while True:
            rows = self._rows(last + 1)
            for number, message in rows:
                yield number, message
                last = number
            if not rows:
                return

    def clear(self) -> None:
        self._memory.clear()
        _forget(self._section)
        self.paged = 0

    def _depage(self, first: int) -> None:
        """Read a page, beginning with this message. Raise KeyError if the body is missing."""
        rows = self._rows(first)
        if not rows or rows[0][0] != first:
            raise KeyError(first)
        _file().execute(
            "DELETE FROM body WHERE section = ? AND number BETWEEN ? AND ?",
            (self._section, first, rows[-1][0]),
        )
        self.paged -= len(rows)
        self._memory.update(rows)

    def _rows(self, first: int) -> list[tuple[int, Message]]:
        rows = _file().execute(
            "SELECT number, data FROM body WHERE section = ? AND number >= ? ORDER BY number LIMIT ?",
            (self._section, first, PAGE),
        )
        return [(number, Message.load(msgspec.msgpack.decode(data))) for number, data in rows]
