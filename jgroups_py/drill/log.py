"""The events of a drill: records, the file they go to, and the payload that is sent.

A record on disk is one JSON object a line, ``{"t", "site", "member", "event", "origin", "seqno",
"detail"}``. ``t`` is seconds from the start of the drill, ``member`` a name, ``origin`` is
``NAME#incarnation``. Absent values are null. ``detail`` by event:

    every record       incarnation (of the member; left out for the first)
    send, deliver      count (a run of that many seqnos from `seqno`; never in --log), from (the
                       origin's site, where it is not the member's)
    view               id, members ("NAME#incarnation", in order); bridge: true and sites for a view
                       of the relays
    relay, replay      to (site), count as above; `seqno` is RELAY's number
    trim               count of messages that left a buffer, up to `seqno`
    buffer             a sample: messages, bytes, and running totals relayed, replayed,
                       duplicates_dropped, gaps
    crash, vanish,     role: the role for which a member of a bucket store was hit
      pause, leave
    fail_site          how; the crash or vanish records of its members carry by: fail_site
    put, acked         of caches and maps: a write begins (put) or is done (acked). key; `origin` and `seqno` are
                       the value's. removed: true for a removal; nothing: true if there was nothing to remove
    over               key, over: the value that this write will replace ([origin, seqno, site], or null)
    failed             key, why, definite (certainly nothing was changed); without origin: a read
    got                key, took (seconds), last: true at the end; origin null: there is no such key
    buddies            protected, members, owned, gravitations (running total), adopted; with several
                       sites reachable, out_of_sync, under_way (site -> bootstrap, reconcile or repair),
                       bootstraps (running total of those complete)
    seen               of maps: a host finds another value than before. key; `origin` and `seqno` as above, null if
                       there is no value
    role               of live and backup: role, term of a node; its operations are put, acked (at: where each of
                       their entries stands, and the entry before it) and failed, with keys (the logs)
    ordered            of bucket stores: bucket, why (it was refused): an order of the administrator
    census             at the end: members of the view, owned (key -> [origin, seqno, site]); of maps also when
                       one is opened, with first: true
    unsent             to (site), keys (key -> number of the event): the writes that this site has not
                       acknowledged; before the member falls, and at the end
    holds              when a site failed, and `grace` later: failed (that site), owned as above
    discarded          key: a merge, or a newer value of another site, dropped the value of `origin` and
                       `seqno`; without them it dropped a removal, or a value of another member
    bootstrap          everything is sent to `site`
    partition, heal    groups (lists of "SITE.NAME")

A member's own file holds runs instead of single messages, because a process can write these before it takes the next
delivery. ``expand`` gives the public form.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

EVENTS = [
    "send",
    "deliver",
    "view",
    "suspect",
    "relay",
    "replay",
    "buffer",
    "trim",
    "crash",
    "vanish",
    "pause",
    "resume",
    "leave",
    "join",
    "restart",
    "partition",
    "heal",
    "promote",
    "fail_site",
    "overflow",
    "put",
    "acked",
    "failed",
    "got",
    "buddies",
    "census",
    "over",
    "unsent",
    "holds",
    "bootstrap",
    "discarded",
    "seen",
    "role",
    "ordered",
]

RUNS = ("send", "deliver", "relay", "replay")
"""Events whose record may stand for a run of messages, from ``seqno`` on."""

# | site u16 | member u16 | incarnation u32 | seqno u64 | send time f64 |, big-endian
_PAYLOAD = struct.Struct("!HHIQd")
PAYLOAD_MIN = _PAYLOAD.size
"""The least bytes of a drill's message."""


