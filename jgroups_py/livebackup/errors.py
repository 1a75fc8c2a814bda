"""Errors of live and backup."""

from __future__ import annotations

from jgroups_py.errors import JGroupsError


class LiveBackupError(JGroupsError):
    """Base of the errors of this package."""


class BadOperation(LiveBackupError):
    """An operation's list of tickets cannot be: a number twice, a number that is over, a number below 1, too many. Nothing was
    changed."""


class LagFull(LiveBackupError):
    """The backup holds as many unconfirmed operations as it may. Nothing was changed."""


class Diverged(LiveBackupError):
    """An operation did on the backup what it did not do on the live node. The text names operation, step and object."""
