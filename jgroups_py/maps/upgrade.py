"""Upgrade of a map's file of version 1: it had no sums (sums.py). The first process that opens it counts them, once, in one transaction.

A process of an earlier version would write without sums. So no other process may have the map open meanwhile. Later
such a process refuses the new version.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from jgroups_py.maps.entry import decode_entry
from jgroups_py.maps.errors import MapFileError
from jgroups_py.maps.merging import Databases, put_sums
from jgroups_py.maps.sums import counted


def upgrade(folder: Path, txn: Any, dbs: Databases) -> None:
    """Bring a file of version 1 up to date, in the transaction that writes its new version. MapFileError: the file is
    in use."""
    if any(map(_is_locked, (folder / "merger", *folder.glob("inbox.*")))):
        raise MapFileError(
            f"{folder} is of version 1 and open in another process: end all processes that have it open, and open it once"
        )
    with txn.cursor(db=dbs.entries) as cursor:
        put_sums(txn, dbs.facts, counted(decode_entry(data) for _, data in cursor), {})


def _is_locked(file: Path) -> bool:
    """Has another process locked the file? The lock of an inbox and of the merger is held as long as its process lives."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
