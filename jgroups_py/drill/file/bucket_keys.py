"""The keys of a drill of bucket stores: lines of traffic, settings of the instance, expectations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.buckets.digest import BUCKETS_MAX
from jgroups_py.drill.file import cache_keys, values
from jgroups_py.drill.file.live_keys import one_of, seconds, whole

COUNTS: Final = ("lost", "undone", "half", "duplicated", "stale", "unavailable", "alone")
TIMES: Final = ("detection", "interruption")
"""The figures that may be expected of bucket stores; see judge/bucket_judge.py."""
INDEX_COPIES: Final = 3
"""The default: the first members of the drill have a copy of the index."""
DURING: Final = ("move", "upgrade")
BUCKETS: Final = 16
MOVES_MAX: Final = 100.0


@dataclass(frozen=True, slots=True)
class BucketWorkload:
    """``read_ratio``: the part of requests that read; the others add to an entry."""

    keys: int = 40
    read_ratio: float = 0.3


def moves(text: str) -> float:
    """Read the number of masters and slaves that the administrator moves in a second."""
    found = values.rate(text)
    if found > MOVES_MAX:
        raise ValueError(f"{text!r} is too much; at most {MOVES_MAX:g}/s")
    return found


def names(text: str) -> tuple[str, ...]:
    """Read names of members with commas between them."""
    found = tuple(name.strip() for name in text.split(","))
    twice = [name for i, name in enumerate(found) if name in found[:i]]
    if twice:
        raise ValueError(f"{twice[0]!r} stands twice")
    if not all(found):
        raise ValueError(f"{text!r} is not a list of members")
    return found


PARTS: Final = ("read_ratio",)
READERS: Final[dict[str, Callable[[str], Any]]] = {
    name: cache_keys.READERS[name] for name in ("keys", *PARTS)
}
SETTINGS: Final[dict[str, Callable[[str], Any]]] = {
    "buckets": whole(1, BUCKETS_MAX),
    "index_copies": whole(1, 100),
    "lease": seconds,
    "repeat_after": seconds,
    "request_timeout": seconds,
    "pipeline_max": whole(1, 100_000),
    "moves": moves,
    "repair": one_of(("yes", "no")),
    "versions": one_of(("yes", "no")),
    "managers": names,
    "indices": names,
    "newer": names,
}
"""Settings of the instance (``buckets.InstanceSettings``); ``index_copies`` is their number. ``moves`` and ``repair``
are of its administrator. ``versions``: with yes, a member that is started again has the other version of the
application. ``managers``, ``indices``: the members that have a bucket manager (all), and a copy of the index (the first
ones). ``newer``: those that begin with the new version, and with no buckets."""
