"""CommandParser: bytes of one client in, commands of memcached's text protocol out. It has no I/O and no clock.

    parser.feed(data)
    while (command := parser.next_command(now)) is not None: ...

It never raises, for any bytes. It keeps at most a line and a value of the allowed size, and the last bytes
fed.

Source:  memcached's doc/protocol.txt; proto_text.c.
Differs: After a storage command whose length cannot be read, or whose data does not end with its line, memcached reads the data as commands.
         Here the connection ends (``Wrong.ends``): data must never be run. The data of a storage command with a bad key is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from jgroups_py.buckets.items.requests import (
    FLAGS_MAX,
    NUMBER_MAX,
    Change,
    Count,
    Put,
    Read,
    Remove,
    Touch,
)
from jgroups_py.buckets.memcached.commands import (
    Command,
    Modify,
    Retrieve,
    Serve,
    ServiceCommand,
    Wrong,
)
from jgroups_py.buckets.memcached.limits import TextLimits

TEXT_CAUSES: Final[Mapping[str, str]] = {
    "no_command": "a line that is no command",
    "bad_line": "a command with wrong arguments",
    "bad_data": "a value that does not end where its length says",
    "line_too_long": "a line longer than allowed",
    "value_too_large": "a value larger than allowed",
}
_RELATIVE_MAX: Final = 30 * 86_400
"""An expiry of up to 30 days counts from now. A larger one is a Unix time."""
_LONG_GONE: Final = 1.0
"""The expiry of an item with a negative one: it is gone at once."""
_FORMAT: Final = b"CLIENT_ERROR bad command line format"
_ERROR: Final = b"ERROR"


class CommandParser:
    """See the module's docstring."""

    def __init__(self, limits: TextLimits | None = None) -> None:
        self._limits = limits or TextLimits()
        self._buffer = bytearray()
        self._looked = 0
        """Bytes in which no end of a line was found."""
        self._pending: tuple[Put, bool] | None = None
        """A storage command whose data is not there yet, and whether it wants no reply."""
        self._length = 0
        """Bytes of the data of ``_pending`` that are still to come."""
        self._skip = 0
        """Bytes of data that are not wanted."""
        self._ended = False

    @property
    def is_inside(self) -> bool:
        """Is a command incomplete?"""
        return bool(self._buffer or self._pending or self._skip) and not self._ended

    @property
    def held(self) -> int:
        """Count the kept bytes."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take bytes from the client. After the end of the connection they are dropped."""
        if not self._ended:
            self._buffer += data

    def next_command(self, now: float) -> Command | None:
        """Return the next complete command, or None if more bytes are needed. ``now`` is a Unix time in seconds."""
        if self._ended:
            return None
        if self._skip:
            skipped = min(self._skip, len(self._buffer))
            del self._buffer[:skipped]
            self._skip -= skipped
            if self._skip:
                return None
        if self._pending is not None:
            return self._with_data()
        line = self._line()
        if line is None or isinstance(line, Wrong):
            return line
        return self._parsed(line, now)

    def _line(self) -> bytes | Wrong | None:
        """Return the next line without its end."""
        end = self._buffer.find(b"\n", self._looked)
        if (end if end >= 0 else len(self._buffer)) > self._limits.line_max:
            return self._end("line_too_long", b"CLIENT_ERROR line too long")
        if end < 0:
            self._looked = len(self._buffer)
            return None
        line = bytes(self._buffer[:end]).removesuffix(b"\r")
        del self._buffer[: end + 1]
        self._looked = 0
        return line

    def _with_data(self) -> Command | None:
        """Return the storage command that waits for its data."""
        assert self._pending is not None
        length = self._length
        if len(self._buffer) < length + 2:
            return None
        if self._buffer[length : length + 2] != b"\r\n":
            return self._end("bad_data", b"CLIENT_ERROR bad data chunk")
        put, noreply = self._pending
        data = bytes(memoryview(self._buffer)[:length])
        del self._buffer[: length + 2]
        self._pending = None
        return Modify(
            Put(put.key, put.change, data, put.flags, put.expires, put.unique),
            noreply,
        )

    def _parsed(self, line: bytes, now: float) -> Command | None:
        name, *words = [word for word in line.split(b" ") if word] or [b""]
        reader = _READERS.get(name)
        if reader is None:
            return Wrong("no_command", _ERROR)
        return reader(self, name, words, now)

    def _retrieve(self, name: bytes, words: list[bytes], now: float) -> Command:
        touches = name.startswith(b"gat")
        expires: float | None = None
        if touches:
            expires = _expires(words[0], now) if words else None
            if expires is None:
                return Wrong("bad_line", b"CLIENT_ERROR invalid exptime argument")
            words = words[1:]
        if not words:
            return Wrong("bad_line", _ERROR)
        if len(words) > self._limits.keys_max:
            return Wrong("bad_line", b"CLIENT_ERROR too many keys")
        keys = [key for key in map(self._key, words) if key is not None]
        if len(keys) < len(words):
            return Wrong("bad_line", _FORMAT)
        requests = tuple(
            Read(key) if expires is None else Touch(key, expires, read=True) for key in keys
        )
        return Retrieve(requests, name.endswith(b"s"))

    def _store(self, name: bytes, words: list[bytes], now: float) -> Command | None:
        change = Change(name.decode())
        count = 5 if change is Change.CAS else 4
        length = _number(words[3], self._limits.skip_max) if len(words) > 3 else None
        if length is None:
            return self._end("bad_line", _FORMAT if len(words) >= count else _ERROR)
        noreply = words[count:] == [b"noreply"]
        key = self._key(words[0])
        flags = _number(words[1], FLAGS_MAX)
        expires = _expires(words[2], now)
        unique = _number(words[4], NUMBER_MAX) if change is Change.CAS and len(words) > 4 else 0
        wrong = (
            len(words) != count + noreply
            or key is None
            or flags is None
            or expires is None
            or unique is None
        )
        if wrong or length > self._limits.value_max:
            self._skip = length + 2
            if wrong:
                return Wrong("bad_line", _FORMAT)
            return Wrong("value_too_large", b"SERVER_ERROR object too large for cache")
        assert key is not None and flags is not None
        assert expires is not None and unique is not None
        self._pending = Put(key, change, b"", flags, expires, unique), noreply
        self._length = length
        return self._with_data()

    def _count(self, name: bytes, words: list[bytes], now: float) -> Command:
        noreply = words[2:] == [b"noreply"]
        if len(words) != 2 + noreply:
            return Wrong("bad_line", _ERROR)
        key = self._key(words[0])
        if key is None:
            return Wrong("bad_line", _FORMAT)
        delta = _number(words[1], NUMBER_MAX)
        if delta is None:
            return Wrong("bad_line", b"CLIENT_ERROR invalid numeric delta argument")
        return Modify(Count(key, delta, down=name == b"decr"), noreply)

    def _delete(self, name: bytes, words: list[bytes], now: float) -> Command:
        rest = words[1:]
        if rest[:1] == [b"0"]:
            rest = rest[1:]  # old clients send a time; memcached accepts only 0
        if not words or rest not in ([], [b"noreply"]):
            return Wrong("bad_line", _FORMAT if words else _ERROR)
        key = self._key(words[0])
        if key is None:
            return Wrong("bad_line", _FORMAT)
        return Modify(Remove(key), bool(rest))

    def _touch(self, name: bytes, words: list[bytes], now: float) -> Command:
        noreply = words[2:] == [b"noreply"]
        if len(words) != 2 + noreply:
            return Wrong("bad_line", _ERROR)
        expires = _expires(words[1], now)
        if expires is None:
            return Wrong("bad_line", b"CLIENT_ERROR invalid exptime argument")
        key = self._key(words[0])
        if key is None:
            return Wrong("bad_line", _FORMAT)
        return Modify(Touch(key, expires), noreply)

    def _serve(self, name: bytes, words: list[bytes], now: float) -> Command:
        service = ServiceCommand(name.decode())
        noreply = words[-1:] == [b"noreply"] and service in _MAY_BE_SILENT
        words = words[:-1] if noreply else words
        wrong = len(words) > _WORDS_MAX[service] or b"noreply" in words
        if service is not ServiceCommand.STATS:
            wrong = wrong or not all(word.isdigit() for word in words)
        if wrong or (service is ServiceCommand.VERBOSITY and not words and not noreply):
            return Wrong("bad_line", _ERROR)
        return Serve(service, b" ".join(words[:8])[:250], noreply)

    def _key(self, word: bytes) -> str | None:
        """Return a key: UTF-8 without white space and NUL, or None. The protocol forbids control characters; memcached takes them and
        libmemcached's load generator sends them."""
        if not 0 < len(word) <= self._limits.key_max or word.translate(None, _KEY_BYTES):
            return None
        try:
            return word.decode()
        except UnicodeDecodeError:
            return None

    def _end(self, cause: str, reply: bytes) -> Wrong:
        self._ended = True
        self._buffer.clear()
        self._pending = None
        return Wrong(cause, reply, ends=True)


