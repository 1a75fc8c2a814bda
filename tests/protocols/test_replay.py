"""Recorded conversations of two Java members; our stack replaces one of them.

The recorded messages of the Java member A are handed to our stack as B at the recorded times. Our answers must be those
of Java's B, except for messages that may differ (acknowledgements are sent on other ticks).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jgroups_py.protocols.flow.mfc import MFC
from jgroups_py.protocols.flow.ufc import UFC
from jgroups_py.protocols.frag2 import FRAG2
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.protocols.reliable.unicast3.protocol import UNICAST3
from jgroups_py.stack.protocol import Protocol
from jgroups_py.testing import FakeStack
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Consumed, SetDigest, ViewChange
from jgroups_py.values.view import Digest, View, ViewId
from jgroups_py.wire.headers import (
    FcHeader,
    FcType,
    FragHeader,
    GmsHeader,
    NakAckHeader2,
    NakAckType,
    UnicastHeader3,
    UnicastType,
)
from jgroups_py.wire.packet import decode_packet

VECTORS = Path(__file__).parent.parent / "wire" / "vectors"
A = UUID(bytes.fromhex("000000000000000100000000000000aa"))
B = UUID(bytes.fromhex("000000000000000200000000000000bb"))
MEMBERS = {"A": A, "B": B}


def events(name: str, until: float) -> list[dict[str, Any]]:
    conversation = json.loads((VECTORS / f"conversation_{name}.json").read_text())
    return [e for e in conversation["events"] if e["t"] < until]


class Gms(Protocol):
    """Stands in for GMS: it hands its messages no further up."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def up(self, batch: Batch) -> None:
        if batch.header(12, GmsHeader) is None:
            self.pass_up(batch)
        else:
            self.seen += 1


class Player:
    """One member of the conversation, played by our protocols."""

    def __init__(self, name: str, who: str, until: float, *protocols: Protocol) -> None:
        self.who = who
        self.events = events(name, until)
        self.until = until
        self.stack = FakeStack(*protocols, address=MEMBERS[who])
        self.said: list[Batch] = []
        self.heard: list[Batch] = []
        self.joined = False

    def join(self) -> None:
        self.joined = True
        self.stack.event_down(SetDigest(Digest({A: (0, 0), B: (0, 0)})))
        change = ViewChange(View(ViewId(A, 1), (A, B)), None)
        self.stack.event_down(change)
        self.stack.event_up(change)

    def play(self) -> None:
        for event in self.events:
            self.stack.advance(max(0.0, event["t"] - self.stack.now))
            if "action" in event:
                self.act(event["action"])
            elif event["kind"] == "packet" and event["from"] != self.who:
                for batch in decode_packet(bytes.fromhex(event["hex"])).batches:
                    self.take(batch)
            self.collect()
        self.stack.advance(self.until - self.stack.now)
        self.collect()

    def take(self, batch: Batch) -> None:
        if 57 in batch.headers or not {41, 48} & batch.headers.keys():
            return
        self.stack.up(batch)
        gms = batch.header(12, GmsHeader)
        if gms is not None and not self.joined:
            self.join()

    def collect(self) -> None:
        self.said += self.stack.take_down()
        for batch in self.stack.take_up():
            self.heard.append(batch)
            self.stack.event_down(Consumed(batch.credits))
            self.said += self.stack.take_down()

    def act(self, action: str) -> None:
        raise NotImplementedError

    def texts(self, multicast: bool) -> list[str]:
        """Payloads of application messages."""
        return [
            bytes(p).decode()
            for batch in self.heard
            if 12 not in batch.headers and (batch.dest is None) == multicast
            for p in batch.payloads
            if p is not None
        ]

    def control(self, kind: UnicastType | NakAckType) -> list[Any]:
        found: list[Any] = []
        for batch in self.said:
            header: Any = batch.headers.get(48 if isinstance(kind, UnicastType) else 41)
            if header is None or header.type != kind:
                continue
            if kind.name == "XMIT_REQ":
                found.append(list(batch.payloads[0].value))
            else:
                found.append(header.seqno)
        return found


class Receiver(Player):
    def act(self, action: str) -> None:
        if action == "B: u3 removeReceiveConnection A":
            unicast = self.stack.stack.find(UNICAST3)
            assert unicast is not None
            unicast.senders.forget(A)


