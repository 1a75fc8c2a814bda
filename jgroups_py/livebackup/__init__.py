"""Live and backup: the backup repeats the operations of the live node, each object's changes in the live order, and the rest in parallel
(seed 002).

May import: channel and what is below. The order itself (tickets, ledger, applier), confirming and roles are without I/O.
"""

from __future__ import annotations

from jgroups_py.livebackup.errors import (
    BadOperation,
    Diverged,
    LiveBackupError,
    NotLive,
    OutcomeUnknown,
    OutsideOperation,
)
from jgroups_py.livebackup.kinds import Stateful, by_effects, undone_by
from jgroups_py.livebackup.node import Node
from jgroups_py.livebackup.opening import open_livebackup
from jgroups_py.livebackup.settings import Every, LiveBackupSettings
from jgroups_py.livebackup.work import Work

__all__ = [
    "BadOperation",
    "Diverged",
    "Every",
    "LiveBackupError",
    "LiveBackupSettings",
    "Node",
    "NotLive",
    "OutcomeUnknown",
    "OutsideOperation",
    "Stateful",
    "Work",
    "by_effects",
    "open_livebackup",
    "undone_by",
]
