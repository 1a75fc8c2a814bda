"""Settings of a map's file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from jgroups_py.maps.errors import MapError
from jgroups_py.maps.eviction import FORGET, REMOVE, MapLimits
from jgroups_py.maps.given import check_kind, check_number, check_seconds
from jgroups_py.maps.rules import LAST_WRITER, ConflictRule
from jgroups_py.maps.stamp import IDENTIFIER_MAX, WIDE_IDENTIFIER_MAX

DEFAULTS: Final = {
    "identifier": "1",
    "rule": LAST_WRITER.name,
    "hybrid": "True",
    "name": "",
    "key": "bytes",
    "value": "bytes",
}
"""The settings of a new file on which all its processes must agree."""
DURABILITIES: Final = ("process", "interval", "sync")
MAX_BYTES_MAX: Final = 1 << 46
"""The limit of ``max_bytes``: 64 TB. A process has not much more room for addresses."""
INBOX_BYTES_MAX: Final = 1 << 36
"""The limit of ``inbox_bytes``: 64 GB. Each process maps the inboxes of all others."""
LIMIT_MAX: Final = 1 << 62
"""The limit of ``max_entries`` and ``max_live_bytes``, which a file keeps in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """The settings of a map's file. None takes the setting from the file, for those on which all processes of a host
    must agree."""

    identifier: int | None = None
    """1..127, unique among hosts; with ``wide_identifiers`` up to 65,535. A single host may leave it out (K15); a new
    file then has 1."""
    wide_identifiers: bool = False
    rule: ConflictRule | None = None
    """The default of a new file is the last writer."""
    hybrid: bool | None = None
    """Hybrid logical clock, the default of a new file; False: the wall clock alone."""
    name: str | None = None
    """The map's name; for a new file the folder's name by default."""
    key: str | None = None
    value: str | None = None
    """The names of both codecs; ``bytes`` in a new file."""
    max_bytes: int | None = None
    """The largest size of the file, which grows as needed; MAX_BYTES in a new file. The largest value ever given
    counts. Processes that have the map open adopt it when they need it."""
    max_entries: int | None = None
    """The most entries of the map. 0: no limit. None: as in the file. The last value given by any process counts."""
    max_live_bytes: int | None = None
    """The most bytes of keys and values; as ``max_entries``."""
    evict: str | None = None
    """The way in which the least recently used entries leave at a limit: "forget" or "remove" (eviction.py). None:
    "remove" if an identifier is given."""
    inbox_bytes: int = 16 * 1024**2
    """Bytes of each process that may wait to be merged."""
    durability: str = "process"
    """The failures that a put survives. "process": the death of the process. "interval": also a loss of power,
    ``sync_interval`` later. "sync": also a loss of power at once; the put waits for the disk. The strongest setting of
    all processes counts."""
    sync_interval: float = 1.0
    merger: str = "thread"
    """The kind of merger when this process merges: a "thread", or a "process" that it starts. A thread may delay a put
    by some milliseconds. A rule of your own is always merged by a thread."""
    merge_interval: float = 0.005
    """Seconds between looks for something to merge."""
    full_timeout: float = 5.0
    """The longest wait of a put when the inbox of its process is full and the merger works. Without a working merger it
    fails after a second. 0: a put never waits."""
    lock_timeout: float = 5.0
    """The longest wait of ``update`` and similar calls for another change of the same key."""

    def __post_init__(self) -> None:
        check_kind("wide_identifiers", self.wide_identifiers, bool, "True or False")
        if self.hybrid is not None:
            check_kind("hybrid", self.hybrid, bool, "True or False")
        if self.identifier is not None:
            self._check_identifier(self.identifier)
        if self.durability not in DURABILITIES:
            raise MapError(
                f'durability must be one of {", ".join(DURABILITIES)}, got "{self.durability}"'
            )
        if self.merger not in ("thread", "process"):
            raise MapError(f'merger must be thread or process, got "{self.merger}"')
        if self.max_bytes is not None:
            check_number("max_bytes", self.max_bytes, 1024**2, MAX_BYTES_MAX, "1 MB")
        check_number("inbox_bytes", self.inbox_bytes, 4096, INBOX_BYTES_MAX, "4 KB")
        for name in ("max_entries", "max_live_bytes"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), 0, LIMIT_MAX, "1, or 0 for no limit")
        self.limits(MapLimits())
        check_seconds("full_timeout", self.full_timeout, zero=True, most=math.inf)
        check_seconds("lock_timeout", self.lock_timeout, most=math.inf)
        check_seconds("sync_interval", self.sync_interval)
        check_seconds("merge_interval", self.merge_interval)

    def _check_identifier(self, identifier: int) -> None:
        check_kind("identifier", identifier, int, "a whole number")
        most = WIDE_IDENTIFIER_MAX if self.wide_identifiers else IDENTIFIER_MAX
        if not 1 <= identifier <= most:
            hint = "" if self.wide_identifiers else ", or up to 65535 with wide_identifiers"
            raise MapError(f"identifier must be from 1 to {most}{hint}, got {identifier}")

    def limits(self, known: MapLimits) -> MapLimits:
        """Return the file's limits with the given ones in their place. MapError: a limit is invalid."""
        default = REMOVE if self.identifier is not None else FORGET
        return MapLimits(
            known.max_entries if self.max_entries is None else self.max_entries,
            known.max_live_bytes if self.max_live_bytes is None else self.max_live_bytes,
            self.evict or (known.evict if known else default),
        )

    def agreed(self) -> dict[str, str | None]:
        """Return the settings on which all processes of a host must agree, as stored. None: not given."""
        rule = None if self.rule is None else self.rule.name
        return {
            "identifier": _text(self.identifier),
            "rule": rule,
            "hybrid": _text(self.hybrid),
            "name": self.name,
            "key": self.key,
            "value": self.value,
        }


def _text(value: object) -> str | None:
    return None if value is None else str(value)
