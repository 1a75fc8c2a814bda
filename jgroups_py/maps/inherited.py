"""Sockets of a port in a forked child: copies of the parent's. The child closes them.

While a copy is open, peers do not notice the parent's death, and no other process can listen at the port.

Differs: channels leave them open (design/blocking.md). A map may be opened before a fork, as gunicorn does with --preload.
"""

from __future__ import annotations

import os

import trio

from jgroups_py.maps import forks


class InheritedSockets(forks.Forked):
    """The sockets of one port. It acts at forks as long as it is referenced."""

    def __init__(self) -> None:
        self.listeners: list[trio.SocketListener] = []
        self.streams: dict[trio.abc.Stream, None] = {}
        """The open streams, of any kind."""
        forks.watch(self)

    def before_fork(self) -> None:
        """Do nothing: the fork waits for no socket."""

    def after_fork(self, child: bool) -> None:
        """Close the sockets in the child, which has no loop that could use them."""
        if child:
            for one in (*self.listeners, *self.streams):
                _close_copy(one)


def _close_copy(one: object) -> None:
    while isinstance(one, trio.SSLStream):
        one = one.transport_stream
    if isinstance(one, trio.SocketStream | trio.SocketListener):
        # Otherwise the object's end would close the next file with the same number.
        descriptor = one.socket.detach()
        if descriptor >= 0:
            os.close(descriptor)
