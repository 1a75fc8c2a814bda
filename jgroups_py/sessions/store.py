"""SessionStore: sessions as nodes of a tree cache. One node is one session, ``/sessions/<hash of its id>``.

    load    reads the node; with buddies the node moves here and is owned here
    save    stores the changes of the request, as one change, only if the node is still there
    sweep   removes sessions that are over, a few nodes with each request; no request waits for it. A session that has
            left memory is not looked at: it is over at the latest when it has not come back for ``max_idle``

All state is in the cache: any number of stores, in any number of processes, may work on it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from jgroups_py.cache import CacheBatch, Fqn, TreeCache
from jgroups_py.cache.node import Node
from jgroups_py.cache.options import Options
from jgroups_py.errors import BatchConflict, CacheError
from jgroups_py.sessions.cookies import cookie_header
from jgroups_py.sessions.ids import checked_route, cookie_value, ids_in, new_id, node_name
from jgroups_py.sessions.session import CREATED, USED, Session
from jgroups_py.sessions.settings import SessionSettings

_log = logging.getLogger("jgroups_py.sessions")
TOUCHES = 20
"""A session that is only read is written once in ``max_idle / TOUCHES``, to mark it as used."""
RETRIES = 20
"""The most retries of a log-in when another request saved at the same moment."""
SWEEP_NODES = 20
"""The most sessions that are looked at with each request."""
SWEEP_INTERVAL = 10.0
"""Seconds between two looks at all sessions that this member owns."""
_TAKE = Options(gravitation=True)


class SessionGone(CacheError):
    """The session was removed while the request ran (a logout elsewhere, or it was over). The changes of the request were
    not stored."""


@dataclass(slots=True)
class Loaded:
    """The session of a request, and the contents of its cookie."""

    session: Session
    given: str = ""
    """The id in the cookie, if it has the form of one."""
    route: str = ""
    """The member named in the cookie."""


class SessionStore:
    """Sessions in a cache. ``route`` is this member's name for load balancers and is put into the cookie. ``clock`` returns
    seconds since 1970. The members' clocks may differ by less than ``max_idle``."""

    def __init__(
        self,
        settings: SessionSettings | None = None,
        *,
        route: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or SessionSettings()
        self.route = checked_route(route)
        self._clock = clock
        self._root = Fqn.parse(self.settings.root)
        self._sweeping: Iterator[tuple[Fqn, Node]] = iter(())
        self._swept_at = 0.0
        self._passive: Iterator[Fqn] = iter(())
        self._asleep: dict[Fqn, float] = {}
        """The time since when each session has not been in memory, for the sessions that this round has looked at."""
        self._before: dict[Fqn, float] = {}
        """The same for the previous round. A session that only this table has came back into memory, or is gone."""
        self._counts: Counter[str] = Counter(
            dict.fromkeys(
                (
                    *("loaded", "unknown", "created", "saved", "renewed", "removed", "expired"),
                    *("gone", "unreadable"),
                ),
                0,
            )
        )

    def statistics(self) -> Mapping[str, int]:
        """Return the counters by name."""
        return dict(self._counts)

    # --- in the cache's loop

    async def load(self, cache: TreeCache, header: str) -> Loaded:
        """Return the session of a request by its Cookie header, or an empty one if there is none or it is over.

        Raises:
            CacheError: the cache could not be read.
        """
        for id, route in ids_in(header, self.settings.cookie):
            path = self._path(id)
            node = await cache.read_node(path, _TAKE)
            if node is None:
                self._counts["unknown"] += 1
                continue
            session = Session(cache.decode, id, node)
            if not self._is_over(session.created, session.used):
                self._counts["loaded"] += 1
                return Loaded(session, id, route)
            await self._expire(cache, [path])
        first = next(ids_in(header, self.settings.cookie), ("", ""))
        return Loaded(Session(cache.decode), *first)

    async def save(self, cache: TreeCache, loaded: Loaded) -> str:
        """Store the changes of the request. Return the value of a Set-Cookie header, or None.

        Raises:
            SessionGone: the session was removed meanwhile.
            CacheError: see ``definite``.
        """
        session, now = loaded.session, self._clock()
        if session.invalidated:
            await self._remove(cache, session)
        changes = session.changes(cache.encode_all)
        if session.id is None:
            if changes.values:
                session.id = new_id()
                session.created = now
                values = {**changes.values, CREATED: now, USED: now}
                await cache.put_node(self._path(session.id), values, new=True)
                self._counts["created"] += 1
                session.saved(changes, now)
        elif session.renewed:
            await self._renew(cache, session, now)
        if session.id is not None:
            changes = session.changes(cache.encode_all)
            if changes or now - session.used > self.settings.max_idle / TOUCHES:
                await self._update(cache, session, now)
        await self._sweep(cache)
        return self._cookie(loaded)

    # --- one session

    async def _update(self, cache: TreeCache, session: Session, now: float) -> None:
        assert session.id is not None
        changes = session.changes(cache.encode_all)
        path, values = self._path(session.id), {**changes.values, USED: now}
        there = await cache.update_node(path, values, without=changes.removed, gravitation=True)
        if not there:
            self._counts["gone"] += 1
            raise SessionGone("the session was removed while the request ran")
        self._counts["saved"] += 1
        session.saved(changes, now)

    async def _renew(self, cache: TreeCache, session: Session, now: float) -> None:
        assert session.id is not None
        old, id = self._path(session.id), new_id()
        changes = session.changes(cache.encode_all)

        async def move(batch: CacheBatch) -> None:
            values = await batch.get_node(old)
            if values is None:
                self._counts["gone"] += 1
                raise SessionGone("the session was removed while the request ran")
            kept = {n: v for n, v in values.items() if n not in changes.removed}
            batch.put_node(self._path(id), {**kept, **changes.values, USED: now})
            batch.remove_node(old)

        await cache.batch(retries=RETRIES, gravitation=True).run(move)
        session.id = id
        session.saved(changes, now)
        self._counts["renewed"] += 1

    async def _remove(self, cache: TreeCache, session: Session) -> None:
        session.invalidated = False
        if session.id is not None:
            await cache.remove_node(self._path(session.id), gravitation=True)
            self._counts["removed"] += 1
            session.id = None

    def _cookie(self, loaded: Loaded) -> str:
        """Return a new cookie when the visitor has none, another id, or another member's name."""
        id = loaded.session.id or ""
        if id == loaded.given and (not id or loaded.route == self.route):
            return ""
        loaded.given, loaded.route = id, self.route
        return cookie_header(self.settings, cookie_value(id, self.route) if id else "")

    def _path(self, id: str) -> Fqn:
        return self._root.child(node_name(id))

    def _is_over(self, created: float, used: float) -> bool:
        now, settings = self._clock(), self.settings
        return now - used > settings.max_idle or 0 < settings.max_age < now - created

    # --- sessions that are over

    async def _sweep(self, cache: TreeCache) -> None:
        """Look at a few of the sessions that this member owns. A failure does not harm the request."""
        looked, over = 0, []
        for path, node in islice(self._sweeping, SWEEP_NODES):
            looked += 1
            try:
                session = Session(cache.decode, None, node)
            except CacheError:
                # The session has another codec. It belongs to another request, so it is not removed here.
                self._counts["unreadable"] += 1
                continue
            if session.used and self._is_over(session.created, session.used):
                over.append(path)
        now = self._clock()
        for path in islice(self._passive, SWEEP_NODES):
            looked += 1
            since = self._asleep[path] = self._before.get(path, now)
            if now - since > self.settings.max_idle:
                over.append(path)
        try:
            if not looked and abs(now - self._swept_at) >= SWEEP_INTERVAL:
                self._swept_at = now
                self._sweeping = cache.local_nodes(self._root)
                self._before, self._asleep = self._asleep, {}
                self._passive = iter(await cache.passive_paths(self._root))
            if over:
                await self._expire(cache, over)
        except CacheError as error:
            _log.warning("sessions that are over are not removed yet: %s", error)

    async def _expire(self, cache: TreeCache, paths: Sequence[Fqn]) -> None:
        """Remove sessions if they are still over. Another request may be using one just now."""
        try:
            async with cache.batch(gravitation=True) as batch:
                for path in paths:
                    used, created = await batch.get(path, USED), await batch.get(path, CREATED)
                    if used and self._is_over(created or 0.0, used):
                        batch.remove_node(path)
                removed = len(batch)
        except BatchConflict:
            return
        self._counts["expired"] += removed
