"""UNICAST3, connections from senders. A table that knows no protocol."""

from __future__ import annotations

from collections.abc import Container

from jgroups_py.stack.windows import GapClock, ReceiveWindow
from jgroups_py.values.address import Address


class IncomingConnection:
    """The connection from one sender. ``unacked``: messages received since the last ack."""

    __slots__ = ("ack_due", "conn_id", "gaps", "unacked", "used_at", "window")

    def __init__(self, conn_id: int, first: int, now: float, interval: float) -> None:
        self.conn_id = conn_id
        self.window = ReceiveWindow(first - 1)
        self.gaps = GapClock(interval)
        self.unacked = 0
        self.ack_due = False
        self.used_at = now


class UnicastSenders:
    """The connections. ``interval``: the first time between two requests for the same gap."""

    def __init__(self, interval: float, max_strangers: int) -> None:
        self.connections: dict[Address, IncomingConnection] = {}
        """Others read it."""
        self._interval = interval
        self._max_strangers = max_strangers

    def accept(self, src: Address, conn_id: int, first: int, now: float) -> None:
        """Begin the connection at ``first``."""
        self.connections[src] = IncomingConnection(conn_id, first, now, self._interval)

    def forget(self, src: Address) -> None:
        # The connection may be in use by a handler further up: no message of it is delivered any more.
        self.connections.pop(src).window.closed = True

    def make_room(self, members: Container[Address]) -> bool:
        """Make room for another sender outside the view. True: the one that was silent for longest is forgotten."""
        strangers = [src for src in self.connections if src not in members]
        if len(strangers) < self._max_strangers:
            return False
        self.forget(min(strangers, key=lambda src: self.connections[src].used_at))
        return True

    def forget_idle(self, members: Container[Address], idle: float, long_ago: float) -> None:
        """Forget senders outside the view that were silent since ``long_ago``. No member is left to fill the gaps of one
        that was silent since ``idle``."""
        for src, conn in list(self.connections.items()):
            if src in members or conn.used_at > idle:
                continue
            if conn.used_at <= long_ago:
                self.forget(src)
            else:
                conn.window.forget_pending()
