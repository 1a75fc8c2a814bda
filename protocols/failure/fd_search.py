"""Search: FD_SOCK2 looks for one member on its ports.

A member listens on one of a few ports. The search tries them one after the other: it connects and sends CONNECT with the
address of the member.

    CONNECT_RSP of the member      found
    CONNECT_RSP of another one     another member has that port now: the next port
    refused                        no member has it: the next port
    no answer, not reachable       unknown: the next port
    no port left                   lost; `refused` when every port refused or belongs to another member

A connection that closes before the answer is tried once more: the peer's own connection may have replaced it, or the
peer has just died. If a connection to the member exists, the search asks on this connection and tries no port.
The protocol reports the events of connections to the search.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from jgroups_py.protocols.transport.connections import Connection, Connections
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import Address, IpAddress


class SearchResult(Enum):
    """The end of a search."""

    FOUND = auto()
    LOST = auto()
    """The member is not behind any of its ports."""
    AGAIN = auto()
    """The connection closed in good order, or an existing one broke: search once more."""


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
        """The connection on which an answer is awaited, or on which it came."""
        self.graceful = False
        """True after AGAIN if the peer said goodbye."""
        self.refused = True
        """True if every port so far refused or had another member behind it."""
        self._owner = owner
        self._connections = connections
        self._timeout = timeout
        self._ask_on = ask
        self._done = done
        self._timer = owner.timer(self._on_no_answer, "_on_no_answer")
        self._ports: list[IpAddress] = []
        self._index = 0
        self._known = False
        """True if the search asks on an existing connection."""
        self._again = False
        """True if this port was tried twice."""

    def stop(self) -> None:
        self._timer.cancel()

    def ask_known(self, connection: Connection) -> None:
        """Ask on an existing connection to the member."""
        assert connection.peer is not None
        self._ports = [connection.peer]
        self._known = True
        self.refused = False  # the other ports need not be tried
        self._ask(connection)

    def try_ports(self, ports: list[IpAddress]) -> None:
        self._ports = ports
        self._try()

    def _try(self) -> None:
        """Connect to the current port, or to the first one after it that does not refuse."""
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
        self._index += 1
        self._again = False
        self.connection = None
        self.refused = self.refused and refused
        self._try()

    def _end(self, result: SearchResult) -> None:
        self._timer.cancel()
        self._done(self, result)

    # --- events of connections

    def answered(self, connection: Connection, who: Address | None, same_cluster: bool) -> None:
        """Take a CONNECT_RSP on a connection."""
        if connection is self.connection:
            if same_cluster and who == self.member:
                self._end(SearchResult.FOUND)
            else:
                self._next(refused=who is not None)

    def opened(self, connection: Connection) -> None:
        """Ask again, because the peer's own connection replaced the one that was asked on."""
        if self._index < len(self._ports) and self._ports[self._index] == connection.peer:
            self._ask(connection)

    def failed(self, peer: IpAddress, refused: bool) -> None:
        """Note that a connection could not be opened."""
        if self._index < len(self._ports) and self._ports[self._index] == peer:
            self._next(refused=refused)

    def lost(self, connection: Connection) -> None:
        """Note that an open connection closed."""
        if connection is not self.connection:
            return
        self.connection = None
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
        if connection is not None:
            # The process that listened there may be gone, and this member would not be told.
            self._connections.close(connection, abort=True)
        self._next(refused=False)
