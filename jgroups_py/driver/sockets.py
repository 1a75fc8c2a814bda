"""The driver on real sockets: UDP, multicast, TCP.

Sockets are drained without awaiting per datagram: one wait until readable, then non-blocking reads
of fresh bytes until nothing is left or it is another socket's turn, one ``handle``, one turn.
Sending is tried at once; only bytes that the kernel does not take wait, in bounded queues.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial

import trio

from jgroups_py.driver import files, listeners, neighbours, opening, own_multicasts
from jgroups_py.driver.answer_watch import AnswerWatch, Readable
from jgroups_py.driver.base import Driver, DriverLimits
from jgroups_py.driver.directories.asking import Directory, real_directory
from jgroups_py.driver.directories.desk import Desk
from jgroups_py.driver.faults import Faults
from jgroups_py.driver.interfaces import resolve_all
from jgroups_py.driver.lookup import Resolver, addresses_of
from jgroups_py.driver.refusal import refusal
from jgroups_py.driver.request_watch import RequestWatch
from jgroups_py.driver.streams import TcpConnection, TcpListener
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import (
    Bind,
    BindFailed,
    Bound,
    Close,
    Connect,
    Consult,
    CountListeners,
    Datagram,
    Endpoint,
    Handle,
    In,
    JoinGroup,
    Listeners,
    Out,
    Resolve,
    SendTo,
    Write,
)

log = logging.getLogger("jgroups_py.driver")

OTHERS_MAX = 1
"""The looking goes on after this many inputs in a row without a request, and ends with one more. An acknowledgement may come
between two."""
ASKED_IN_VAIN = 8
"""After this many drains in a row of one datagram each, a socket is asked for a second one only in every drain of this
number."""

COPIED_MAX = 16_384
"""A smaller datagram is copied. It was read into 64 KB, whose rest is free: as long as the datagram is kept, this rest is too short to read
another one into it, so a member that keeps many small datagrams beside large ones would hold 64 KB for each."""


class UdpSocket:
    """One UDP socket, and the datagrams that the kernel has not taken yet. ``answers``: one on which answers may come, not that of
    a multicast group."""

    __slots__ = ("answers", "handle", "queue", "queued", "sock")

    def __init__(self, handle: Handle, sock: socket.socket, *, answers: bool = True) -> None:
        self.handle = handle
        self.answers = answers
        self.sock = sock
        self.queue: list[tuple[bytes, Endpoint]] = []
        self.queued = 0

    def look(self) -> Sequence[In] | None:
        """Return a datagram that has come (answer_watch.py)."""
        try:
            data, source = self.sock.recvfrom(65535)
        except BlockingIOError:
            return ()
        except OSError:
            return None  # the task that reads tells why
        if len(data) < COPIED_MAX:
            data = bytes(memoryview(data))
        return (Datagram(self.handle, data, source[:2]),)

    def close(self) -> None:
        if self.sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self.sock)
            self.sock.close()


class SocketDriver(Driver):
    """Executes Outs over real sockets. ``faults`` may be set at any time; None costs nothing."""

    def __init__(
        self,
        machine: Machine,
        limits: DriverLimits | None = None,
        faults: Faults | None = None,
        resolver: Resolver | None = None,
        directory: Directory | None = None,
    ) -> None:
        super().__init__(machine, limits)
        self.faults = faults
        machine.files_max = files.most()
        self._resolver = resolver or resolve_all
        self._lookups = trio.CapacityLimiter(self.limits.lookups_max)
        self._desk = Desk(
            directory or real_directory,
            self.take,
            trio.CapacityLimiter(self.limits.lookups_max),
            self.limits.consults_waiting_max,
        )
        self._watch = AnswerWatch(self.limits.watch, partial(self._take_watched, self.take_answer))
        self._requests = RequestWatch(self.limits.watch, partial(self._take_watched, self.take))
        self.datagrams_in = 0
        self.reads_in_vain = 0
        """Number of times that a socket was asked for another datagram but had none."""
        self.datagrams_out = 0
        self.datagrams_dropped = 0
        """Datagrams that the kernel did not take while ``datagram_queue_max`` bytes waited already."""
        self.send_errors = 0
        self.connections_refused = 0
        """Connections that were closed at once because ``connections_max`` were open."""
        self.streams_reset = 0
        """Connections that were reset because ``stream_queue_max`` bytes were unsent."""
        self.stream_send_buffer = 0
        """The smallest send buffer that the kernel granted to a connection, in bytes, where the stack asks for a size. 0: none
        did."""
        self.stream_receive_buffer = 0
        """The same for receive buffers."""
        self.held_dropped = 0
        self.sockets: dict[Handle, UdpSocket] = {}
        self.streams: dict[Handle, TcpConnection] = {}
        self.closing: dict[Handle, TcpConnection] = {}
        """Connections that the protocol has closed, and whose last bytes are still under way."""
        self.listeners: dict[Handle, TcpListener] = {}
        self._accepted = itertools.count(-1, -1)
        self._held: list[tuple[float, int, In]] = []
        self._held_count = 0
        self._held_wake: trio.Event | None = None

    # --- looking for an answer

    @trio.lowlevel.enable_ki_protection
    def watch(self, is_over: Callable[[], bool]) -> bool:
        if self.faults is not None or not self.is_between_turns:
            return False
        return self._watch.until(is_over)

    def _take_watched(self, take: Callable[[Sequence[In]], None], inputs: Sequence[In]) -> bool:
        if type(inputs[0]) is Datagram:
            self.datagrams_in += 1
        if self._failure is None:
            try:
                take(inputs)
            except Exception as error:
                self.fail(error)
        return self._failure is None

    async def serve_on(self, heard: Readable) -> None:
        """Take the next requests on ``heard``, whose last one was just answered, as long as each comes soon."""
        served = others = 0
        count = self.answered
        while others <= OTHERS_MAX:
            self.answered = 0
            if self.faults is not None:
                return
            if not self._requests.comes(heard, self.machine.now, count):
                return
            others = 0 if self.answered else others + 1
            count = self.answered or count
            served += 1
            if served >= self.limits.watched_max:
                served = 0
                await trio.lowlevel.checkpoint()

    # --- doing

    def execute(self, outs: Sequence[Out]) -> None:
        sockets, streams, faults = self.sockets, self.streams, self.faults
        for out in outs:
            kind = type(out)
            if kind is Write:
                stream = streams.get(out.handle)
                if stream is not None:
                    stream.write(out.data)  # type: ignore[union-attr]
            elif kind is SendTo:
                udp = sockets.get(out.handle)
                if udp is None or (faults is not None and not faults.sends(out.dest)):  # type: ignore[union-attr]
                    continue
                if udp.queue:
                    self._enqueue(udp, out.data, out.dest)  # type: ignore[union-attr]
                    continue
                try:
                    udp.sock.sendto(out.data, out.dest)  # type: ignore[union-attr]
                    self.datagrams_out += 1
                except BlockingIOError:
                    self._enqueue(udp, out.data, out.dest)  # type: ignore[union-attr]
                except OSError as error:
                    self._on_send_error(error, out.dest)  # type: ignore[union-attr]
            else:
                self._execute_rare(out)

    def _execute_rare(self, out: Out) -> None:
        match out:
            case Bind():
                self._bind(out)
            case JoinGroup():
                self._open_udp(out.handle, out)
            case CountListeners(handle, interface):
                udp = self.sockets.get(handle)
                others = None if udp is None else listeners.others(udp.sock, interface)
                if others is not None:
                    self.happened(Listeners(handle, others))
            case Connect():
                self._connect(out)
            case Close(handle, abort):
                self._close(handle, abort)
            case Resolve():
                self.nursery.start_soon(self._resolve, out)
            case Consult():
                refused = self._desk.submit(out, self.nursery)
                if refused is not None:
                    self.happened(refused)

    def _bind(self, bind: Bind) -> None:
        if bind.kind == "udp":
            self._open_udp(bind.handle, bind)
            return
        try:
            sock = opening.open_listener(bind)
        except OSError as error:
            problem = refusal(bind.host, bind.port, opening.last_port(bind), error)
            self.happened(BindFailed(bind.handle, problem))
            return
        listener = self.listeners[bind.handle] = TcpListener(self, bind, sock)
        self.happened(Bound(bind.handle, opening.local_of(sock)))
        self.nursery.start_soon(listener.run)

    def _open_udp(self, handle: Handle, out: Bind | JoinGroup) -> None:
        try:
            if isinstance(out, Bind):
                sock = opening.open_udp(out, self.limits.socket_buffer)
            else:
                sock = opening.open_group(out, self.limits.socket_buffer)
                if out.without in self.sockets:
                    own = self.sockets[out.without].sock
                    own_multicasts.leave_out(sock, opening.local_of(own))
        except OSError as error:
            if isinstance(out, Bind):
                problem = refusal(out.host, out.port, opening.last_port(out), error)
            else:
                problem = refusal(*out.group, out.group[1], error)
            self.happened(BindFailed(handle, problem))
            return
        udp = self.sockets[handle] = UdpSocket(handle, sock, answers=isinstance(out, Bind))
        buffer = opening.granted(sock, socket.SO_RCVBUF)
        self.happened(Bound(handle, opening.local_of(sock), buffer))
        self.nursery.start_soon(self._read_datagrams, udp)

    def _connect(self, out: Connect) -> None:
        stream = self.streams[out.handle] = TcpConnection(self, out.handle, None, out.dest)
        self.nursery.start_soon(stream.run_connect, out)

    def _close(self, handle: Handle, abort: bool) -> None:
        if self.faults is not None and self.faults.vanished:
            return  # a vanished host sends no close
        udp = self.sockets.pop(handle, None)
        if udp is not None:
            udp.close()
            return
        listener = self.listeners.pop(handle, None)
        if listener is not None:
            listener.close()
            return
        stream = self.streams.pop(handle, None)
        if stream is not None:
            stream.close(abort)

    async def _resolve(self, out: Resolve) -> None:
        """Look up in a thread: a name server that does not answer may take half a minute. The end of the driver does
        not wait for the thread."""
        look_up = partial(addresses_of, self._resolver, out)
        found = await trio.to_thread.run_sync(
            look_up, abandon_on_cancel=True, limiter=self._lookups
        )
        self.take([found])

    # --- datagrams

    async def _read_datagrams(self, udp: UdpSocket) -> None:
        sock, handle = udp.sock, udp.handle
        recvfrom, most = sock.recvfrom, self.limits.datagrams_per_drain
        several = False  # the last drain brought more than one
        alone = 0  # so many drains in a row brought one, and then the socket had no more
        while sock.fileno() >= 0:  # the socket may be closed before we first run
            try:
                await trio.lowlevel.wait_readable(sock)
            except trio.ClosedResourceError:
                return
            while True:
                inputs: list[In] = []
                # A datagram that comes alone is answered before the socket is asked for more.
                count = most if several else 1
                try:
                    for _ in range(count):
                        data, source = recvfrom(65535)
                        if len(data) < COPIED_MAX:
                            data = bytes(memoryview(data))
                        inputs.append(Datagram(handle, data, source[:2]))
                except BlockingIOError:
                    pass
                except OSError as error:
                    if sock.fileno() < 0:
                        return
                    log.debug("receiving a datagram: %s", error)
                if inputs:
                    if udp.answers:
                        self._watch.heard = udp
                else:
                    several = False
                    alone += 1
                    self.reads_in_vain += 1
                    break
                if several:
                    alone = 0
                self.datagrams_in += len(inputs)
                full = len(inputs) == count
                if self.faults is not None:
                    inputs = self._filtered(self.faults, inputs)
                if inputs:
                    self.take(inputs)
                    if self.answered:
                        await self.serve_on(udp)
                if sock.fileno() < 0:
                    return
                if not full:
                    several = len(inputs) > 1
                    break
                if several:
                    await trio.lowlevel.checkpoint()
                elif alone > ASKED_IN_VAIN and alone % ASKED_IN_VAIN:
                    alone += 1  # the loop reports further datagrams
                    break
                several = True

    def _enqueue(self, udp: UdpSocket, data: bytes, dest: Endpoint) -> None:
        if udp.queued + len(data) > self.limits.datagram_queue_max:
            self.datagrams_dropped += 1
            return
        udp.queue.append((data, dest))
        udp.queued += len(data)
        if len(udp.queue) == 1:
            self.nursery.start_soon(self._write_datagrams, udp)

    async def _write_datagrams(self, udp: UdpSocket) -> None:
        while udp.queue and udp.sock.fileno() >= 0:
            try:
                await trio.lowlevel.wait_writable(udp.sock)
            except trio.ClosedResourceError:
                return
            done = 0
            for data, dest in udp.queue:
                try:
                    udp.sock.sendto(data, dest)
                    self.datagrams_out += 1
                except BlockingIOError:
                    break
                except OSError as error:
                    self._on_send_error(error, dest)
                done += 1
                udp.queued -= len(data)
            del udp.queue[:done]

    def _on_send_error(self, error: OSError, dest: Endpoint) -> None:
        self.send_errors += 1
        log.debug("sending a datagram to %s:%d: %s", *dest, error)

    # --- faults

    def _filtered(self, faults: Faults, inputs: list[In]) -> list[In]:
        now = trio.current_time()
        passed: list[In] = []
        for item in inputs:
            assert isinstance(item, Datagram)
            for delay in faults.datagram(item.source):
                if delay <= 0:
                    passed.append(item)
                else:
                    self.hold(now + delay, item)
        return passed

    def hold(self, due: float, item: In) -> None:
        """Hand ``item`` in at ``due``. Items of one time keep their order."""
        if len(self._held) >= self.limits.held_max and isinstance(item, Datagram):
            self.held_dropped += 1
            return
        self._held_count += 1
        heapq.heappush(self._held, (due, self._held_count, item))
        if self._held_wake is None:
            self._held_wake = trio.Event()
            self.nursery.start_soon(self._run_held)
        elif self._held[0][2] is item:
            self._held_wake.set()

    async def _run_held(self) -> None:
        while self._held:
            self._held_wake = trio.Event()
            with trio.move_on_at(self._held[0][0]):
                await self._held_wake.wait()
            now = trio.current_time()
            inputs = []
            while self._held and self._held[0][0] <= now:
                inputs.append(heapq.heappop(self._held)[2])
            if inputs and not (self.faults is not None and self.faults.vanished):
                self.take(inputs)
        self._held_wake = None

    # --- looking

    def neighbours(self, groups: Sequence[Endpoint]) -> list[str]:
        return neighbours.hints(groups)

    # --- connections

    def accepted(self, sock: socket.socket, peer: Endpoint, bind: Bind) -> Handle | None:
        """Take a connection over that the listener of ``bind`` has accepted. None: the connection was closed, because ``connections_max`` are open."""
        if len(self.streams) + len(self.closing) >= self.limits.connections_max:
            self.connections_refused += 1
            sock.close()
            return None
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, bind.nodelay)
        self.opened(sock, bind)
        handle = next(self._accepted)
        stream = self.streams[handle] = TcpConnection(self, handle, sock, peer)
        self.nursery.start_soon(stream.run_read)
        return handle

    def opened(self, sock: socket.socket, asked: Bind | Connect) -> None:
        """Note the buffers of a new connection, if its protocol asked for sizes."""
        if asked.send_buffer:
            size = opening.granted(sock, socket.SO_SNDBUF)
            self.stream_send_buffer = min(size, self.stream_send_buffer or size)
        if asked.receive_buffer:
            size = opening.granted(sock, socket.SO_RCVBUF)
            self.stream_receive_buffer = min(size, self.stream_receive_buffer or size)

    def heard(self, stream: TcpConnection) -> None:
        self._watch.heard = stream

    def lingers(self, stream: TcpConnection) -> None:
        """Note that the protocol has closed ``stream``, whose last bytes are still under way."""
        self.closing[stream.handle] = stream

    def overflowed(self, stream: TcpConnection) -> None:
        """Reset ``stream``, because too many of its bytes are unsent."""
        self.streams_reset += 1

    def ended(self, stream: TcpConnection) -> None:
        """Note that ``stream`` is gone."""
        if self.streams.get(stream.handle) is stream:
            del self.streams[stream.handle]
        self.closing.pop(stream.handle, None)

    def statistics(self) -> dict[str, int]:
        watch, requests = self._watch, self._requests.watch
        return {
            **super().statistics(),
            "watched": watch.ended,
            "watched_in_vain": watch.in_vain,
            "requests_watched": requests.ended,
            "requests_watched_in_vain": requests.in_vain,
        }

    # --- the end

    async def drained(self) -> None:
        # This loop looks a few times, once in a driver's life. That is not worth an event of its own.
        while self.closing or any(udp.queue for udp in self.sockets.values()):  # noqa: ASYNC110
            await trio.sleep(0.002)

    async def filed(self) -> None:
        while self._desk.busy:  # noqa: ASYNC110
            await trio.sleep(0.002)

    def close_all(self) -> None:
        for udp in self.sockets.values():
            udp.close()
        for listener in self.listeners.values():
            listener.close()
        for stream in [*self.streams.values(), *self.closing.values()]:
            stream.close_now()
        self.sockets.clear()
        self.listeners.clear()
        self.streams.clear()
        self.closing.clear()
        self._held.clear()


class SocketTransport:
    """The transport of ``open_channel`` unless the caller gives another. ``resolver`` looks up the names in
    ``initial_hosts``, in a thread; default: the system's. ``directory`` answers requests of FILE_PING and its like, in
    a thread; default: the folder, server or database that their attributes name."""

    def __init__(
        self,
        limits: DriverLimits | None = None,
        faults: Faults | None = None,
        resolver: Resolver | None = None,
        directory: Directory | None = None,
    ) -> None:
        self.limits = limits
        self.faults = faults
        self.resolver = resolver
        self.directory = directory

    def driver(self, machine: Machine) -> SocketDriver:
        return SocketDriver(machine, self.limits, self.faults, self.resolver, self.directory)
