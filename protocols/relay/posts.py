"""Posts: payloads of a block on top of the channel, from relay to relay. RELAY does not read them.

They go over the bridge in order, as long as it has a link to the site. The block sends posts again that a broken link
has lost. A post is addressed to a role, the relay of a site, never to a member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as Interface

from jgroups_py.protocols.relay.bridge.session import RelaySession, Sessions
from jgroups_py.protocols.relay.status import RelayCounters
from jgroups_py.protocols.relay.wire import MessageKind
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import FragHeader

POST_HEADER = FragHeader(0, MessageKind.POST, 0)


class PostListener(Interface):
    """A block's receiver of posts. It is called inside the stack and must not wait."""

    def site_link(self, site: str, up: bool) -> None:
        """Note that a new, empty link to the relay of a site begins (``up``) or that it has ended."""

    def site_post(self, site: str, payload: bytes) -> None:
        """Take a post from the relay of that site."""

    def site_epoch(self, number: int, site: str) -> None:
        """Note that a site was promoted. Called at every member."""


class BridgePosts:
    """``links``: by site, the peer that gets its posts. ``transmit`` sends a post over the bridge. ``limit``: bytes
    that may wait for one site."""

    def __init__(
        self,
        counters: RelayCounters,
        sessions: Sessions,
        transmit: Callable[[RelaySession, bytes], None],
        limit: int,
    ) -> None:
        self.listener: PostListener | None = None
        self.links: dict[str, Address] = {}
        self._counters = counters
        self._sessions = sessions
        self._transmit = transmit
        self._limit = limit

    def send(self, site: str, payload: bytes) -> bool:
        """Send ``payload`` to the relay of ``site``. False: it was dropped, because there is no link or too many bytes
        wait."""
        peer = self.links.get(site)
        session = None if peer is None else self._sessions.get(peer)
        if session is None:
            self._counters.posts_dropped += 1
            return False
        if session.blocked or session.posts:
            if session.post_bytes + len(payload) > self._limit:
                self._counters.posts_dropped += 1
                return False
            session.posts.append(payload)
            session.post_bytes += len(payload)
            return True
        self._transmit(session, payload)
        return True

    def opened(self, session: RelaySession) -> None:
        """Send waiting posts, because flow control of the bridge has room."""
        while session.posts and not session.blocked:
            payload = session.posts.popleft()
            session.post_bytes -= len(payload)
            self._transmit(session, payload)

    def reached(self, session: RelaySession) -> None:
        """Begin a link: the peer has answered."""
        self.links[session.site] = session.peer
        if self.listener is not None:
            self.listener.site_link(session.site, True)

    def gone(self, session: RelaySession) -> None:
        """End the link to the peer. Another relay of its site takes its place."""
        site = session.site
        if self.links.get(site) != session.peer:
            return
        del self.links[site]
        if self.listener is not None:
            self.listener.site_link(site, False)
        others = self._sessions.values()
        other = next((s for s in others if s.site == site and s.ready and s is not session), None)
        if other is not None:
            self.reached(other)

    def received(self, session: RelaySession, batch: Batch) -> None:
        for payload in batch.payloads:
            if self.listener is None or not session.site or payload is None:
                self._counters.strangers += 1
            else:
                self.listener.site_post(session.site, bytes(payload))

    def epoch(self, number: int, site: str) -> None:
        if self.listener is not None:
            self.listener.site_epoch(number, site)
