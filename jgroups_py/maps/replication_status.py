"""ReplicationStatus: the knowledge of a host's replicating process, in a file for ``jgroups-py maps stats``.

The process writes it once a second. A file that cannot be written is left as it was: a full disk ends no replication.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = "replication.json"
STATUS_INTERVAL: Final = 1.0
"""Seconds between two writes."""


class ReplicationStatus(msgspec.Struct, frozen=True):
    """Fields are as in ``MapStatistics``. ``at``: seconds since 1970."""

    at: float
    process: int
    peers: dict[int, str]
    lag: dict[int, int]
    held_bytes: int
    counters: dict[str, int]


def write_status(folder: Path, status: ReplicationStatus) -> None:
    made = folder / f"{FILE}.new"
    with suppress(OSError):
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(handle, "wb") as file:
            file.write(msgspec.json.encode(status))
        made.replace(folder / FILE)


def read_status(folder: Path) -> ReplicationStatus | None:
    """Return the status in a map's folder. None: there is none, or it cannot be read."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=ReplicationStatus)
    except (OSError, msgspec.MsgspecError):
        return None
