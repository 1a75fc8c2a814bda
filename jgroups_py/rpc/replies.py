"""Replies of a call to several members: one for each, to match on.

async for reply in rpc.call_all("add", 1, 2):
    match reply:
        case Answer(member, value): ...
        case Raised(member, error): ...     # a RemoteError, a Refused or a ReplyLost
        case Suspected(member): ...         # left or crashed meanwhile; may have run
        case Unreachable(member): ...       # was not in the view; did not run
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jgroups_py.errors import CallError, Suspected, Unreachable
from jgroups_py.values.address import Address


@dataclass(frozen=True, slots=True)
class Answer:
    """The method returned."""

    member: Address
    value: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """The method raised, its answer was lost, or the member refused to run it. ``error.definite`` is true if the call
    certainly did not run."""

    member: Address
    error: CallError


Reply = Answer | Raised | Suspected | Unreachable
