"""Frames of STOMP 1.2, without I/O: bytes come in any pieces, frames go out (stomp.github.io, specification 1.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

HEAD_MAX: Final = 16_384
"""Bytes of a frame's command and headers."""
HEADERS_MAX: Final = 100
BODY_MAX: Final = 1_000_000
"""Bytes of a frame's body."""
COMMANDS: Final = frozenset(
    {
        "CONNECT",
        "STOMP",
        "SEND",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
        "ACK",
        "NACK",
        "BEGIN",
        "COMMIT",
        "ABORT",
        "DISCONNECT",
    }
)
"""The commands of clients."""
_PLAIN: Final = frozenset({"CONNECT", "STOMP", "CONNECTED"})
"""Frames whose headers have no escapes."""
_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}
_MEANT: Final = {"\\": "\\", "n": "\n", "r": "\r", "c": ":"}


class BadFrame(Exception):
    """A client sent bytes that are no frame, or too large a frame. The connection ends after an ERROR."""


@dataclass(frozen=True)
class Frame:
    command: str
    headers: Mapping[str, str]
    body: bytes = b""

    def need(self, *names: str) -> list[str]:
        """Return the headers of these names. Raise BadFrame if one is missing."""
        for name in names:
            if name not in self.headers:
                raise BadFrame(f"{self.command} needs the header {name}")
        return [self.headers[name] for name in names]

    def encode(self) -> bytes:
        plain = self.command in _PLAIN
        lines = [self.command]
        for name, value in self.headers.items():
            lines.append(f"{name}:{value}" if plain else f"{_escaped(name)}:{_escaped(value)}")
        return "\n".join([*lines, "", ""]).encode() + self.body + b"\0\n"


class Parser:
    """Bytes in, frames out."""

    def __init__(self, commands: Collection[str] = COMMANDS) -> None:
        self._data = bytearray()
        self._commands = commands

        self.bad: BadFrame | None = None
        """The bytes of an incomplete frame after the last complete one. No further bytes are read then."""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the complete frames."""
        self._data += data
        found: list[Frame] = []
        try:
            while self.bad is None and (frame := self._next()) is not None:
                found.append(frame)
        except BadFrame as error:
            self.bad = error
        return found

    def _next(self) -> Frame | None:
        data = self._data
        start = 0
        while start < len(data) and data[start] in (
            10,
            13,
        ):  # line ends between frames are a heart-beat
            start += 1
        del data[:start]
        end, after = _end_of_head(data)
        if end < 0:
            if len(data) > HEAD_MAX:
                raise BadFrame(f"command and headers have more than {HEAD_MAX} bytes")
            return None
        if end > HEAD_MAX:
            raise BadFrame(f"command and headers have more than {HEAD_MAX} bytes")
        command, headers = _head(bytes(data[:end]), self._commands)
        body_end = self._end_of_body(headers, after)
        if body_end < 0:
            return None
        frame = Frame(command, headers, bytes(data[after:body_end]))
        del data[: body_end + 1]
        return frame

    def _end_of_body(self, headers: Mapping[str, str], start: int) -> int:
        """Return the place of the frame's NUL. -1: it has not come yet."""
        data, said = self._data, headers.get("content-length")
        if said is None:
            end = data.find(b"\0", start, start + BODY_MAX + 1)
            if end < 0 and len(data) - start > BODY_MAX:
                raise BadFrame(f"the body has more than {BODY_MAX} bytes")
            return end
        if not (said.isascii() and said.isdigit()) or len(said) > 9:
            raise BadFrame(f"content-length must be a number of bytes, got {said[:40]!r}")
        if int(said) > BODY_MAX:
            raise BadFrame(f"content-length {said}: the body may have {BODY_MAX} bytes")
        end = start + int(said)
        if end >= len(data):
            return -1
        if data[end]:
            raise BadFrame(f"after {said} bytes of body there must be a NUL")
        return end


def _end_of_head(data: bytearray) -> tuple[int, int]:
    """Return the end of the head and the beginning of the body. Lines may end with CR LF."""
    at = 0
    while True:
        end = data.find(b"\n", at, HEAD_MAX + 2)
        if end < 0:
            return -1, -1
        if bytes(data[at:end]) in (b"", b"\r") and at:
            return at, end + 1
        at = end + 1


def _head(head: bytes, commands: Collection[str]) -> tuple[str, dict[str, str]]:
    try:
        text = head.decode()
    except UnicodeDecodeError:
        raise BadFrame("command and headers must be UTF-8") from None
    command, *lines = (line.removesuffix("\r") for line in text.split("\n")[:-1])
    if command not in commands:
        raise BadFrame(f"no command {command[:40]!r}; there are {', '.join(sorted(commands))}")
    if len(lines) > HEADERS_MAX:
        raise BadFrame(f"{len(lines)} headers; a frame may have {HEADERS_MAX}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise BadFrame(f"a header is name:value, got {line[:40]!r}")
        if command not in _PLAIN:
            name, value = _meant(name), _meant(value)
        headers.setdefault(name, value)  # of two equal headers the first one counts
    return command, headers


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(letter, letter) for letter in text)


def _meant(text: str) -> str:
    if "\\" not in text:
        return text
    found: list[str] = []
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            following = next(letters, "")
            if following not in _MEANT:
                raise BadFrame(f"no escape \\{following} in a header")
            letter = _MEANT[following]
        found.append(letter)
    return "".join(found)