class Hit(Protocol):
    """One incarnation of a member, as far as a record or a course needs it."""

    @property
    def site(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def incarnation(self) -> int: ...


class DrillRecord(NamedTuple):
    """One event. ``incarnation`` counts from 1; 0: the event has no member."""

    t: float
    site: str | None
    member: str | None
    event: str
    origin: str | None = None
    seqno: int | None = None
    detail: dict[str, Any] | None = None
    incarnation: int = 1

    @classmethod
    def of_member(
        cls,
        t: float,
        who: Hit,
        event: str,
        origin: str | None = None,
        seqno: int | None = None,
        /,
        **detail: Any,
    ) -> Self:
        """Return the record of an event at one incarnation of a member."""
        return cls(t, who.site, who.name, event, origin, seqno, detail or None, who.incarnation)

    @classmethod
    def of_many(cls, t: float, event: str, site: str | None = None, /, **detail: Any) -> Self:
        """Return the record of an event that met several members: a site, or the groups that ``detail`` names."""
        return cls(t, site, None, event, None, None, detail or None)

    def to_json(self) -> str:
        """Return the line, without its end."""
        detail = self.detail
        if self.incarnation > 1:
            detail = {"incarnation": self.incarnation, **(detail or {})}
        return json.dumps(
            {
                "t": round(self.t, 6),
                "site": self.site,
                "member": self.member,
                "event": self.event,
                "origin": self.origin,
                "seqno": self.seqno,
                "detail": detail,
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, line: str | bytes) -> DrillRecord:
        """Read a line. Raises ``ValueError``, which ``json.JSONDecodeError`` is."""
        try:
            fields = json.loads(line)
            detail = fields["detail"] or {}
            incarnation, count = detail.pop("incarnation", 1), detail.get("count", 1)
            if not (_is_count(incarnation) and _is_count(count)):
                raise TypeError("incarnation and count are whole numbers")
            if not (fields["seqno"] is None or isinstance(fields["seqno"], int)):
                raise TypeError("a seqno is a whole number")
            return cls(
                float(fields["t"]),
                fields["site"],
                fields["member"],
                fields["event"],
                fields["origin"],
                fields["seqno"],
                detail or None,
                incarnation,
            )
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not a log record: {error!r}") from None

    @property
    def messages(self) -> int:
        """Return the number of messages that the record stands for."""
        return self.detail.get("count", 1) if self.detail else 1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def expand(records: Iterable[DrillRecord]) -> Iterator[DrillRecord]:
    """Yield one record for each message of a run, as ``--log`` has them."""
    for record in records:
        run = record.event in RUNS and record.seqno is not None
        if not run or record.detail is None or "count" not in record.detail:
            yield record
            continue
        detail = {key: value for key, value in record.detail.items() if key != "count"} or None
        assert record.seqno is not None
        for seqno in range(record.seqno, record.seqno + record.messages):
            yield record._replace(seqno=seqno, detail=detail)


class LogWriter:
    """Appends records to a file. When ``write`` returns, the kernel has them.

    A process that is killed afterwards does not lose them. A batch of records is one system call.
    """

    def __init__(self, path: str | Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd: int | None = os.open(path, flags, 0o644)

    def write(self, records: Iterable[DrillRecord]) -> None:
        """Append records. ``OSError``: the file takes no more. ``ValueError``: it is closed."""
        if self._fd is None:
            raise ValueError("the log is closed")
        data = b"".join(record.to_json().encode() + b"\n" for record in records)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def read_log(path: str | Path) -> Iterator[DrillRecord]:
    """Yield the records of one file, in order. A last line cut short by a kill is left out."""
    with open(path, "rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                yield DrillRecord.from_json(line)


class Payload(NamedTuple):
    """The fields of a load generator's message: sender (indexes into the plan), number, time."""

    site: int
    member: int
    incarnation: int
    seqno: int
    sent: float

    def pack(self, size: int) -> bytes:
        """Return ``size`` bytes, filled up with zeros; ``size >= PAYLOAD_MIN``."""
        return _PAYLOAD.pack(*self).ljust(size, b"\0")

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Payload:
        """Return the fields of ``data``. Raises ``struct.error``: it is too short."""
        return cls._make(_PAYLOAD.unpack_from(data))


class RunOfNumbers(NamedTuple):
    """Consecutive numbers of one origin."""

    site: int
    member: int
    incarnation: int
    first: int
    length: int


def runs(payloads: Iterable[bytes | memoryview]) -> list[RunOfNumbers]:
    """Join payloads, in the order of delivery, into runs. Raises ``struct.error``."""
    found: list[RunOfNumbers] = []
    unpack = _PAYLOAD.unpack_from
    who: tuple[int, int, int] | None = None
    first = following = 0
    for data in payloads:
        site, member, incarnation, seqno, _ = unpack(data)
        if seqno == following and who == (site, member, incarnation):
            following += 1
            continue
        if who is not None:
            found.append(RunOfNumbers(*who, first, following - first))
        who, first, following = (site, member, incarnation), seqno, seqno + 1
    if who is not None:
        found.append(RunOfNumbers(*who, first, following - first))
    return found
