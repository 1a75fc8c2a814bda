"""A one-protocol stack for tests of the channel: no reliability, no wire format, only a view.

Every member sends to one multicast group; the view has all members heard so far, sorted. Tests play
flow control, state and expulsion by hand through the attributes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jgroups_py.stack.ports import Bind, BindFailed, Bound, Datagram, In, JoinGroup, SendTo
from jgroups_py.stack.protocol import Protocol
from jgroups_py.values.address import UUID, IpAddress
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Disconnect,
    Disconnected,
    Event,
    Failed,
    GetPhysical,
    GetState,
    Query,
    StateReady,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.view import View, ViewId

GROUP = ("239.255.99.1", 45123)


class TOY(Protocol):
    """Hello (h), bye (b), data (d), state request (r), state (s): one letter, 16 bytes, rest."""

    provides = ("transport", "views")

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        bind_addr: str | None = None
        bind_port: int = 0
        mcast_port: int = GROUP[1]

    def start(self) -> None:
        self.members: dict[UUID, str] = {}
        self.view_number = 0
        self.view: View | None = None
        self.consumed = 0
        self.credited = False
        self.answers: dict[int, UUID] = {}
        self.group = (GROUP[0], self.config.mcast_port)

    def event_down(self, event: Event) -> None:
        match event:
            case Connect():
                host = self.config.bind_addr or self.machine.host
                self.socket, self.ear = self.new_handle(), self.new_handle()
                self.open_port(Bind(self.socket, "udp", host, self.config.bind_port))
                self.open_port(JoinGroup(self.ear, self.group, host))
            case Disconnect():
                self.say(b"b", b"")
                self.pass_event_up(Disconnected())
            case Consumed(credits):
                self.consumed += sum(credit.amount for credit in credits)
            case GetState(provider):
                to = provider or self.view.coordinator  # type: ignore[union-attr]
                self.say(b"r", to)
            case StateReady(token, state, _):
                self.say(b"s", self.answers.pop(token) + (state or b""))

    def down(self, batch: Batch) -> None:
        for payload in batch.payloads:
            self.say(b"d", (batch.dest or bytes(16)) + payload)

    def say(self, kind: bytes, rest: bytes) -> None:
        self.put(SendTo(self.socket, kind + self.local_address + rest, self.group))

    def on_input(self, item: In) -> None:
        match item:
            case BindFailed(_, problem):
                self.pass_event_up(Failed(problem))
            case Bound(handle, local) if handle == self.ear:
                self.members[self.local_address] = self.stack.name
                self.install()
                self.say(b"h", self.stack.name.encode())
            case Bound(_, local):
                self.local = local
            case Datagram(_, data, _):
                self.hear(data[:1], UUID(data[1:17]), data[17:])

    def hear(self, kind: bytes, sender: UUID, rest: bytes) -> None:
        match kind:
            case b"h" if sender not in self.members:
                self.members[sender] = rest.decode()
                self.stack.names[sender] = rest.decode()
                self.say(b"h", self.stack.name.encode())
                self.install()
            case b"b" if sender != self.local_address and sender in self.members:
                del self.members[sender]
                self.install()
            case b"d" if rest[:16] in (bytes(16), self.local_address):
                dest = None if rest[:16] == bytes(16) else self.local_address
                self.pass_up(self.batch(sender, dest, rest[16:]))
            case b"r" if rest == self.local_address:
                token = len(self.answers) + 1
                self.answers[token] = sender
                self.pass_event_up(StateRequested(sender, token))
            case b"s" if rest[:16] == self.local_address:
                self.pass_event_up(StateReceived(sender, rest[16:]))

    def batch(self, sender: UUID, dest: UUID | None, payload: bytes) -> Batch:
        credits: tuple[Credit, ...] = ()
        if self.credited:
            credits = (Credit(sender, dest is None, len(payload)),)
        return Batch(dest, (payload,), {}, sender, credits=credits)

    def install(self) -> None:
        order = sorted(self.members, key=lambda m: self.members[m])
        self.view_number += 1
        old, self.view = self.view, View(ViewId(order[0], self.view_number), tuple(order))
        self.pass_event_up(ViewChange(self.view, old))

    def answer(self, query: Query) -> Any:
        if isinstance(query, GetPhysical) and query.member is None:
            return IpAddress(*self.local)
        return None
