"""Home: what the parts of a node share. And what one of them hands to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import trio

from jgroups_py.livebackup.kinds import Space
from jgroups_py.livebackup.messages import Message
from jgroups_py.livebackup.settings import LiveBackupSettings
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.address import Address

Role = Literal["joining", "live", "backup", "fenced"]


class Say(Protocol):
    """Queue a message. False: the same answer waits already."""

    def __call__(self, message: Message, to: Address | None = None) -> bool: ...


@dataclass(frozen=True)
class Home:
    """Of one node."""

    name: str
    space: Space
    settings: LiveBackupSettings
    nursery: trio.Nursery
    counts: Counter[str]
    lines: LogLimit
    """Which lines of the log are written, of those that others can cause."""
    say: Say
    become: Callable[[Role], None]
    changed: Callable[[], None]
    """Somebody who waits for the node may look again."""


@dataclass(frozen=True)
class Held:
    """What a node has between two terms: the objects of its space, with their counters."""

    vector: Mapping[str, int] = field(default_factory=dict)
    complete: bool = False
    """All that was confirmed in its newest term."""
    was_live: bool = False
