"""Messages between clients and export ports: a header in msgpack, and for rows a body of columns.

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
"""The most bytes of a header before both sides have proved that they know the token."""
HEADER_MAX: Final = 4_000_000
"""The most bytes of a header. A commit names every task of a job."""
BODY_MAX: Final = 64_000_000
"""The most bytes of a body: a frame, or one row with the largest value that a cache takes."""


class Offset(msgspec.Struct, frozen=True):
    """A place in a change log: the last number of each origin before it.

    ``log`` and ``at`` are the same place as a count in one member's own log, so that a reader that goes on there needs no
    search. For a cache with buddies it is a place in the log of one owner, ``log``, or in all of them if
    ``log`` is empty.
    """

    log: str
    at: int
    origins: dict[str, int]
    ended: tuple[str, ...] = ()
    """Owners that are gone. All their changes come before this place, so it has no numbers of them."""

    @property
    def is_of_parts(self) -> bool:
        """True for a place in the logs of all owners of a cache with buddies."""
        return not self.log


def place_of(origins: Mapping[str, int], ended: Iterable[str]) -> Offset:
    """Return a place in the logs of all owners of a cache with buddies."""
    return Offset("", 0, dict(sorted(origins.items())), tuple(sorted(ended)))


class Marker(msgspec.Struct, frozen=True):
    """``batch`` of ``query`` is written once, however often it is tried. The numbers of a query's batches rise."""

    query: str
    batch: int


# --- greeting


class Challenge(msgspec.Struct, frozen=True, tag="challenge"):
    """The port's first message."""

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


# --- requests


class Describe(msgspec.Struct, frozen=True, tag="describe"):
    map: str | None
    kind: str | None


class OpenSnapshot(msgspec.Struct, frozen=True, tag="open-snapshot"):
    """Opens a snapshot of the keys that are one of ``under`` or below it. With ``part`` it has this member's part only, where
    each member has one."""

    map: str
    under: tuple[str, ...] = ("/",)
    part: bool = False


class AskPart(msgspec.Struct, frozen=True, tag="ask-part"):
    """Asks for the state of the member's part. PartOpened answers it."""

    map: str


class ReadSnapshot(msgspec.Struct, frozen=True, tag="read-snapshot"):
    """Asks for the rows ``start`` to ``stop`` of a snapshot."""

    id: str
    start: int
    stop: int


class CloseSnapshot(msgspec.Struct, frozen=True, tag="close-snapshot"):
    id: str


class FindOffset(msgspec.Struct, frozen=True, tag="find-offset"):
    """Asks for the end of the log, or for a place at most ``max_changes`` after ``after`` (but at least one batch). Without
    ``after`` it asks for the end, or with ``earliest`` for the beginning of the log."""

    map: str
    after: Offset | None = None
    max_changes: int | None = None
    earliest: bool = False


class ReadChanges(msgspec.Struct, frozen=True, tag="read-changes"):
    """Asks for the changes after ``start``, up to and with ``stop``."""

    map: str
    start: Offset
    stop: Offset


class AskLogs(msgspec.Struct, frozen=True, tag="ask-logs"):
    """Asks which owners' changes this member of a cache with buddies has. Logs answers it."""

    map: str


class StageRows(msgspec.Struct, frozen=True, tag="stage"):
    """Brings rows for a later commit. With ``last`` the task is done and wants an answer."""

    map: str
    job: str
    task: int
    attempt: int
    rows: int
    sizes: tuple[int, ...]
    last: bool


class Commit(msgspec.Struct, frozen=True, tag="commit"):
    """Writes the staged rows of these ``(task, attempt)`` of a job, in this order, and forgets the rest. With
    ``skip_equal`` rows that equal the present nodes are left alone and are no change."""

    map: str
    job: str
    parts: tuple[tuple[int, int], ...]
    replace: bool = False
    marker: Marker | None = None
    skip_equal: bool = False


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    map: str
    job: str


# --- answers


class PortProblem(msgspec.Struct, frozen=True, tag="problem"):
    code: str
    message: str


class Description(msgspec.Struct, frozen=True, tag="description"):
    """``members`` has logical names. ``values`` names the encoding of values ("msgpack", or a codec's class).
    ``writing`` counts the rows of all commits under way, of which ``written`` are done. ``parts`` is true when each
    member has a part of the rows, which must be read there."""

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
    """``member`` and the keys of ``members`` are addresses, the values logical names. ``moves``, ``moving`` and ``told`` are
    those of ``jgroups_py.cache.holding.Holding``."""

    view: str
    member: str
    members: dict[str, str]
    moves: int
    moving: str
    told: int = 0


class LogPlace(msgspec.Struct, frozen=True):
    """The range of one owner's log; see ``jgroups_py.export.owners``."""

    floor: int
    have: int
    end: int


class Logs(msgspec.Struct, frozen=True, tag="logs"):
    """The ranges, by origin."""

    part: PartOpened
    places: dict[str, LogPlace]


class SnapshotOpened(msgspec.Struct, frozen=True, tag="snapshot"):
    """The snapshot has the state after everything up to ``offset``. ``part`` is the state of a part at the moment of the
    snapshot; then the offset is a place in this owner's log, with the ends of owners that are gone."""

    id: str
    rows: int
    offset: Offset
    part: PartOpened | None = None


class OffsetFound(msgspec.Struct, frozen=True, tag="offset"):
    offset: Offset
    changes: int
    """The number of changes between ``after`` and this place."""
    origins: int
    first: int
    """The beginning of this member's log, as a count."""


class Rows(msgspec.Struct, frozen=True, tag="rows"):
    """Rows in a body; ``sizes`` has the bytes of its buffers. ``last`` ends them; the last body may be empty."""

    rows: int
    sizes: tuple[int, ...]
    last: bool


class RowsStaged(msgspec.Struct, frozen=True, tag="staged"):
    rows: int


class JobProgress(msgspec.Struct, frozen=True, tag="progress"):
    """A commit continues."""

    rows: int
    of: int


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """The commit is done. With ``again`` it had been written before, and nothing was done now."""

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
    """Return the bytes of a message."""
    header = _encoder.encode(message)
    return b"".join((LENGTHS.pack(len(header), len(body)), header, body))


def lengths(data: bytes, greeting: bool = False) -> tuple[int, int]:
    """Return the sizes of header and body from the first 8 bytes. Raise ExportError for sizes that are not allowed. During the
    ``greeting`` only small ones are."""
    header, body = LENGTHS.unpack(data)
    header_max, body_max = (GREETING_MAX, 0) if greeting else (HEADER_MAX, BODY_MAX)
    if header > header_max or body > body_max:
        raise ExportError(f"a message of {header} + {body} bytes is too long, or is none of ours")
    return header, body


def request_from(data: bytes) -> Request:
    """Return a request. Raise ExportError if the bytes are no request."""
    try:
        return _requests.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ExportError(f"not a request: {error}") from None


def hello_from(data: bytes) -> ClientHello:
    """Return a hello. Raise ExportError if the bytes are no hello."""
    try:
        return _hello.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ExportError(f"not a hello: {error}") from None


def answer_from(data: bytes) -> Answer:
    """Return an answer. Raise ExportError if the bytes are no answer."""
    try:
        return _answers.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ExportError(f"not an answer of an export port: {error}") from None
