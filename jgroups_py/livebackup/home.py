"""Home: the data shared by a node's parts. Held: the data that a node keeps from one term to the next."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import trio

from jgroups_py.livebackup.messages import Message
from jgroups_py.livebackup.objects import Space
from jgroups_py.livebackup.settings import LiveBackupSettings
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.address import Address

Role = Literal["joining", "live", "backup", "fenced"]


ASIDE_MAX: Final = 100
"""The newest put-aside operations that a node remembers."""


@dataclass(frozen=True)
class PutAside:
    """An operation that acted differently on this backup. ``resynchronised``: the objects that were taken anew from the
    live node; empty: all."""

    operation: str
    term: int
    number: int
    why: str
    resynchronised: tuple[str, ...]


class Say(Protocol):
    """Queue a message. False: the same answer waits already. ``at_once``: send it in the caller's step, if no other message
    waits."""

    def __call__(
        self, message: Message, to: Address | None = None, *, at_once: bool = False
    ) -> bool: ...


@dataclass(frozen=True)
class Home:
    """The data shared by the parts of one node."""

    name: str
    space: Space
    settings: LiveBackupSettings
    nursery: trio.Nursery
    counts: Counter[str]
    lines: LogLimit
    """Limits log lines that others can cause."""
    say: Say
    become: Callable[[Role], None]
    aside: deque[PutAside]
    """The newest operations that were put aside, of at most ``ASIDE_MAX``."""
    changed: Callable[[], None]
    """Wakes callers that wait for the node."""


@dataclass(frozen=True)
class Held:
    """A node's data between two terms: its objects with their counters."""

    vector: Mapping[str, int] = field(default_factory=dict)
    complete: bool = False
    """Does the node have all confirmed operations of its newest term?"""
    was_live: bool = False
    confirmed: int = 0
    """Operations of that term that it has done."""
