"""What clients and export ports say: a header in msgpack, for rows a body of columns.

    4 bytes   length of the header         4 bytes   length of the body         header, body

The port speaks first (Challenge), so that a client that knows no token learns nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from jgroups_py.export.errors import ExportError

VERSION: Final = 2
LENGTHS: Final = struct.Struct(">II")
GREETING_MAX: Final = 4096
"""Bytes of the header of a message before both sides know each other."""
HEADER_MAX: Final = 4_000_000
"""Bytes of a header at most: a commit names every task of a job."""
BODY_MAX: Final = 64_000_000
"""Bytes of a body at most: a frame, or one row with the largest value a cache takes."""


class Offset(msgspec.Struct, frozen=True):
    """A place in a change log: of each origin, the last number before it.

    ``log`` and ``at``: the same place as a count in one member's own log, so that who goes on there
    needs no search. Of a cache with buddies: the place in one owner's log, ``log``; or in all of them, then ``log`` is
    empty.
    """

    log: str
    at: int
    origins: dict[str, int]
    ended: tuple[str, ...] = ()
    """Owners that are gone, and everything they wrote comes before: nobody needs to remember them."""

    @property
    def is_of_parts(self) -> bool:
        """Of a cache with buddies, in the logs of all its owners."""
        return not self.log


def place_of(origins: Mapping[str, int], ended: Iterable[str]) -> Offset:
    """In the logs of all owners of a cache with buddies."""
    return Offset("", 0, dict(sorted(origins.items())), tuple(sorted(ended)))


class Marker(msgspec.Struct, frozen=True):
    """``batch`` of ``query``: written once, however often it is tried. Batches of a query rise."""

    query: str
    batch: int


# --- beginning


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    """From the port."""

    version: int
    nonce: bytes


class ClientHello(msgspec.Struct, frozen=True, tag="hello"):
    version: int
    nonce: bytes
    proof: bytes


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The port knows the token, too."""

    proof: bytes
    member: str


# --- asked


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    map: str | None
    kind: str | None


class OpenSnapshot(msgspec.Struct, frozen=True, tag="open-snapshot"):
    """``under``: keys that are one of these or below it. ``part``: this member's part, where each has one; who does not
    say so wants all."""

    map: str
    under: tuple[str, ...] = ("/",)
    part: bool = False


class AskPart(msgspec.Struct, frozen=True, tag="ask-part"):
    """What the member says of its part now. Answered by Part."""

    map: str


class ReadSnapshot(msgspec.Struct, frozen=True, tag="read-snapshot"):
    """Rows ``start`` to ``stop`` of a snapshot."""

    id: str
    start: int
    stop: int


class CloseSnapshot(msgspec.Struct, frozen=True, tag="close-snapshot"):
    id: str


class FindOffset(msgspec.Struct, frozen=True, tag="find-offset"):
    """The end of the log, but at most ``max_changes`` after ``after`` (and more than nothing). Without
    ``after``: the end, or where the log begins (``earliest``)."""

    map: str
    after: Offset | None = None
    max_changes: int | None = None
    earliest: bool = False


class ReadChanges(msgspec.Struct, frozen=True, tag="read-changes"):
    """Changes after ``start``, up to and with ``stop``."""

    map: str
    start: Offset
    stop: Offset


class AskLogs(msgspec.Struct, frozen=True, tag="ask-logs"):
    """Of a cache with buddies: whose changes this member has, and how far. Answered by Logs."""

    map: str


class StageRows(msgspec.Struct, frozen=True, tag="stage"):
    """With rows, for a later commit; ``last``: the task is done, answer."""

    map: str
    job: str
    task: int
    attempt: int
    rows: int
    sizes: tuple[int, ...]
    last: bool


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """Writes what these ``(task, attempt)`` of a job have staged, in this order, and forgets the rest.
    ``skip_equal``: but rows that are there already just so are left alone, and no change."""

    map: str
    job: str
    parts: tuple[tuple[int, int], ...]
    replace: bool = False
    marker: Marker | None = None
    skip_equal: bool = False


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    map: str
    job: str


# --- answered


class PortProblem(msgspec.Struct, frozen=True, tag="problem"):
    code: str
    message: str


