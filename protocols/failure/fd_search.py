"""FD_SOCK2, looking for one member on its ports.

A member listens on one of a few ports. They are tried one after the other: connect, CONNECT(who you
should be), and see who answers.

    CONNECT_RSP of the member      found
    CONNECT_RSP of another one     it has that port now, so the member has not: the next port
    refused                        nobody has it: the next port
    no answer, not reachable       nothing is known: the next port
    no port left                   lost; `refused` when every port was refused or another one's

A connection that closes before the answer is tried once more: it may have lost against the peer's
own, or the peer has died just now. When there is a connection to the member already, it is asked on
that one, and no port is tried. The protocol tells the search what happened to connections.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from jgroups_py.protocols.transport.connections import Connection, Connections
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import Address, IpAddress


class SearchResult(Enum):
    """How a search ended."""

    FOUND = auto()
    LOST = auto()
    """Not behind any of its ports."""
    AGAIN = auto()
    """The connection closed in good order, or the one we had broke: look once more."""


class Search:
    """See the module's docstring. ``ask`` sends CONNECT; ``done`` is called once."""

    def __init__(
        self,
        owner: Protocol,
        connections: Connections,
        member: Address,
        timeout: float,
        ask: Callable[[Connection, Address], None],
        done: Callable[[Search, SearchResult], None],
    ) -> None:
        self.member = member
        self.connection: Connection | None = None
        """The one on which an answer is awaited, or on which it came."""
        self.graceful = False
        """AGAIN: the peer said goodbye."""
        self.refused = True
        """Every port so far refused, or had another member behind it."""
        self._owner = owner
        self._connections = connections
        self._timeout = timeout
        self._ask_on = ask
        self._done = done
        self._timer = owner.timer(self._on_no_answer, "_on_no_answer")
        self._ports: list[IpAddress] = []
        self._index = 0
        self._known = False
        """Asked on a connection that there was."""
        self._again = False
        """This port was tried twice."""

    def stop(self) -> None:
        self._timer.cancel()

    def ask_known(self, connection: Connection) -> None:
        """There is a connection to the member: ask on it."""
        assert connection.peer is not None
        self._ports = [connection.peer]
        self._known = True
        self.refused = False  # the other ports are not tried
        self._ask(connection)

    def try_ports(self, ports: list[IpAddress]) -> None:
        self._ports = ports
        self._try()

    def _try(self) -> None:
        """Connects to the current port, or to the first one after it that does not refuse."""
        while self._index < len(self._ports):
            connection = self._connections.connect(self._ports[self._index])
            if connection is not None:
                self._ask(connection)
                return
            self._index += 1
        self._end(SearchResult.LOST)

    def _ask(self, connection: Connection) -> None:
        self.connection = connection
        self._timer.cancel()
        self._timer.start(self._owner.patience(self._timeout))
        self._ask_on(connection, self.member)

    def _next(self, *, refused: bool) -> None:
        self._timer.cancel()
        self._index += 1
        self._again = False
        self.connection = None
        self.refused = self.refused and refused
        self._try()

    def _end(self, result: SearchResult) -> None:
        self._timer.cancel()
        self._done(self, result)

    # --- what happens

    def answered(self, connection: Connection, who: Address | None, same_cluster: bool) -> None:
        """CONNECT_RSP on a connection."""
        if connection is self.connection:
            if same_cluster and who == self.member:
                self._end(SearchResult.FOUND)
            else:
                self._next(refused=who is not None)

    def opened(self, connection: Connection) -> None:
        """The peer's own connection took the place of the one we asked on: ask again."""
        if self._index < len(self._ports) and self._ports[self._index] == connection.peer:
            self._ask(connection)

    def failed(self, peer: IpAddress, refused: bool) -> None:
        """A connection could not be opened."""
        if self._index < len(self._ports) and self._ports[self._index] == peer:
            self._next(refused=refused)

    def lost(self, connection: Connection) -> None:
        """An open connection closed."""
        if connection is not self.connection:
            return
        self.connection = None
        self._timer.cancel()
        if connection.graceful or self._known:
            self.graceful = connection.graceful
            self._end(SearchResult.AGAIN)
        elif not self._again:
            self._again = True
            self._try()
        else:
            self._next(refused=False)

    def _on_no_answer(self) -> None:
        connection = self.connection
        if connection is not None:  # who listened there may be gone, and nobody would tell us
            self._connections.close(connection, abort=True)
        self._next(refused=False)
