"""PeerLink: a replica's knowledge of the peer of one link, and the changes sent there and not acknowledged.
It knows no replica.

sent    numbers that need not be sent: those of the peer's own reports, and those on their way
land    an acknowledgement makes room in the window
wanted  the peer asks for changes of another origin; what was sent of it before is forgotten
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from jgroups_py.maps.messages import Hello
from jgroups_py.maps.sums import Contents
from jgroups_py.maps.table import Vector


@dataclass(slots=True)
class PeerLink:
    number: int
    shared: bool = False
    hello: Hello | None = None
    has: Vector = field(default_factory=dict)
    """The changes that the peer has reported."""
    sent: Vector = field(default_factory=dict)
    """The changes that need not be sent: those in ``has``, and those sent."""
    heard: bool = False
    """Has a Have of the peer come?"""
    on_the_way: int = 0
    """Bytes sent since the last Have that acknowledged all."""
    flights: list[tuple[int, int, int]] = field(default_factory=list)
    """Origin, number up to, bytes: sent and not acknowledged."""
    wants: dict[int, int] = field(default_factory=dict)
    """By other origin, the number after which the peer has asked for changes."""
    have_due: float = 0.0
    told: Contents | None = None
    """The contents of this host's table at its last Have to the peer."""
    rests: int = 0
    """Intervals without a Have, for lack of changes."""
    owes: dict[int, int] = field(default_factory=dict)
    """Origins to be acknowledged, each with its last acknowledged number."""
    ack_due: float = 0.0
    applied: int = 0
    """Entries of the next message that the table has already."""
    ahead: dict[int, int] = field(default_factory=dict)
    """The time of the first waiting change of each origin whose changes from here have to wait."""
    warned: set[str] = field(default_factory=set)
    """The log lines about this peer, once for each link."""

    @property
    def node(self) -> int:
        """Return the peer's identifier; 0: it has not said one yet."""
        return 0 if self.hello is None else self.hello.node

    def warns(self, what: str) -> bool:
        """Note a log line about this peer. Return whether it is the first one of its kind."""
        first = what not in self.warned
        self.warned.add(what)
        return first

    # --- reports of the peer

    def begins_anew(self, own: int, number: int) -> None:
        """Note that the peer has lost changes of ``own``, the origin of this host, and has them up to ``number``."""
        self.sent[own], self.flights, self.on_the_way = number, [], 0

    def reports(self, vector: Vector, known: Container[int]) -> None:
        """Take a whole report of the peer's changes. Of ``known`` origins it needs none that it has."""
        first, self.heard = not self.heard, True
        self.has = vector
        for origin, number in vector.items():
            if origin in known and (
                first or (number > self.sent.get(origin, 0) and origin not in self.wants)
            ):
                self.sent[origin] = number

    def acknowledges(self, vector: Vector) -> None:
        """Take a report of some changes."""
        for origin, number in vector.items():
            if number > self.has.get(origin, 0):
                self.has[origin] = number
                if number > self.sent.get(origin, 0) and origin not in self.wants:
                    self.sent[origin] = number

    # --- unacknowledged changes

    def wanted(self, origin: int, after: int) -> None:
        """Note that the peer asks for changes of an origin. Earlier ones will not be acknowledged: it may have begun anew meanwhile."""
        self.wants[origin] = self.sent[origin] = after
        self._keep([flight for flight in self.flights if flight[0] != origin])

    def on_its_way(self, origin: int, upto: int, size: int) -> None:
        self.sent[origin] = upto
        self.flights.append((origin, upto, size))
        self.on_the_way += size

    def land(self, vector: Vector) -> bool:
        """Note that the peer has these changes. Return whether that makes room for more."""
        left = [flight for flight in self.flights if vector.get(flight[0], 0) < flight[1]]
        landed = len(left) < len(self.flights)
        if landed:
            self._keep(left)
        return landed

    def _keep(self, flights: list[tuple[int, int, int]]) -> None:
        self.flights = flights
        self.on_the_way = sum(flight[2] for flight in flights)