_MAY_BE_SILENT: Final = (ServiceCommand.FLUSH_ALL, ServiceCommand.VERBOSITY)
_WORDS_MAX: Final = {
    ServiceCommand.STATS: 8,
    ServiceCommand.VERSION: 0,
    ServiceCommand.QUIT: 0,
    ServiceCommand.VERBOSITY: 1,
    ServiceCommand.FLUSH_ALL: 1,
}
"""The most arguments of a service: numbers, or words for stats."""
_KEY_BYTES: Final = bytes(code for code in range(1, 256) if code not in b"\t\n\v\f\r ")
_READERS: Final[
    dict[bytes, Callable[[CommandParser, bytes, list[bytes], float], Command | None]]
] = {
    **dict.fromkeys((b"get", b"gets", b"gat", b"gats"), CommandParser._retrieve),
    **dict.fromkeys((change.value.encode() for change in Change), CommandParser._store),
    **dict.fromkeys((b"incr", b"decr"), CommandParser._count),
    b"delete": CommandParser._delete,
    b"touch": CommandParser._touch,
    **dict.fromkeys((service.value.encode() for service in ServiceCommand), CommandParser._serve),
}


def _number(word: bytes, most: int) -> int | None:
    """Return a decimal number of 0 to ``most``, or None."""
    if not word.isdigit() or len(word) > 20:
        return None
    number = int(word)
    return number if number <= most else None


def _expires(word: bytes, now: float) -> float | None:
    """Return the Unix time of an expiry, 0 for never; None if ``word`` is none."""
    if word.startswith(b"-"):
        return None if _number(word[1:], 2**63) is None else _LONG_GONE
    seconds = _number(word, 2**63)
    if seconds is None or seconds == 0:
        return seconds
    return now + seconds if seconds <= _RELATIVE_MAX else float(seconds)
