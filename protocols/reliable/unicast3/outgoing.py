"""UNICAST3, connections to destinations. A table that knows no protocol.

Any process can make a member answer to invented addresses. So all destinations outside the view ("strangers") have limits
together: max_strangers connections, and max_strangers_bytes of messages that are not acked.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from jgroups_py.stack.windows import RunStore
from jgroups_py.values.address import Address

CONN_IDS: Final = 32768


class OutgoingConnection:
    """The connection to one destination. ``kept``: messages that are not acked."""

    __slots__ = (
        "acked",
        "blocked",
        "conn_id",
        "kept",
        "last_ack",
        "progress_at",
        "resend_at",
        "seqno",
        "share",
        "share_ends",
        "stranger",
        "tries",
        "used_at",
    )

    def __init__(self, conn_id: int, now: float, stranger: bool) -> None:
        self.conn_id = conn_id
        self.stranger = stranger
        """Is its destination outside the view?"""
        self.seqno = 0
        self.acked = 0
        self.kept = RunStore()
        self.last_ack = 0
        """Timestamp of the last ACK or SEND_FIRST_SEQNO."""
        self.used_at = now
        self.progress_at = now
        self.resend_at: float | None = None
        self.tries = 0
        self.blocked = False
        self.share = 0
        """Bytes that may still be retransmitted until ``share_ends``."""
        self.share_ends = now

    def begin_share(self, now: float, interval: float, size: int) -> None:
        """Give the destination ``size`` bytes for the next ``interval``, if the last one is over."""
        if self.share_ends <= now:
            self.share_ends = now + interval
            self.share = size


class Destinations:
    """See the module's docstring."""

    def __init__(self, max_strangers: int, max_strangers_bytes: int) -> None:
        self.connections: dict[Address, OutgoingConnection] = {}
        """Others read it. Its connections are changed by the protocol, but for the fields ``stranger`` and ``kept``."""
        self._max_strangers = max_strangers
        self._max_strangers_bytes = max_strangers_bytes
        self._strangers: dict[Address, OutgoingConnection] = {}
        """The connections to destinations outside the view. The one that was not used for longest is first."""
        self._strangers_size = 0
        """Bytes that are kept for those destinations."""
        self._next_conn_id = 0

    def connect(self, dest: Address, now: float, stranger: bool) -> OutgoingConnection:
        conn = self.connections[dest] = OutgoingConnection(self._next_conn_id, now, stranger)
        self._next_conn_id = (self._next_conn_id + 1) % CONN_IDS
        return conn

    def forget(self, dest: Address, conn: OutgoingConnection) -> None:
        del self.connections[dest]
        if self._strangers.pop(dest, None) is not None:
            self._strangers_size -= conn.kept.size

    def drop_to(self, conn: OutgoingConnection, seqno: int) -> None:
        """Forget messages that were acked."""
        before = conn.kept.size
        conn.kept.drop_to(seqno)
        if conn.stranger:
            self._strangers_size += conn.kept.size - before

    # --- destinations outside the view

    def crowded_out(self, dest: Address, length: int) -> tuple[Address, OutgoingConnection] | None:
        """Return the connection to give up before ``length`` bytes go to ``dest``. None: there is room."""
        strangers = self._strangers
        strangers.pop(dest, None)  # it is used now
        if strangers and (
            len(strangers) >= self._max_strangers
            or self._strangers_size + length > self._max_strangers_bytes
        ):
            return next(iter(strangers.items()))
        return None

    def use_stranger(self, dest: Address, conn: OutgoingConnection) -> None:
        """Note that messages go to ``dest`` now, after ``crowded_out``."""
        self._strangers[dest] = conn

    def kept_more(self, size: int) -> None:
        """Note that ``size`` more bytes are kept for a destination outside the view."""
        self._strangers_size += size

    def view_installed(self, members: Container[Address]) -> None:
        """Follow a new view: some connections are to members now, others are not any more."""
        self._strangers = {}
        self._strangers_size = 0
        for dest, conn in self.connections.items():
            conn.stranger = dest not in members
            if conn.stranger:
                self._strangers[dest] = conn
                self._strangers_size += conn.kept.size

    def check(self) -> None:
        assert self._strangers_size == sum(conn.kept.size for conn in self._strangers.values())
        assert len(self._strangers) <= max(self._max_strangers, 1)
