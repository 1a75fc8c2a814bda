"""What a machine wants done, and what it tells."""

from __future__ import annotations

from typing import Any

import msgspec

from jgroups_py.buddy.calls import Outcome
from jgroups_py.buddy.messages import Message
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.buddy.values import Path, Stamp, ViewKey
from jgroups_py.values.address import Address


class Send(msgspec.Struct, frozen=True):
    """``to`` None: all other members of the view. Pairs must be FIFO."""

    to: Address | None
    tag: ViewKey
    message: Message


class SendSite(msgspec.Struct, frozen=True):
    """As relay, over the link to the relay of a site. In order; what a broken link loses is sent again."""

    site: str
    message: AnySiteMessage


class Completed(msgspec.Struct, frozen=True):
    """Of a call: the nodes it found, or why it was not done."""

    call: int
    outcome: Outcome
    result: Any = None
    error: Exception | None = None


class Dropped(msgspec.Struct, frozen=True):
    """Detail of ``discarded`` and ``site_discarded``. ``value``: None if it was a removal, if another member
    had it, or if it was in a store. ``side``: who created the view of the side it was written at, or the
    other site's name."""

    path: Path
    stamp: Stamp
    member: Address
    side: Address | str
    value: Any = None


class Event(msgspec.Struct, frozen=True):
    """``kind``: protected, unprotected, settled, discarded, suspect, may_leave, leave_timed_out,
    complaint, purged; of sites: promoted, out_of_sync, in_sync, bootstrap_complete, reconcile_complete,
    repair_complete, removed_there, site_discarded."""

    kind: str
    detail: Any = None


Output = Send | SendSite | Completed | Event
