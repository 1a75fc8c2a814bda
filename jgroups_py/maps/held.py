"""HeldMessages: peers' messages that wait for room in the inbox of this process.

A peer sends at most its window beyond the acknowledged changes, and held messages are not acknowledged: so a peer waits
as a put does. Later messages of that link wait behind, so their order stays.

Limits: ``most`` bytes of all links together (``ReplicaSettings.held_max``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from jgroups_py.maps.errors import InboxFull


class HeldMessages:
    """``take`` is called with link, message and whether it was sent to all. If it raises InboxFull, it is called again
    later."""

    def __init__(self, most: int, take: Callable[[int, bytes, bool], None]) -> None:
        self._most = most
        self._take = take
        self._links: dict[int, deque[tuple[bytes, bool]]] = {}
        self.size = 0
        """The bytes of all held messages."""

    def __contains__(self, link: int) -> bool:
        return link in self._links

    def add(self, link: int, data: bytes, shared: bool) -> bool:
        """Hold the next message of a link. False: there is no room for it."""
        if self.size + len(data) > self._most:
            return False
        self._links.setdefault(link, deque()).append((data, shared))
        self.size += len(data)
        return True

    def drop(self, link: int) -> None:
        """Drop the messages of a link that has ended."""
        self.size -= sum(len(data) for data, _ in self._links.pop(link, ()))

    def retry(self) -> None:
        """Deliver the messages that fit now, one of each link in turn."""
        while self._links:
            link, held = next(iter(self._links.items()))
            data, shared = held[0]
            try:
                self._take(link, data, shared)
            except InboxFull:
                return
            if self._links.get(link) is held:  # the call may have ended the link
                held.popleft()
                self.size -= len(data)
                del self._links[link]
                if held:
                    self._links[link] = held  # the link is the last one now
