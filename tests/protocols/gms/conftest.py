"""A few GMSs on a network without loss: the test plays discovery and NAKACK2.

Only the numbers of NAKACK2 are played: delivered numbers of each sender, frozen senders, fetches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    Disconnect,
    Disconnected,
    Fetch,
    Fetched,
    FindMembers,
    FoundMember,
    Freeze,
    GetDigest,
    MembersFound,
    MergeDigest,
    MergeViews,
    Release,
    SetDigest,
    Suspect,
    Thaw,
    TransportReady,
    Unsuspect,
    ViewChange,
)
from jgroups_py.values.view import Digest, View
from jgroups_py.wire.headers import FragHeader, GmsHeader

sys.path.insert(0, str(Path(__file__).parent))  # gms_rounds.py


class Node:
    """One member: a GMS, and the numbers of its NAKACK2."""

    def __init__(self, net: Net, name: str, number: int, **config: Any) -> None:
        self.net = net
        self.name = name
        self.gms = GMS(**config)
        self.fake = FakeStack(
            self.gms,
            address=make_address(number),
            name=name,
            answers={GetDigest: self.digest},
            seed=number,
        )
        self.address = self.fake.address
        self.delivered: dict[Address, int] = {}
        self.frozen: set[Address] = set()
        self.held: list[Batch] | None = None
        """Multicasts that wait for the view; None: they are delivered at once."""
        self.dead = False
        self.deaf = False
        self.left = False
        self.views: list[View] = []
        self.fetches: list[Fetch] = []
        self.events: list[Any] = []

    def digest(self, query: GetDigest) -> Digest:
        members = self.delivered if query.members is None else query.members
        return Digest(
            {m: (self.delivered[m], self.delivered[m]) for m in members if m in self.delivered}
        )

    @property
    def view(self) -> tuple[str, ...] | None:
        """Names of the members of the view."""
        view = self.gms.view
        return None if view is None else tuple(self.net.name_of(m) for m in view)

    def traced(self, what: str) -> list[dict[str, Any]]:
        return [details for _, _, name, details in self.fake.traces if name == what]


class Net:
    """``lose``: messages for which it returns true (source, destination, batch) are lost."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.groups: list[set[str]] | None = None
        self.lose: Callable[[Node, Node, Batch], bool] = lambda src, dest, batch: False
        self.sent: list[tuple[str, str | None, Batch]] = []
        self.now = 0.0

    def name_of(self, address: Address) -> str:
        return next((n.name for n in self.nodes.values() if n.address == address), str(address))

    def node(self, address: Address | None) -> Node | None:
        return next((n for n in self.nodes.values() if n.address == address), None)

    def add(self, name: str, number: int = 0, **config: Any) -> Node:
        """Return a member that exists but has not connected. ``number``: the rank of its address."""
        node = Node(self, name, number or len(self.nodes) + 1, **config)
        node.fake.advance(self.now)
        self.nodes[name] = node
        return node

    def connect(self, name: str, number: int = 0, **config: Any) -> Node:
        node = self.nodes.get(name) or self.add(name, number, **config)
        node.fake.event_down(Connect("test"))
        node.fake.event_up(TransportReady(IpAddress("127.0.0.1", 1)))
        return node

    def group(self, names: str, **config: Any) -> list[Node]:
        """Members that joined one after the other."""
        nodes = []
        for name in names:
            nodes.append(self.connect(name, **config))
            self.run(0.3)
        assert nodes[0].view == tuple(names)
        return nodes

    def leave(self, name: str) -> None:
        self.nodes[name].fake.event_down(Disconnect())

    def suspect(self, at: str, *names: str, gone: bool = False) -> None:
        suspects = tuple(self.nodes[n].address for n in names)
        self.nodes[at].fake.event_up(Suspect(suspects, gone))

    def unsuspect(self, at: str, *names: str) -> None:
        self.nodes[at].fake.event_up(Unsuspect(tuple(self.nodes[n].address for n in names)))

    def merge(self, *at: str) -> None:
        """Let MERGE3 report the views of these members to each other."""
        views: dict[Address, Any] = {self.nodes[n].address: self.nodes[n].gms.view for n in at}
        for name in at:
            self.nodes[name].fake.event_up(MergeViews(views))

    def delivered(self, sender: str, **numbers: int) -> None:
        """Set the number of messages of ``sender`` that each member has delivered."""
        for name, number in numbers.items():
            self.nodes[name].delivered[self.nodes[sender].address] = number

    def reach(self, a: Node, b: Node) -> bool:
        if a.dead or b.dead or b.deaf or b.left:
            return False
        return self.groups is None or any(a.name in g and b.name in g for g in self.groups)

    # --- running

    def pump(self) -> None:
        """Carry messages until none is under way."""
        moved = True
        while moved:
            moved = False
            for node in list(self.nodes.values()):
                for event in node.fake.take_down_events():
                    self._event(node, event)
                    moved = True
                for event in node.fake.take_up_events():
                    node.events.append(event)
                    if isinstance(event, Disconnected):
                        node.left = True
                        node.fake.stack.close()
                    elif isinstance(event, ViewChange):
                        node.views.append(event.view)
                for batch in node.fake.take_down():
                    self._carry(node, batch)
                    moved = True

    def run(self, seconds: float) -> None:
        """Time passes in steps of 10 ms."""
        self.pump()
        for _ in range(round(seconds / 0.01)):
            self.now += 0.01
            for node in self.nodes.values():
                if not node.dead and not node.left:
                    node.fake.advance(self.now - node.fake.now)
            self.pump()

    def _carry(self, node: Node, batch: Batch) -> None:
        if node.dead:
            return
        dest = self.node(batch.dest)
        self.sent.append((node.name, None if dest is None else dest.name, batch))
        targets = (
            [n for n in self.nodes.values() if n is not node] if batch.dest is None else [dest]
        )
        for target in targets:
            if target is None or not self.reach(node, target) or self.lose(node, target, batch):
                continue
            if batch.dest is None and not self._hears(target, node):
                continue
            copy = Batch(
                batch.dest,
                batch.payloads,
                batch.headers,
                node.address,
                batch.flags,
                0,
                batch.type,
            )
            if batch.dest is None and target.held is not None:
                target.held.append(copy)
            else:
                target.fake.up(copy)

    @staticmethod
    def is_view(batch: Batch) -> bool:
        """A view on its way, as a multicast or to a member that holds multicasts back."""
        header = batch.header(AGREE_ID, FragHeader)
        return batch.dest is None or (header is not None and header.index == RoundKind.VIEW)

    def hand_over(self, to: Node) -> None:
        """Deliver the last view that was handed over to ``to``, late."""
        source, batch = next(
            (self.nodes[source], batch)
            for source, dest, batch in reversed(self.sent)
            if dest == to.name and self.is_view(batch)
        )
        batch.src = source.address
        to.fake.up(batch)

    def _hears(self, target: Node, source: Node) -> bool:
        """NAKACK2 accepts multicasts from members only, and none from frozen senders."""
        view = target.gms.view
        return view is not None and source.address in view and source.address not in target.frozen

    def _event(self, node: Node, event: Any) -> None:
        match event:
            case FindMembers(requester):
                self._discover(node, requester)
            case Freeze(departed):
                node.frozen.update(departed)
                node.held = node.held or []
            case Release():
                self._hand_out(node)
            case Thaw(members):
                node.frozen.difference_update(members)
            case Fetch():
                node.fetches.append(event)
                self._fetch(node, event)
            case SetDigest(digest) | MergeDigest(digest):
                for member, (delivered, _) in digest.seqnos.items():
                    if delivered > node.delivered.get(member, -1):
                        node.delivered[member] = delivered
            case ViewChange(view):
                node.frozen.clear()
                self._hand_out(node)
                node.delivered = {m: node.delivered.get(m, 0) for m in view}

    def _hand_out(self, node: Node) -> None:
        held, node.held = node.held or [], None
        for batch in held:
            node.fake.up(batch)

    def _fetch(self, node: Node, event: Fetch) -> None:
        for sender, (seqno, holder) in event.goals.items():
            source = self.node(holder)
            assert source is not None and source.delivered.get(sender, 0) >= seqno
            if not self.reach(source, node):
                return
            if sender in node.gms.view:  # NAKACK2 accepts nothing from other senders
                node.delivered[sender] = seqno
        node.fake.event_up(Fetched())

    def _discover(self, node: Node, requester: str) -> None:
        found = tuple(
            FoundMember(
                other.address,
                other.name,
                IpAddress("127.0.0.1", 1),
                other.gms.view is not None,
                other.gms.is_coordinator,
            )
            for other in self.nodes.values()
            if other is not node and self.reach(node, other) and self.reach(other, node)
        )
        node.fake.event_up(MembersFound(requester, found, alone=False))

    def payloads(self, kind: int) -> list[Any]:
        """Payloads of the messages of this kind."""
        return [
            batch.payloads[0]
            for _, _, batch in self.sent
            if (header := batch.header(GMS.protocol_id, GmsHeader)) and header.type == kind
        ]

    def gms_messages(self, kind: int) -> list[tuple[str, str | None]]:
        """Return senders and receivers of messages of this kind."""
        found = []
        for source, dest, batch in self.sent:
            header = batch.header(GMS.protocol_id, GmsHeader)
            if header is not None and header.type == kind:
                found.append((source, dest))
        return found


@pytest.fixture
def net() -> Net:
    return Net()
