"""Rows of ``jgroups-py top``: a row is made of two looks at a member and the seconds between them.

Anybody may answer. A missing number is None, and texts are cut and cleaned where they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from jgroups_py.tools.probing import METRICS, Heard, identity_of, numbers_of
from jgroups_py.wire.probe import decode_map

WORDS: Final = f"{METRICS} GMS.coordinator MFC.waits_for UFC.waits_for RELAY.role,buffer,sites"
"""The question to a member."""
_UNKNOWN: Final = "?"

Numbers = Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Look:
    """One member's answer. ``at``: seconds of a monotonic clock."""

    at: float
    member: str
    cluster: str
    place: tuple[str, int]
    numbers: Numbers
    texts: Mapping[str, Mapping[str, str]]

    def number(self, name: str, *protocols: str) -> float | None:
        """Return the sum of a counter over the protocols that have it. Protocols are named by their beginnings."""
        found = [
            value
            for (protocol, key), value in self.numbers.items()
            if key == name and protocol.startswith(protocols)
        ]
        return sum(found) if found else None

    def text(self, protocol: str, name: str) -> str:
        return self.texts.get(protocol, {}).get(name, "")


@dataclass(frozen=True, slots=True)
class TopRow:
    """One member. Rates are per second. None: not known, because it is another version, or was not seen before."""

    cluster: str
    member: str
    coordinator: str
    """The coordinator of its view. Members that name different ones are not in one view."""
    view: int | None
    """The number of its view."""
    members: int | None
    """The size of its view."""
    sent: float | None
    """Messages that it sends."""
    delivered: float | None
    """Messages that it delivers."""
    resent: float | None
    """Messages that it asks for again, or sends again: these were lost on the way."""
    unstable: float | None
    """Multicasts that it keeps because some member may lack them."""
    waiting: float | None
    """Bytes that wait because a receiver is slow."""
    waits_for: str
    """The receivers for which it waits."""
    refused: float | None
    """Messages and connections that it turned away since it started."""
    relay: str
    """Its role for other sites; empty without RELAY."""
    buffered: str
    """Messages that some site lacks."""
    sites: str


def look_of(heard: Heard, at: float) -> Look | None:
    """Return the answer of a member; None if it is not that of a member."""
    member, cluster = identity_of(heard.answer.head)
    if not member:
        return None
    numbers = {(protocol, name): value for protocol, name, value in numbers_of(heard)}
    if (size := _size_of(heard.answer.head)) is not None:
        numbers["", "members"] = size
    texts = {key: decode_map(text) or {} for key, text in heard.answer.values.items()}
    return Look(at, member, cluster, (heard.host, heard.port), numbers, texts)


def rows_of(before: Iterable[Look], now: Iterable[Look]) -> list[TopRow]:
    """Return a row for each member that answered now, by cluster and name."""
    known = {(look.cluster, look.member): look for look in before}
    rows = [row_of(known.get((look.cluster, look.member)), look) for look in now]
    return sorted(rows, key=lambda row: (row.cluster, row.member))


def row_of(before: Look | None, now: Look) -> TopRow:
    def rate(name: str, *protocols: str) -> float | None:
        new = now.number(name, *protocols)
        old = None if before is None else before.number(name, *protocols)
        if new is None or old is None or before is None or now.at <= before.at:
            return None
        # a smaller number than before means that another member has the name now
        return (new - old) / (now.at - before.at) if new >= old else None

    reliable = ("NAKACK", "UNICAST")
    asked, again = rate("requests_sent", *reliable), rate("retransmitted", *reliable)
    waits = [now.text(flow, "waits_for") for flow in ("MFC", "UFC")]
    names = dict.fromkeys(name for text in waits for name in text.split(", ") if name)
    refused = [value for (_, key), value in now.numbers.items() if key.startswith("turned_away_")]
    return TopRow(
        cluster=now.cluster,
        member=now.member,
        coordinator=now.text("GMS", "coordinator") or _UNKNOWN,
        view=_whole(now.number("highest_id", "GMS")),
        members=_whole(now.number("members", "")),
        sent=rate("sent", *reliable),
        delivered=rate("delivered", *reliable),
        resent=None if asked is None or again is None else asked + again,
        unstable=now.number("kept", "NAKACK"),
        waiting=now.number("queued", "MFC", "UFC"),
        waits_for=", ".join(names),
        refused=sum(refused) if refused else None,
        relay=now.text("RELAY", "role"),
        buffered=now.text("RELAY", "buffered"),
        sites=now.text("RELAY", "sites"),
    )


def split(rows: Iterable[TopRow]) -> set[str]:
    """Return the clusters whose members are not all in one view."""
    views: dict[str, set[tuple[str, int | None]]] = {}
    for row in rows:
        views.setdefault(row.cluster, set()).add((row.coordinator, row.view))
    return {cluster for cluster, seen in views.items() if len(seen) > 1}


def as_json(row: TopRow) -> dict[str, Any]:
    return asdict(row)


def _size_of(head: str) -> int | None:
    """``A [ip=..., 2 mbr(s), ...``"""
    _, found, rest = head.partition("ip=")
    count = rest.partition(", ")[2].partition(" mbr(s)")[0]
    return int(count) if found and count.isascii() and count.isdigit() and len(count) < 8 else None


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
