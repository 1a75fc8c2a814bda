"""Live and backup: the backup repeats the operations of the live node, each object's changes in the live order, and the rest in parallel
(seed 002).

May import: channel and the rooms below. The order itself (tickets, ledger, applier), confirming and roles are without I/O.
"""

from __future__ import annotations

from jgroups_py.livebackup.cut import Cut
from jgroups_py.livebackup.errors import (
    BadOperation,
    Diverged,
    LiveBackupError,
    NotLive,
    NotReadable,
    OutcomeUnknown,
    OutsideOperation,
)
from jgroups_py.livebackup.home import PutAside
from jgroups_py.livebackup.kinds import Stateful, by_effects, only_reads, undone_by
from jgroups_py.livebackup.node import LiveBackupNode
from jgroups_py.livebackup.opening import open_livebackup
from jgroups_py.livebackup.settings import Every, LiveBackupSettings
from jgroups_py.livebackup.work import Work

__all__ = [
    "BadOperation",
    "Cut",
    "Diverged",
    "Every",
    "LiveBackupError",
    "LiveBackupSettings",
    "LiveBackupNode",
    "NotLive",
    "NotReadable",
    "OutcomeUnknown",
    "OutsideOperation",
    "PutAside",
    "Stateful",
    "Work",
    "by_effects",
    "only_reads",
    "open_livebackup",
    "undone_by",
]
