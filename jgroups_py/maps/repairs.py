"""Repairs: changes of an origin that does not send them itself, because its host is gone or was away. One peer at a time is
asked for them, with Want. Limit: ``origins_max`` origins."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from jgroups_py.maps.admission import MapAdmission
from jgroups_py.maps.messages import Want
from jgroups_py.maps.peer_link import PeerLink
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.table import Vector


@dataclass(slots=True)
class _Behind:
    since: float
    number: int
    asked_at: float = 0.0


class MapRepairs:
    """Origins of which a peer has more than this host. ``now`` is in seconds."""

    def __init__(self, settings: ReplicaSettings, admission: MapAdmission) -> None:
        self._settings = settings
        self._admission = admission
        self._behind: dict[int, _Behind] = {}

    def __len__(self) -> int:
        return len(self._behind)

    def lacks(self, origin: int, have: int, now: float) -> None:
        """Note that a peer has more changes of an origin than ``have``. Refused origins are not asked for."""
        if len(self._behind) < self._settings.origins_max and not self._admission.refusal(origin):
            self._behind.setdefault(origin, _Behind(now, have))

    def came(self, origin: int, to: int, now: float) -> None:
        """Note that changes of an origin were taken, up to ``to``."""
        behind = self._behind.get(origin)
        if behind is not None:
            behind.since, behind.number, behind.asked_at = now, to, 0.0

    def due(
        self, links: Collection[PeerLink], received: Vector, now: float
    ) -> Iterator[tuple[PeerLink, Want]]:
        """Yield the questions that are due now, each with the peer that is asked. ``received``: the changes that this host has."""
        for origin, behind in list(self._behind.items()):
            have = received.get(origin, 0)
            best = max(
                (p for p in links if p.hello is not None),
                key=lambda p: (
                    p.has.get(origin, 0),
                    p.hello is not None and p.hello.origin == origin,
                ),
                default=None,
            )
            if best is None or best.has.get(origin, 0) <= have:
                del self._behind[origin]
                continue
            if have > behind.number:
                behind.number, behind.since = have, now
            if origin in best.ahead:
                best = self._next_best(links, origin, have)
                if best is None:
                    continue
            linked = any(p.hello is not None and p.hello.origin == origin for p in links)
            since = max(behind.since, behind.asked_at)
            if now - since >= self._settings.repair_wait or not (linked or behind.asked_at):
                behind.asked_at = now
                yield best, Want(origin, have)

    def _next_best(self, links: Collection[PeerLink], origin: int, have: int) -> PeerLink | None:
        """Return a peer that has more of an origin, and no change of it that still has to wait."""
        for peer in links:
            time = peer.ahead.get(origin, 0)
            if time and not self._admission.is_ahead(time):
                del peer.ahead[origin]
            if (
                peer.hello is not None
                and peer.has.get(origin, 0) > have
                and origin not in peer.ahead
            ):
                return peer
        return None
