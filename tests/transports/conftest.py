"""A network in memory for a few fake stacks: it executes the items of ports.py, in order, without delay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Datagram,
    Endpoint,
    In,
    JoinGroup,
    Out,
    Received,
    SendTo,
    Write,
)
from jgroups_py.testing import FakeStack

sys.path.insert(0, str(Path(__file__).parent))  # fd_sock2_member.py


@dataclass
class Socket:
    owner: FakeStack
    handle: int
    kind: str
    local: Endpoint
    peer: Socket | None = None


@dataclass
class Network:
    """``silent``: hosts that drop all packets. ``drop``: datagrams for which it returns true are lost."""

    stacks: list[FakeStack] = field(default_factory=list)
    sockets: list[Socket] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    drop: Callable[[SendTo], bool] = lambda out: False
    log: list[tuple[FakeStack, Out]] = field(default_factory=list)
    next_port: int = 40000
    next_accepted: int = -1

    def add(self, *protocols: Any, host: str = "127.0.0.1", **options: Any) -> FakeStack:
        stack = FakeStack(*protocols, **options)
        stack.machine.host = host
        self.stacks.append(stack)
        return stack

    def run(self, seconds: float = 0.0) -> None:
        """Executes everything that is to be done, then lets time pass."""
        self._settle()
        end = self.stacks[0].now + seconds
        while True:
            due = [d for s in self.stacks if (d := s.machine.next_deadline()) is not None]
            soonest = min(due, default=end)
            if soonest > end:
                break
            for stack in self.stacks:
                stack.advance(max(0.0, soonest - stack.now))
            self._settle()
            if soonest == end:
                break
        for stack in self.stacks:
            stack.advance(max(0.0, end - stack.now))
        self._settle()

    def _settle(self) -> None:
        for _ in range(10_000):
            busy = False
            for stack in list(self.stacks):
                for out in stack.take_outgoing():
                    busy = True
                    self.log.append((stack, out))
                    self._execute(stack, out)
            if not busy:
                return
        raise AssertionError("the network does not come to rest")

    def kill(self, stack: FakeStack) -> None:
        """Kill the member like kill -9: connections are reset, listeners are closed, and it does nothing more."""
        self.stacks.remove(stack)
        for socket in [s for s in self.sockets if s.owner is stack]:
            self._close(socket, reset=True)

    def open_sockets(self, stack: FakeStack, kind: str | None = None) -> list[Socket]:
        return [s for s in self.sockets if s.owner is stack and kind in (None, s.kind)]

    def _execute(self, stack: FakeStack, out: Out) -> None:
        match out:
            case Bind():
                self._bind(stack, out)
            case JoinGroup(handle, group):
                self.sockets.append(Socket(stack, handle, "group", group))
                self._tell(stack, Bound(handle, group))
            case SendTo(handle, data, dest):
                if self.drop(out):
                    return
                source = self._find(stack, handle)
                assert source is not None
                for socket in list(self.sockets):
                    if socket.kind in ("udp", "group") and socket.local == dest:
                        self._tell(socket.owner, Datagram(socket.handle, data, source.local))
            case Connect():
                self._connect(stack, out)
            case Write(handle, data):
                found = self._find(stack, handle)
                if found is not None and found.peer is not None:
                    self._tell(found.peer.owner, Received(found.peer.handle, data))
            case Close(handle, abort):
                found = self._find(stack, handle)
                if found is not None:
                    self._close(found, reset=abort)

    def _bind(self, stack: FakeStack, out: Bind) -> None:
        ports = range(out.port, out.port + out.port_range + 1) if out.port else [self.next_port]
        self.next_port += 1
        for port in ports:
            local = (out.host, port)
            if not any(s.kind == out.kind and s.local == local for s in self.sockets):
                self.sockets.append(Socket(stack, out.handle, out.kind, local))
                self._tell(stack, Bound(out.handle, local))
                return
        self._tell(stack, BindFailed(out.handle, "address in use"))

    def _connect(self, stack: FakeStack, out: Connect) -> None:
        if out.dest[0] in self.silent:
            return
        for listener in self.sockets:
            if listener.kind == "tcp" and listener.local == out.dest:
                break
        else:
            self._tell(stack, ConnectFailed(out.handle, True, "refused"))
            return
        self.next_port += 1
        local = (out.host or stack.machine.host, self.next_port)
        here = Socket(stack, out.handle, "conn", local)
        there = Socket(listener.owner, self.next_accepted, "conn", listener.local, here)
        self.next_accepted -= 1
        here.peer = there
        self.sockets += [here, there]
        self._tell(listener.owner, Accepted(listener.handle, there.handle, local))
        self._tell(stack, Connected(out.handle, local))

    def _close(self, socket: Socket, *, reset: bool) -> None:
        self.sockets.remove(socket)
        peer = socket.peer
        if peer is not None and peer in self.sockets:
            self.sockets.remove(peer)
            self._tell(peer.owner, Closed(peer.handle, reset))

    def _find(self, stack: FakeStack, handle: int) -> Socket | None:
        return next((s for s in self.sockets if s.owner is stack and s.handle == handle), None)

    def _tell(self, stack: FakeStack, item: In) -> None:
        if stack in self.stacks:
            stack.handle(item)


@pytest.fixture
def network() -> Network:
    return Network()
