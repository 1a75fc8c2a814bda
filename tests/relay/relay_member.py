"""A member of a site of RELAY machines: its RELAY between a fake of the lower protocols and an application that keeps
its messages."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from jgroups_py.protocols.relay.protocol import RELAY
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.stack import Stack
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import (
    Connect,
    Consumed,
    Disconnect,
    Disconnected,
    Event,
    GetDigest,
    Query,
)
from jgroups_py.values.view import Digest, View


class Violation(AssertionError):
    """The oracle found a forbidden state."""


class Bottom(Protocol):
    """Everything below RELAY, for one member."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member

    def down(self, batch: Batch) -> None:
        assert batch.src == self.local_address
        self.member.net.sent(self.member, batch)

    def event_down(self, event: Event) -> None:
        if isinstance(event, Disconnect):
            if not self.member.asked_to_leave:
                raise Violation(f"{self.member} leaves and nobody has told it to")
            self.member.wants_to_leave = True
        elif isinstance(event, Consumed):
            self.member.paid(event)

    def answer(self, query: Query) -> Any:
        if isinstance(query, GetDigest):
            positions = self.member.positions
            net = self.member.net
            return Digest(
                {
                    m: (positions.get(net.by_address[m], 0),) * 2
                    for m in query.members or ()
                    if m in net.by_address
                }
            )
        return None


class BridgeBottom(Protocol):
    """Everything of the bridge stack."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member

    def down(self, batch: Batch) -> None:
        assert batch.dest is not None, "RELAY multicasts nothing on the bridge"
        batch.src = self.local_address
        self.member.net.sent_over_bridge(self.member, self.stack, batch)

    def event_down(self, event: Event) -> None:
        net = self.member.net
        if isinstance(event, Connect):
            net.join_bridge(self.stack)
        elif isinstance(event, Disconnect):
            net.leave_bridge(self.stack)
            self.pass_event_up(Disconnected())
        elif isinstance(event, Consumed):
            self.member.paid(event)


class Member:
    """One incarnation of a member, with the messages of its application."""

    def __init__(self, net: Any, name: str, site: str, config: dict[str, Any]) -> None:
        self.net = net
        """The ``relay_harness.Net`` to which it belongs."""
        self.name = name
        self.site = site
        self.alive = True
        self.view: View | None = None
        self.pending: View | None = None
        self.positions: dict[Member, int] = {}
        self.reach: dict[Member, int] = {}
        self.targets: dict[Member, int] = {}
        self.frozen: list[Member] = []
        self.log: list[Batch] = []
        self.sent = 0
        self.asked_to_leave = False
        self.wants_to_leave = False
        self.got: dict[str, list[int]] = {}
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.traces: list[tuple[str, dict[str, Any]]] = []
        self.born = net.steps
        self.obliged_from: dict[str, int] = {}
        """Origin -> messages sent before this member had its first view."""
        self.digests_at: dict[int, dict[Member, int]] = {}
        self.owed: dict[int, Batch] = {}
        """Messages that were handed up here and have not given their credit back yet, by number."""
        self.machine = Machine(
            name, random=random.Random(f"{net.seed}/{name}"), now=net.now, trace=self._on_trace
        )
        self.relay: RELAY = net.relay_class(site=site, bridge="bridge", **config)
        self.bottom = Bottom(self)
        self.stack = Stack(self.machine, [self.bottom, self.relay], self)
        self.stack.open_child = self._open_child  # type: ignore[method-assign]
        self._disconnect, self.stack.disconnect = self.stack.disconnect, self._leave  # type: ignore[method-assign]
        self.stack.cluster = site
        self.id = self.stack.address

    def _leave(self) -> None:
        self.asked_to_leave = True
        self._disconnect()

    def _open_child(self, stack: str, cluster: str, owner: Any, **options: Any) -> Stack:
        child = Stack(
            self.machine,
            [BridgeBottom(self)],
            owner,
            name=options["name"],
            parent=self.stack,
        )
        return child

    def _on_trace(self, at: float, member: str, by: str, what: str, more: dict[str, Any]) -> None:
        self.traces.append((what, more))
        self.net.on_trace(self, what, more)

    def __repr__(self) -> str:
        return self.name

    # flow control

    def owing(self, batch: Batch) -> Batch:
        """The batch as it is handed up, with its own credit."""
        assert batch.src is not None
        self.net.credits += 1
        self.owed[self.net.credits] = batch
        credit = Credit(batch.src, batch.dest is None, self.net.credits)
        return replace(batch, credits=(credit,))

    def paid(self, event: Consumed) -> None:
        for credit in event.credits:
            if self.owed.pop(credit.amount, None) is None:
                raise Violation(f"{self} gives a credit back twice")

    # the application

    def deliver(self, batch: Batch) -> None:
        assert batch.src is not None
        self.batches.append(batch)
        for payload in batch.payloads:
            text = bytes(payload).decode()
            origin, _, number = text.partition("#")
            numbers = self.got.setdefault(origin, [])
            self.net.oracle.delivered(self, origin, int(number), numbers)
            numbers.append(int(number))
        self.stack.consumed(batch)

    def notify(self, event: Event) -> None:
        self.events.append(event)