class Description(msgspec.Struct, frozen=True, tag="description"):
    """``members``: logical names; ``values``: how values are bytes ("msgpack", or a codec's class).
    ``writing``: rows of all commits under way, of which ``written`` are done. ``parts``: each member has a part of the
    rows, to be read there."""

    map: str
    kind: str
    member: str
    members: tuple[str, ...]
    values: str
    rows: int
    written: int = 0
    writing: int = 0
    parts: bool = False


class PartOpened(msgspec.Struct, frozen=True, tag="part"):
    """``member`` and the keys of ``members`` are addresses, the values logical names. ``moves``, ``moving``, ``told``: as
    ``jgroups_py.cache.holding.Holding``."""

    view: str
    member: str
    members: dict[str, str]
    moves: int
    moving: str
    told: int = 0


class LogPlace(msgspec.Struct, frozen=True):
    """See ``jgroups_py.export.owners``."""

    floor: int
    have: int
    end: int


class Logs(msgspec.Struct, frozen=True, tag="logs"):
    """By origin."""

    part: PartOpened
    places: dict[str, LogPlace]


class SnapshotOpened(msgspec.Struct, frozen=True, tag="snapshot"):
    """The state after everything up to ``offset``. ``part``: of a part, at the moment of the snapshot; then the offset is
    a place in this owner's log, and the ends of those that are gone."""

    id: str
    rows: int
    offset: Offset
    part: PartOpened | None = None


class OffsetFound(msgspec.Struct, frozen=True, tag="offset"):
    offset: Offset
    changes: int
    """Between ``after`` and this one."""
    origins: int
    first: int
    """Where this member's log begins, as a count."""


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """With a body; ``sizes``: bytes of its buffers. ``last``: no more of them (it may be empty)."""

    rows: int
    sizes: tuple[int, ...]
    last: bool


class RowsStaged(msgspec.Struct, frozen=True, tag="staged"):
    rows: int


class JobProgress(msgspec.Struct, frozen=True, tag="progress"):
    """A commit goes on."""

    rows: int
    of: int


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """``again``: it had been written before; nothing was done now."""

    rows: int
    again: bool


class RequestDone(msgspec.Struct, frozen=True, tag="done"):
    pass


Request = (
    Describe
    | OpenSnapshot
    | AskPart
    | ReadSnapshot
    | CloseSnapshot
    | FindOffset
    | ReadChanges
    | AskLogs
    | StageRows
    | Commit
    | Abort
)
Answer = (
    PortProblem
    | Description
    | PartOpened
    | Logs
    | SnapshotOpened
    | OffsetFound
    | Rows
    | RowsStaged
    | JobProgress
    | Committed
    | RequestDone
    | Welcome
    | Challenge
)
Message = Request | Answer | ClientHello

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_hello = msgspec.msgpack.Decoder(ClientHello)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def written(message: Message, body: bytes = b"") -> bytes:
    """The bytes of a message."""
    header = _encoder.encode(message)
    return b"".join((LENGTHS.pack(len(header), len(body)), header, body))


def lengths(data: bytes, greeting: bool = False) -> tuple[int, int]:
    """Of header and body, read from the first 8 bytes. ExportError when they cannot be. ``greeting``:
    nobody has proved anything yet, so little is kept."""
    header, body = LENGTHS.unpack(data)
    header_max, body_max = (GREETING_MAX, 0) if greeting else (HEADER_MAX, BODY_MAX)
    if header > header_max or body > body_max:
        raise ExportError(f"a message of {header} + {body} bytes is too long, or is none of ours")
    return header, body


def request_from(data: bytes) -> Request:
    """ExportError for what is none."""
    try:
        return _requests.decode(data)
    except msgspec.MsgspecError as error:
        raise ExportError(f"not a request: {error}") from None


def hello_from(data: bytes) -> ClientHello:
    """ExportError for what is none."""
    try:
        return _hello.decode(data)
    except msgspec.MsgspecError as error:
        raise ExportError(f"not a hello: {error}") from None


def answer_from(data: bytes) -> Answer:
    """ExportError for what is none."""
    try:
        return _answers.decode(data)
    except msgspec.MsgspecError as error:
        raise ExportError(f"not an answer of an export port: {error}") from None
