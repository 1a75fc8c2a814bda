"""The outputs of a machine: messages to be sent, ends of calls, events."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from jgroups_py.buddy.messages import Message
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.buddy.values import Path, Stamp, ViewKey
from jgroups_py.values.address import Address


class BuddyOutcome(Enum):
    """The end of a call."""

    DONE = "done"
    FAILED = "failed"
    """The call was certainly not done."""
    UNKNOWN = "unknown"
    """The call may have been done."""


class SendMessage(msgspec.Struct, frozen=True):
    """A message for one member; ``to`` None: for all other members of the view. Each pair of members must be FIFO."""

    to: Address | None
    tag: ViewKey
    message: Message


class SendSite(msgspec.Struct, frozen=True):
    """A message of this relay to the relay of a site, in order. The machine repeats messages that a broken link
    loses."""

    site: str
    message: AnySiteMessage


class Completed(msgspec.Struct, frozen=True):
    """A call has ended: with the values it found, or with the reason why it was not done."""

    call: int
    outcome: BuddyOutcome
    result: Any = None
    error: Exception | None = None


class DroppedValue(msgspec.Struct, frozen=True):
    """Detail of ``discarded`` and ``site_discarded``. ``value`` is None if the value was a removal, if another member
    had it, or if it was in a store. ``side``: the creator of the view of the side on which it was written, or the name
    of the other site."""

    path: Path
    stamp: Stamp
    member: Address
    side: Address | str
    value: Any = None


class BuddyEvent(msgspec.Struct, frozen=True):
    """``kind``: protected, unprotected, settled, discarded, suspect, may_leave, leave_timed_out,
    complaint, purged, activate; of sites: promoted, out_of_sync, in_sync, bootstrap_complete, reconcile_complete,
    repair_complete, removed_there, site_discarded."""

    kind: str
    detail: Any = None


Output = SendMessage | SendSite | Completed | BuddyEvent
