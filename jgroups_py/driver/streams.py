"""TCP for the driver: listeners, and connections with the bytes that their peers have not taken yet.

The driver keeps the tables of connections. A connection reports its events to it (``StreamDriver``).
"""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys
from collections import deque
from collections.abc import Sequence
from typing import Protocol as Interface

import trio

from jgroups_py.driver import files, heap, opening
from jgroups_py.driver.base import DriverLimits
from jgroups_py.driver.faults import Faults
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Crowded,
    Endpoint,
    Handle,
    In,
    Received,
    Writable,
)

log = logging.getLogger("jgroups_py.driver")

_PIECES = 64  # buffers given to one sendmsg
_SMALL_READ = (
    65_536  # bytes asked for until they are filled: a larger buffer is mapped anew each time
)
_LARGE_WRITE = 32_768  # bytes of one write of a member that has much to send
_ASK_AGAIN = 0.01  # seconds between looks at states without events: fault filters, lingering
_OUT_OF_HANDLES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


async def _ask_again() -> None:
    await trio.sleep(_ASK_AGAIN)


class StreamDriver(Interface):
    """The part of their driver that listeners and connections need."""

    limits: DriverLimits
    faults: Faults | None

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery in which tasks of connections run."""

    def take(self, inputs: Sequence[In]) -> None:
        """Hand inputs in, and run a turn."""

    def happened(self, item: In) -> None:
        """Hand an input in with the next turn."""

    def hold(self, due: float, item: In) -> None:
        """Hand an input in at ``due``."""

    def wake(self) -> None:
        """Ask for a turn."""

    answered: int

    def heard(self, stream: TcpConnection) -> None:
        """Note that bytes have come on ``stream``."""

    async def serve_on(self, heard: TcpConnection) -> None:
        """Take the next requests on ``heard``, whose last one was just answered, as long as each comes soon."""

    def accepted(self, sock: socket.socket, peer: Endpoint, bind: Bind) -> Handle | None:
        """Take a connection over that the listener of ``bind`` has accepted. None: the driver has closed it, because there are too many."""

    def opened(self, sock: socket.socket, asked: Bind | Connect) -> None:
        """Note the buffers of a new connection, if its protocol asked for sizes."""

    def lingers(self, stream: TcpConnection) -> None:
        """Note that the protocol has closed the connection, and that its last bytes are still under way."""

    def overflowed(self, stream: TcpConnection) -> None:
        """Reset the connection, which has more unsent bytes than allowed."""

    def ended(self, stream: TcpConnection) -> None:
        """Note that the connection is gone."""


class TcpListener:
    """Accepts connections until closed."""

    def __init__(self, driver: StreamDriver, bind: Bind, sock: socket.socket) -> None:
        self.driver = driver
        self.bind = bind
        self.sock = sock

    async def run(self) -> None:
        while self.sock.fileno() >= 0:
            try:
                await trio.lowlevel.wait_readable(self.sock)
            except trio.ClosedResourceError:
                return
            pause = False
            inputs: list[In] = []
            for _ in range(self.driver.limits.accepts_per_drain):
                try:
                    sock, peer = self.sock.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    # The peer gave up before we came, or we have no file descriptor left.
                    log.debug("accepting a connection: %s", error)
                    pause = error.errno in _OUT_OF_HANDLES
                    break
                if files.is_scarce(sock):
                    sock.close()
                    inputs.append(Crowded(self.bind.handle, peer[:2]))
                    continue
                handle = self.driver.accepted(sock, peer[:2], self.bind)
                if handle is not None:
                    inputs.append(Accepted(self.bind.handle, handle, peer[:2]))
            if inputs:
                self.driver.take(inputs)
            if pause:
                await trio.sleep(0.1)

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()


class TcpConnection:
    """One TCP connection. ``sock`` is None while it is being opened."""

    def __init__(
        self, driver: StreamDriver, handle: Handle, sock: socket.socket | None, peer: Endpoint
    ) -> None:
        self.driver = driver
        self.handle = handle
        self.sock = sock
        self.peer = peer
        self.unsent = 0
        self._queue: deque[bytes | memoryview] = deque()
        self._open = sock is not None
        self._closing = False
        self._gone = False
        self._writing = False
        self._scope = trio.CancelScope()
        self._read_due = 0.0
        self._failure: ConnectFailed | None = None

    # --- opening

    async def run_connect(self, out: Connect) -> None:
        if self._gone:
            return
        driver = self.driver
        failure: ConnectFailed | None = None
        try:
            with self._scope:
                while not await self._try_connect(out):
                    pass  # this process stood still
                failure = self._failure
        except trio.Cancelled:
            self._finish()
            raise
        if self._gone or (self._closing and failure is not None):
            self._finish()
            return
        if failure is not None:
            self._finish()
            driver.take([failure])
            return
        assert self.sock is not None
        driver.opened(self.sock, out)
        self._open = True
        if not self._closing:
            driver.take([Connected(self.handle, opening.local_of(self.sock))])
        if self._gone:
            return
        if self._queue:
            self._start_writer()
        elif self._closing:
            self._finish()
            return
        await self.run_read()

    async def _try_connect(self, out: Connect) -> bool:
        """Try to connect. False: the time was over, but this process did not run meanwhile."""
        driver = self.driver
        with trio.move_on_after(out.timeout) as limit:
            while driver.faults is not None and not driver.faults.sends(self.peer):
                await _ask_again()
            self._failure = await self._connect(out)
        if limit.cancelled_caught:
            if self.sock is not None:
                self.sock.close()
            if trio.current_time() - limit.deadline > driver.limits.lag_threshold:
                return False
            problem = f"no answer within {out.timeout:g} s"
            self._failure = ConnectFailed(self.handle, False, problem)
        return True

    async def _connect(self, out: Connect) -> ConnectFailed | None:
        try:
            sock = self.sock = opening.open_stream(out)
            code = sock.connect_ex(out.dest)
            if code in (errno.EINPROGRESS, errno.EWOULDBLOCK):
                await trio.lowlevel.wait_writable(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == 0 and sock.getsockname() == sock.getpeername():
                # No process listens, and the kernel happened to pick that very port for us.
                code = errno.ECONNREFUSED
        except OSError as error:
            code = error.errno or errno.EINVAL
        except trio.ClosedResourceError:
            code = errno.ECONNABORTED
        if code == 0:
            return None
        problem = f"{out.dest[0]}:{out.dest[1]}: {errno.errorcode.get(code, code)}"
        return ConnectFailed(self.handle, code == errno.ECONNREFUSED, problem)

    # --- reading

    async def run_read(self) -> None:
        sock, driver, handle = self.sock, self.driver, self.handle
        assert sock is not None
        most, large = driver.limits.reads_per_drain, driver.limits.read_size
        size = small = min(large, _SMALL_READ)
        while not self._gone:
            try:
                await trio.lowlevel.wait_readable(sock)
            except trio.ClosedResourceError:
                return
            while driver.faults is not None and driver.faults.stream(self.peer) is None:
                await _ask_again()
            if self._gone:
                return
            self.driver.heard(self)
            inputs: list[In] = []
            end: bool | None = None  # True: reset, False: closed
            try:
                for _ in range(most):
                    data = sock.recv(size)
                    if not data:
                        end = False
                        break
                    inputs.append(Received(handle, data))
                    full = len(data) == size
                    if len(data) >= small:
                        heap.keep()
                        size = large
                    else:
                        size = small
                    if not full:
                        break
            except BlockingIOError:
                pass
            except OSError:
                end = True
            if end is not None:
                inputs.append(self._ended(end))
            if inputs and not self._closing:
                self._hand_in(inputs)
                if driver.answered:
                    await driver.serve_on(self)

    def look(self) -> Sequence[In] | None:
        """Return the bytes that have come (answer_watch.py)."""
        sock = self.sock
        if sock is None or self._gone or self._closing:
            return None
        try:
            data = sock.recv(_SMALL_READ)
        except BlockingIOError:
            return ()
        except OSError:
            return (self._ended(True),)
        if not data:
            return (self._ended(False),)
        return (Received(self.handle, data),)

    def _ended(self, reset: bool) -> Closed:
        self._finish()
        return Closed(self.handle, reset)

    def _hand_in(self, inputs: list[In]) -> None:
        driver = self.driver
        if driver.faults is not None:
            delay = driver.faults.stream(self.peer) or 0.0
            due = max(self._read_due, trio.current_time() + delay)
            if due > trio.current_time():
                self._read_due = due
                for item in inputs:
                    driver.hold(due, item)
                return
        driver.take(inputs)

    # --- writing

    def write(self, data: bytes) -> None:
        """Send as much as the kernel takes now, and keep the rest."""
        if not data or self._gone or self._closing:
            return
        if len(data) >= _LARGE_WRITE:
            heap.keep()  # a member that only sends reads nothing large
        driver, rest = self.driver, data
        if self._open and not self._queue and self._may_send():
            assert self.sock is not None
            try:
                sent = self.sock.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._on_broken()
                return
            if sent == len(data):
                return
            rest = memoryview(data)[sent:]  # type: ignore[assignment]
        self._queue.append(rest)
        self.unsent += len(rest)
        if self.unsent > driver.limits.stream_queue_max:
            driver.overflowed(self)
            self._on_broken()
            return
        driver.happened(Writable(self.handle, self.unsent))
        self._start_writer()

    def _may_send(self) -> bool:
        return self.driver.faults is None or self.driver.faults.sends(self.peer)

    def _start_writer(self) -> None:
        if self._open and not self._writing:
            self._writing = True
            self.driver.nursery.start_soon(self._run_write)

    async def _run_write(self) -> None:
        assert self.sock is not None
        while self._queue and not self._gone:
            while not self._may_send() and not self._gone:
                await _ask_again()
            if self._gone:
                return
            try:
                await trio.lowlevel.wait_writable(self.sock)
                if self._gone:
                    return
                self._sent(self._send_pieces(self.sock))
            except BlockingIOError:
                continue
            except trio.ClosedResourceError:
                return
            except OSError:
                self._on_broken()
                self.driver.wake()
                return
        self._writing = False
        if self._gone:
            return
        if self._closing:
            self._finish()
        else:
            self.driver.take([Writable(self.handle, 0)])

    def _send_pieces(self, sock: socket.socket) -> int:
        if not hasattr(sock, "sendmsg"):  # Windows
            return sock.send(self._queue[0])
        pieces = [self._queue[i] for i in range(min(_PIECES, len(self._queue)))]
        return sock.sendmsg(pieces)

    def _sent(self, count: int) -> None:
        self.unsent -= count
        queue = self._queue
        while count:
            first = queue.popleft()
            if len(first) > count:
                queue.appendleft(memoryview(first)[count:])
                return
            count -= len(first)

    def _on_broken(self) -> None:
        was_closing = self._closing
        self._finish()
        if not was_closing:
            # The event is not handed in at once: we may be in the middle of a turn.
            self.driver.happened(Closed(self.handle, True))
            self.driver.wake()

    # --- closing

    def close(self, abort: bool) -> None:
        """Close the connection for the protocol, which gets no further input from it."""
        if self._gone:
            return
        self._closing = True
        if abort or not (self._open or self._queue):
            if abort and self.sock is not None:
                _reset_on_close(self.sock)
            self.close_now()
            return
        if not self._queue:
            self._finish()
            return
        self.driver.lingers(self)
        self.driver.nursery.start_soon(self._run_linger)

    async def _run_linger(self) -> None:
        with trio.move_on_after(self.driver.limits.linger):
            while not self._gone:
                await _ask_again()
        self.close_now()

    def close_now(self) -> None:
        """Close at once. Unsent bytes are lost."""
        self._scope.cancel()
        self._finish()

    def _finish(self) -> None:
        self._gone = True
        self._queue.clear()
        self.unsent = 0
        self.driver.ended(self)
        if self.sock is not None and self.sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()


def _reset_on_close(sock: socket.socket) -> None:
    if sys.platform == "win32":
        value = struct.pack("hh", 1, 0)
    else:
        value = struct.pack("ii", 1, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, value)
