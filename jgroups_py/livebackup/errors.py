"""Errors of live and backup."""

from __future__ import annotations

from jgroups_py.errors import JGroupsError
from jgroups_py.values.address import Address


class LiveBackupError(JGroupsError):
    """Base of the errors of this package."""


class BadOperation(LiveBackupError):
    """An operation's list of tickets is impossible: a number is repeated, old or below 1, or there are too many.
    Nothing was changed."""


class LagFull(LiveBackupError):
    """The backup has reached its limit of unconfirmed operations. Nothing was changed."""


class Diverged(LiveBackupError):
    """An operation acted differently on the backup than on the live node. The text names operation, step and object.

    ``operation``, ``number``: its name, and its place in the term. ``objects``: the keys of the objects that it changed on the live node.
    """

    def __init__(
        self, text: str, operation: str = "", number: int = 0, objects: tuple[str, ...] = ()
    ) -> None:
        super().__init__(text)
        self.operation, self.number, self.objects = operation, number, objects


class OutsideOperation(LiveBackupError):
    """A change was tried after its operation had ended, or from another task. Nothing was changed."""


class NotLive(LiveBackupError):
    """This node is not the live one. The operation did not run. ``live``: the address of the live node, if it is known."""

    def __init__(self, text: str, live: Address | None = None) -> None:
        super().__init__(text)
        self.live = live


class OutcomeUnknown(LiveBackupError):
    """This node ceased to be the live one before the operation was confirmed. The operation may have been done or not."""


class NotReadable(LiveBackupError):
    """This node is not, or not yet, a readable backup. Nothing was read."""


class WorkerLost(LiveBackupError):
    """A process that owned objects is gone. The node ends, as after a crash, and another node continues."""
