"""What a call of several members gives: one reply for each, to match on.

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
    """The method raised, or its answer got lost, or the member refused to run it:
    ``error.definite`` tells."""

    member: Address
    error: CallError


Reply = Answer | Raised | Suspected | Unreachable
