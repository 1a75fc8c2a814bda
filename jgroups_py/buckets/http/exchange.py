"""Turns a request over HTTP into a request to an item, and its outcome into a response. Without I/O.

    GET     /entries/KEY                          the value; ETag is its version. If-None-Match: 304
    PUT     /entries/KEY?expires=SECONDS          store. If-Match: "VERSION" as compare-and-set, If-Match: * only if it is there,
                                                  If-None-Match: * only if it is not
    DELETE  /entries/KEY                          If-Match: "VERSION" only that version
    POST    /entries                              store under a key that is invented here; Location tells it
    POST    /entries/KEY?change=append            or prepend, incr, decr (by=NUMBER), touch (expires=SECONDS)
    GET     /statistics                           counters, as JSON

KEY is percent-encoded UTF-8; slashes need not be encoded. ``Idempotency-Key`` marks repeats: a change that comes twice with the same one is
made once, as far as the item remembers (``ItemLimits.repeats_max``).

201, 204: stored. 404: there is no entry. 405: another method is needed. 409: incr of a value that is not a
number. 412: a condition is not met. 413: too large. 503: no outcome; the text says whether the request may
have run, and Retry-After when a repeat may pass.

Source: RFC 9110, 13.1 (conditions), 15 (status codes).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from jgroups_py.buckets.digest import KEY_MAX
from jgroups_py.buckets.items.requests import (
    NUMBER_MAX,
    Change,
    Count,
    Counted,
    Found,
    ItemRequest,
    Outcome,
    Put,
    Read,
    Remove,
    Said,
    Touch,
    Word,
)
from jgroups_py.buckets.items.store import StoreUnavailable

ENTRIES: Final = "/entries"
STATISTICS: Final = "/statistics"
EXPIRES_MAX: Final = 10**10
"""The most seconds of ``expires``."""
WORDS_MAX: Final = 20
"""The most NAME=VALUE words after the question mark."""
_ETAG: Final = re.compile(r'"([0-9a-f]{1,16})"')
_HOST: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_CHANGES: Final = ("append", "prepend", "incr", "decr", "touch")
_METHODS: Final = "GET, HEAD, PUT, DELETE, POST"


@dataclass(frozen=True, kw_only=True)
class HttpLimits:
    """Sizes are bytes."""

    head_max: int = 16_384
    """The longest head of a request. A longer one is refused with 431."""
    body_max: int = 1_048_576
    """The longest body. A longer one is refused with 413."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to an item. ``stamp``: from an Idempotency-Key, None if there is none."""

    request: ItemRequest
    stamp: int | None = None
    conditional: bool = False
    """Did the client give a condition? If it is not met the answer is 412."""
    unless: str = ""
    """The ETag of If-None-Match. A Read of a value with this ETag is answered with 304."""
    location: str = ""
    """The place of a value that was stored under an invented key."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. ``content`` of a HEAD is not sent."""

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def origin_form(target: str) -> str:
    """Return path and query of a target, which may name the host as well (RFC 9112, 3.2.2)."""
    match = _HOST.match(target)
    return target[match.end() :] if match else target


def asked(
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    invent: Callable[[], str],
) -> Ask | Answer:
    """Return the request to an item, or the answer that refuses it. Names of ``headers`` are in lower case."""
    path, _, query = target.partition("?")
    words = _words(query)
    if path == ENTRIES and method == "POST":
        key: str | None = invent()
        location = f"{ENTRIES}/{quote(str(key))}"
    elif path.startswith(ENTRIES + "/"):
        key, location = _key(path.removeprefix(ENTRIES + "/")), ""
    else:
        return _refused(404, f"there is {ENTRIES}/KEY and {STATISTICS}")
    if words is None:
        return _refused(400, f"after ? there may be {WORDS_MAX} words")
    if key is None:
        return _refused(400, f"a key has 1 to {KEY_MAX} bytes of percent-encoded UTF-8")
    expires = _expires(words.get("expires", "0"), now)
    if expires is None:
        return _refused(400, f"expires must be seconds from 0 to {EXPIRES_MAX}")
    stamp = _stamp(key, headers.get("idempotency-key"))
    match = headers.get("if-match", "").strip()
    unless = headers.get("if-none-match", "").strip()
    unique = _unique(match)
    if match not in ("", "*") and unique is None:
        return _refused(400, 'If-Match must be * or one ETag such as "1f"')
    if method not in ("GET", "HEAD") and unless not in ("", "*"):
        return _refused(400, "If-None-Match of a change must be *")
    match method:
        case "GET" | "HEAD":
            return Ask(Read(key), unless=unless)
        case "PUT":
            change = _change_of(match, unless)
            put = Put(key, change, body, 0, expires, unique or 0)
            return Ask(put, stamp, conditional=change is not Change.SET)
        case "DELETE":
            return Ask(Remove(key, unique), stamp, conditional=unique is not None)
        case "POST" if location:
            return Ask(Put(key, Change.ADD, body, 0, expires), stamp, location=location)
        case "POST":
            request = _changed(key, words, expires, body)
            return Ask(request, stamp) if not isinstance(request, Answer) else request
    return Answer(405, b"another method is needed\n", {"Allow": _METHODS})


