"""probe: requests and answers of JGroups' diagnostics, as bytes and back.

    request     words with spaces between them: ``keys``, ``jmx=NAKACK2.xmit``, ``cluster=demo uuids``. Over TCP a line
                end follows. With a passcode an authenticator stands before the words.
    authenticator  | t1 i64 | q1 f64 | length i32 | digest |, big-endian; the digest is SHA-1 of the passcode
    answer      ``A [ip=127.0.0.1:7800, 2 mbr(s), cluster=demo, version=...]``, a line end, then ``key=value`` and CR LF
                for each key. A value may have line ends of its own.

Java means to put t1 and q1 into the digest. But it gives MessageDigest a ByteBuffer that was written and not flipped,
so none of their bytes is digested. So all authenticators of one passcode have the same digest, and anybody who hears
one can make others. design/look-inside.md has the consequences.

Source:  JGroups DiagnosticsHandler.java, Probe.java, Util.createDigest.
Differs: a Java server takes a byte 10 within the authenticator for the end of a TCP request. ``authenticator`` makes
         none with a byte 10 in t1 and q1, and ``ProbeInput`` takes those of others by their length.
"""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jgroups_py.errors import RemoteProtocolError

PORT: Final = 7500
GROUP: Final = "224.0.75.75"
GROUP_IPV6: Final = "ff0e::75:75"
REQUEST_MAX: Final = 10_000
"""The most bytes of a request, the authenticator included. Java reads no more of a datagram, either."""
WORDS_MAX: Final = 50
"""The most words of a request that are answered."""
DIGEST_SIZE: Final = hashlib.sha1().digest_size
HEAD_SIZE: Final = 20 + DIGEST_SIZE
"""Bytes of an authenticator."""
LINE_END: Final = b"\n"

_HEAD: Final = struct.Struct(">qdi")
_ENTRY: Final = re.compile(r"(?:\A|(?<=\r\n))([^=\r\n]+)=")


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A question. ``clusters`` are patterns: a member of a cluster that one of them does not match stays silent."""

    words: tuple[str, ...]
    clusters: tuple[str, ...] = ()

    def is_for(self, cluster: str) -> bool:
        """Return whether a member of ``cluster`` answers."""
        return all(matches(pattern, cluster) for pattern in self.clusters)


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The answer of one member: its first line or lines, and the values of the keys."""

    head: str
    values: Mapping[str, str]


def matches(pattern: str, cluster: str) -> bool:
    """Return whether a cluster's name is like ``pattern``: ``*`` and ``.*`` match any text, all other characters match themselves.

    Java takes any regular expression. One from the network could keep this process busy for ever.
    """
    glob = pattern.replace(".*", "*")
    glob = re.sub(r"([\[?])", r"[\1]", glob)
    return fnmatch.fnmatchcase(cluster, glob)


def digest_of(passcode: str) -> bytes:
    """Return the digest of each authenticator with this passcode."""
    return hashlib.sha1(passcode.encode()).digest()


def authenticator(passcode: str) -> bytes:
    """Return the authenticator that precedes a request. Nobody uses its two numbers, so they are 1 and 0.5."""
    return _HEAD.pack(1, 0.5, DIGEST_SIZE) + digest_of(passcode)


def encode_request(words: str, head: bytes = b"") -> bytes:
    """Return a request as one datagram. Over TCP, LINE_END follows."""
    return head + words.encode()


def authentic(data: bytes, passcode: str) -> bool:
    """Return whether a request begins with an authenticator made with ``passcode``."""
    if len(data) < HEAD_SIZE:
        return False
    _, _, length = _HEAD.unpack_from(data)
    if length != DIGEST_SIZE:
        return False
    return hmac.compare_digest(data[_HEAD.size : HEAD_SIZE], digest_of(passcode))


def decode_words(data: bytes) -> ProbeRequest:
    """Return the words of a request without its authenticator.

    Raises:
        RemoteProtocolError: the request is too long, has too many words, or is no text.
    """
    if len(data) > REQUEST_MAX:
        raise RemoteProtocolError(f"a request of {len(data)} bytes, at most {REQUEST_MAX}")
    try:
        words = data.decode().split()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a request that is no UTF-8 at byte {error.start}") from None
    if len(words) > WORDS_MAX:
        raise RemoteProtocolError(f"a request of {len(words)} words, at most {WORDS_MAX}")
    prefix = "cluster="
    return ProbeRequest(
        tuple(word for word in words if not word.startswith(prefix)),
        tuple(word.removeprefix(prefix) for word in words if word.startswith(prefix)),
    )


class ProbeInput:
    """Collects one request from a connection. ``head_size``: bytes of the authenticator that must come first."""

    __slots__ = ("_data", "_head_size")

    def __init__(self, head_size: int) -> None:
        self._data = b""
        self._head_size = head_size

    def feed(self, data: bytes) -> bytes | None:
        """Take more bytes. Return the whole request without its line end, once it is there.

        Raises:
            RemoteProtocolError: the request is longer than REQUEST_MAX.
        """
        self._data += data
        end = self._data.find(LINE_END, self._head_size)
        if end > REQUEST_MAX or (end < 0 and len(self._data) > REQUEST_MAX):
            raise RemoteProtocolError(f"a request of more than {REQUEST_MAX} bytes")
        return None if end < 0 else self._data[:end].removesuffix(b"\r")


def encode_answer(head: str, values: Mapping[str, str], most: int) -> bytes:
    """Return an answer of at most ``most`` bytes. Values that do not fit are left out, and the last line says so."""
    parts = [head.encode()]
    left = most - len(parts[0]) - 200
    for position, (key, value) in enumerate(values.items()):
        entry = f"{key}={value}\r\n".encode()
        if len(entry) > left:
            missing = len(values) - position
            parts.append(
                f"cut={missing} of {len(values)} values did not fit into {most} bytes\r\n".encode()
            )
            break
        left -= len(entry)
        parts.append(entry)
    return b"".join(parts)[:most]


def decode_answer(data: bytes) -> ProbeAnswer:
    """Decode an answer. Any bytes are accepted; invalid UTF-8 is replaced."""
    text = data.decode(errors="replace")
    head, _, rest = text.partition("\n")
    marks = list(_ENTRY.finditer(rest))
    if not marks or "\r\n" not in rest:  # the answer to a request without words
        return ProbeAnswer(text.rstrip(), {})
    ends = [mark.start() for mark in marks[1:]] + [len(rest)]
    values = {
        mark[1]: rest[mark.end() : end].removesuffix("\r\n")
        for mark, end in zip(marks, ends, strict=True)
    }
    return ProbeAnswer(head, values)


def decode_map(text: str) -> dict[str, str] | None:
    """Return ``{a=1, b=x, y}`` as a dict. None: the text has another form. A value may hold commas; a name has no
    blank."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    found: dict[str, str] = {}
    last = ""
    for part in text[1:-1].split(", "):
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[\w.\-]+", name):
            last = name
            found[name] = value
        elif last:
            found[last] += f", {part}"
    return found
