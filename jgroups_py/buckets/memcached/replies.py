"""Outcomes of items as lines of memcached's text protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jgroups_py.buckets.items.requests import Counted, Found, Outcome, Said, Word

END: Final = b"END\r\n"
OK: Final = b"OK\r\n"
_WORDS: Final = {
    Word.STORED: b"STORED",
    Word.CREATED: b"STORED",
    Word.NOT_STORED: b"NOT_STORED",
    Word.EXISTS: b"EXISTS",
    Word.NOT_FOUND: b"NOT_FOUND",
    Word.DELETED: b"DELETED",
    Word.TOUCHED: b"TOUCHED",
    Word.NOT_A_NUMBER: b"CLIENT_ERROR cannot increment or decrement non-numeric value",
    Word.TOO_LARGE: b"SERVER_ERROR object too large for cache",
}


def of_change(outcome: Outcome) -> bytes:
    """Return the line that answers a change of one item."""
    match outcome:
        case Said(word=word):
            return _WORDS[word] + b"\r\n"
        case Counted(number=number):
            return b"%d\r\n" % number
        case Found():
            return server_error("a value answers a change")


def of_value(key: str, outcome: Outcome, unique: bool) -> bytes:
    """Return the lines of one value of a get. They are empty if there is no item."""
    if not isinstance(outcome, Found):
        return b""
    head = b"VALUE %b %d %d" % (key.encode(), outcome.flags, len(outcome.data))
    if unique:
        head += b" %d" % outcome.stamp
    return b"%b\r\n%b\r\n" % (head, outcome.data)


def of_statistics(rows: Mapping[str, object]) -> bytes:
    """Return the lines that answer stats."""
    lines = [f"STAT {name} {value}\r\n".encode() for name, value in rows.items()]
    return b"".join(lines) + END


def server_error(problem: str) -> bytes:
    """Return the line that tells a client of a fault on this side."""
    text = "".join(c if c.isprintable() else " " for c in problem)
    return f"SERVER_ERROR {text[:500]}\r\n".encode("utf-8", "replace")
