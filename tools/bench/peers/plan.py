"""The cases of the bench beside other libraries, and their expected time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

START_SECONDS: Final = 3.0
"""Expected seconds until the members of a case have joined, and until they have left."""
JOINER_SECONDS: Final = 0.4
"""Expected seconds to start one more process on two cores."""
SPARE_SECONDS: Final = 60.0
"""A case ends after three times its expected time and these seconds, even if it is not done."""
IDLE_MEMBERS: Final = (4, 32)
"""Members of groups that are idle, and of which one is killed then."""
OVERLOADS: Final = {
    "": (False, False, False),
    ", small buffers": (True, False, False),
    ", small buffers, credits that fit": (True, False, True),
    ", small buffers, a slow member": (True, True, False),
}
"""Text of a case of overload -> (small buffers of sockets, a slow member, credits as small as the buffers)."""
CACHE_CALLERS_MAX: Final = 8
"""The most callers of a cache that are measured: each needs a connection to Redis."""


@dataclass(frozen=True, slots=True)
class Case:
    """A case that the libraries with ``kind`` run, one after the other.

    ``arguments`` are those of the measuring function. ``stack`` names the stack file. ``seconds`` is the expected time
    for one library, and ``warm_ups`` the number of warm-ups, which take longer with a compiler.
    """

    kind: str
    text: str
    stack: str
    arguments: tuple[Any, ...]
    seconds: float
    warm_ups: int = 0

    @property
    def seconds_max(self) -> float:
        return 3 * self.seconds + SPARE_SECONDS


@dataclass(frozen=True, slots=True)
class PeersPlan:
    """The plan of the measurements. ``callers``, ``joiners``, ``cache_sizes`` and ``relay_sizes`` may be empty.
    ``senders`` 0: all members send.
    ``overload``: whether tiny and huge messages are sent under pressure. ``idle`` 0: no look at idle members, and none is killed.
    ``minutes``: no case begins later. ``leave_out``: names of libraries."""

    stacks: tuple[str, ...]
    sizes: tuple[int, ...]
    members: tuple[int, ...]
    senders: tuple[int, ...]
    callers: tuple[int, ...]
    seconds: float
    warm_up: float
    runs: int
    joiners: tuple[int, ...] = ()
    idle: float = 0.0
    cache_sizes: tuple[int, ...] = ()
    minutes: float = 60.0
    leave_out: tuple[str, ...] = ()
    relay_sizes: tuple[int, ...] = ()
    overload: bool = False

    @property
    def cache_callers(self) -> tuple[int, ...]:
        return tuple(count for count in self.callers if count <= CACHE_CALLERS_MAX) or (1,)

    def cases(self) -> Iterator[Case]:
        """Yield all cases of a run in their order. The many cases of messages come last, so that no other kind is
        missing when the time is over."""
        yield from self._calls()
        yield from self._groups()
        yield from self._caches()
        yield from self._relays()
        yield from self._overload()
        yield from self._messages()

    def _messages(self) -> Iterator[Case]:
        seconds = START_SECONDS + self.warm_up + self.seconds
        for stack in self.stacks:
            for size in self.sizes:
                for members in self.members:
                    for senders in self.senders:
                        sending = min(senders, members) or members
                        text = f"{stack}, {size} B, {members} members, {sending} send"
                        yield Case("messages", text, stack, (size, members, sending), seconds, 1)

    def _overload(self) -> Iterator[Case]:
        seconds = START_SECONDS + self.warm_up + self.seconds
        for stack in self.stacks if self.overload else ():
            for text, hard in OVERLOADS.items():
                yield Case("overload", f"{stack}, overload{text}", stack, hard, seconds, 1)

    def _calls(self) -> Iterator[Case]:
        seconds = START_SECONDS + len(self.callers) * (self.warm_up + self.seconds)
        for stack in self.stacks if self.callers else ():
            for size in self.sizes:
                yield Case("calls", f"{stack}, {size} B", stack, (size,), seconds, 1)

    def _groups(self) -> Iterator[Case]:
        for stack in self.stacks:
            for joiners in self.joiners:
                seconds = START_SECONDS + JOINER_SECONDS * joiners
                text = f"{stack}, {joiners} join at once"
                yield Case("groups", text, stack, (joiners, 0.0), seconds)
            for members in IDLE_MEMBERS if self.idle else ():
                seconds = 2 * START_SECONDS + JOINER_SECONDS * members + self.idle
                text = f"{stack}, {members} members"
                yield Case("groups", text, stack, (members - 1, self.idle), seconds)

    def _caches(self) -> Iterator[Case]:
        windows = 2 * len(self.cache_sizes) * len(self.cache_callers)
        for stack in self.stacks if self.cache_sizes else ():
            seconds = START_SECONDS + windows * (self.seconds + 0.5)
            yield Case("caches", f"{stack}, cache", stack, (), seconds)

    def _relays(self) -> Iterator[Case]:
        seconds = 3 * START_SECONDS + self.warm_up + 2 * self.seconds
        for stack in self.stacks:
            for size in self.relay_sizes:
                text = f"{stack}, RELAY, {size} B, 2 sites of 2"
                yield Case("relays", text, stack, (size,), seconds, 1)