def answered(ask: Ask, outcome: Outcome | StoreUnavailable) -> Answer:
    """Return the response to an outcome."""
    match outcome:
        case StoreUnavailable():
            ran = "nothing was changed" if outcome.definite else "it may have run"
            seconds = max(1, round(outcome.retry_after))
            return _refused(503, f"{outcome} ({ran})", {"Retry-After": str(seconds)})
        case Found(stamp=stamp) if ask.unless and ask.unless in ("*", etag(stamp)):
            return Answer(304, b"", {"ETag": etag(stamp)})
        case Found(data=data, stamp=stamp):
            kind = {"Content-Type": "application/octet-stream", "ETag": etag(stamp)}
            return Answer(200, data, kind)
        case Counted(number=number, stamp=stamp):
            kind = {"Content-Type": "text/plain", "ETag": etag(stamp)}
            return Answer(200, b"%d\n" % number, kind)
        case Said(word=word, stamp=stamp):
            return _of_word(ask, word, {"ETag": etag(stamp)} if stamp else {})


def etag(stamp: int) -> str:
    """Return the ETag of a stamp."""
    return f'"{stamp:x}"'


def _of_word(ask: Ask, word: Word, version: Mapping[str, str]) -> Answer:
    match word:
        case Word.CREATED:
            where = {"Location": ask.location} if ask.location else {}
            return Answer(201, b"", {**version, **where})
        case Word.STORED | Word.DELETED | Word.TOUCHED:
            return Answer(204, b"", version)
        case Word.NOT_A_NUMBER:
            return _refused(409, "the value is no number from 0 to 18446744073709551615", version)
        case Word.TOO_LARGE:
            return _refused(413, "the value would be larger than allowed", version)
        case _ if ask.conditional:
            return _refused(412, "the condition is not met", version)
        case _:
            return _refused(404, "there is no such entry", version)


def _refused(status: int, problem: str, headers: Mapping[str, str] | None = None) -> Answer:
    text = "".join(c if c.isprintable() else " " for c in problem)[:1000]
    content = f"{text}\n".encode("utf-8", "replace")
    return Answer(status, content, {"Content-Type": "text/plain; charset=utf-8", **(headers or {})})


def _words(query: str) -> dict[str, str] | None:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=WORDS_MAX, errors="replace")
    except ValueError:
        return None
    return dict(pairs)


def _key(path: str) -> str | None:
    raw = unquote_to_bytes(path)
    if not 0 < len(raw) <= KEY_MAX:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _expires(word: str, now: float) -> float | None:
    if not word.isascii() or not word.isdigit() or len(word) > 11 or int(word) > EXPIRES_MAX:
        return None
    return now + int(word) if int(word) else 0.0


def _unique(match: str) -> int | None:
    found = _ETAG.fullmatch(match)
    return int(found[1], 16) if found and int(found[1], 16) <= NUMBER_MAX else None


def _change_of(match: str, unless: str) -> Change:
    if match:
        return Change.REPLACE if match == "*" else Change.CAS
    return Change.ADD if unless == "*" else Change.SET


def _stamp(key: str, word: str | None) -> int | None:
    """Return the stamp of an Idempotency-Key: 1 to 2^63 - 1."""
    if not word:
        return None
    text = f"{len(key)} {key} {word}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") % (2**63 - 1) + 1


def _changed(
    key: str, words: Mapping[str, str], expires: float, body: bytes
) -> ItemRequest | Answer:
    change = words.get("change", "")
    match change:
        case "append" | "prepend":
            return Put(key, Change(change), body)
        case "incr" | "decr":
            by = words.get("by", "1")
            if not by.isascii() or not by.isdigit() or len(by) > 20 or int(by) > NUMBER_MAX:
                return _refused(400, f"by must be a number from 0 to {NUMBER_MAX}")
            return Count(key, int(by), down=change == "decr")
        case "touch":
            return Touch(key, expires)
    return _refused(400, f"change must be one of {', '.join(_CHANGES)}")