def test_we_repair_losses_of_a_java_sender() -> None:
    player = Receiver(
        "udp_retransmit", "B", 17.2, NAKACK2(xmit_interval=0.5), UNICAST3(xmit_interval=0.5)
    )
    player.play()
    assert player.texts(multicast=True) == ["m1", "m2-lost", "m3", "m4-lost"]
    assert player.texts(multicast=False) == ["u1", "u2-lost", "u3", "u4-lost", "u5", "u6", "u7"]
    requests = player.control(NakAckType.XMIT_REQ)
    # Java asks at its ticks, we ask at once and again at our ticks: for the same seqnos.
    assert [r for i, r in enumerate(requests) if r not in requests[:i]] == [[3], [5]]
    requests = player.control(UnicastType.XMIT_REQ)
    assert [r for i, r in enumerate(requests) if r not in requests[:i]] == [[3]]
    assert len(player.control(UnicastType.SEND_FIRST_SEQNO)) == 1
    assert player.control(UnicastType.ACK)[-1] == 8


class Sender(Player):
    """Plays A: it sends and loses messages according to the actions."""

    def act(self, action: str) -> None:
        words = action.split()
        if words[1] == "mcast":
            self.stack.down(Batch(None, [words[2].encode()], {}))
        elif words[1] == "ucast":
            self.stack.down(Batch(B, [words[3].encode()], {}))

    def join(self) -> None:
        super().join()
        # The numbered messages of GMS count, too.
        self.stack.down(Batch(None, [b"view"], {}))
        self.stack.down(Batch(B, [b"join rsp"], {}))

    def retransmitted(self, protocol: int) -> list[tuple[int, str]]:
        """(seqno, text) of messages that were sent more than once, in order of the repetition."""
        seen: dict[int, None] = {}
        again = []
        for batch in self.said:
            header = batch.headers.get(protocol)
            if isinstance(header, NakAckHeader2 | UnicastHeader3) and header.type in (0, 1):
                if isinstance(header, UnicastHeader3) == (header.type == 0):
                    if header.seqno in seen:
                        again.append((header.seqno, bytes(batch.payloads[0]).decode()))
                    seen[header.seqno] = None
        return again


def test_we_repeat_missing_messages_of_a_java_receiver() -> None:
    player = Sender(
        "udp_retransmit", "A", 14.5, NAKACK2(xmit_interval=0.5), UNICAST3(xmit_interval=0.5)
    )
    player.play()
    assert player.retransmitted(41) == [(3, "m2-lost"), (5, "m4-lost")]
    again = player.retransmitted(48)
    assert (3, "u2-lost") in again
    assert (6, "u5") in again, "the answer to SEND_FIRST_SEQNO"
    unicast = player.stack.stack.find(UNICAST3)
    assert unicast is not None
    assert unicast.statistics()["unacked"] == 0
    assert unicast.statistics()["stale_acks"] == 0


def fragmenting() -> tuple[Protocol, ...]:
    return (
        NAKACK2(xmit_interval=0.5),
        UNICAST3(xmit_interval=0.5),
        Gms(),
        MFC(max_credits=20_000),
        UFC(max_credits=20_000),
        FRAG2(frag_size=1000),
    )


def test_we_assemble_and_replenish_as_java_does() -> None:
    player = Receiver("udp_frag_fc", "B", 3.7, *fragmenting())
    player.play()
    big = [b for b in player.heard if 12 not in b.headers]
    assert [len(b.payloads[0]) for b in big if b.type == 0] == [2500] * 14
    assert len(big) == 15, "and one object"
    replenished = [
        (protocol, batch.payloads[0], batch.flags)
        for batch in player.said
        for protocol in (30, 31)
        if batch.headers.get(protocol) == FcHeader(FcType.REPLENISH)
    ]
    # Java gave 14,016 and 12,500 bytes back: it counts whole batches where we count fragments.
    assert replenished == [(30, 12516, 3), (31, 12000, 3)]


class Cutter(Sender):
    def act(self, action: str) -> None:
        words = action.split()
        if words[1] == "big":
            self.stack.down(Batch(None, [bytes(int(words[2]))], {}))
        elif words[1] == "ubig":
            self.stack.down(Batch(B, [bytes(int(words[3]))], {}))


def test_we_cut_as_java_does() -> None:
    player = Cutter("udp_frag_fc", "A", 3.9, *fragmenting())
    player.play()
    theirs = [
        (batch.dest is None, header.index, header.count, len(payload))
        for event in player.events
        if event.get("kind") == "packet" and event["from"] == "A"
        for run in decode_packet(bytes.fromhex(event["hex"])).batches
        for i in range(len(run))
        for batch in [run.slice(i, i + 1)]
        for header in [batch.headers.get(4)]
        for payload in batch.payloads
        if isinstance(header, FragHeader) and not header.needs_deserialization
    ]
    ours = [
        (batch.dest is None, header.index, header.count, len(batch.payloads[0]))
        for batch in player.said
        for header in [batch.headers.get(4)]
        if isinstance(header, FragHeader)
    ]
    assert ours == theirs
    mfc = player.stack.stack.find(MFC)
    assert mfc is not None
    assert mfc.statistics()["replenishments_received"] == 1
