"""Hostile bytes: decoders raise one type of exception, machines raise none, and memory is bounded."""

from __future__ import annotations

import random

import pytest
from relay_harness import Net

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.relay import wire as wire
from jgroups_py.protocols.relay.wire import CONTROL_HEADER, ID, SEQNO_MAX, SOURCE_ID
from jgroups_py.testing import make_address
from jgroups_py.values.address import SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.wire.headers import FragHeader, RelayHeader, RelayType, TpHeader

ORIGIN = bytes(16)
VIEW = (b"c" * 16, 3)
KNOWN = wire.Known(
    {ORIGIN: 1},
    {ORIGIN: 1},
    {"NYC": {ORIGIN: 2}},
    ["NYC"],
    {ORIGIN: 60},
    (0, "NYC"),
    {},
    7,
    {"NYC": {ORIGIN: (3, 9)}},
)
RECORDS: list[wire.Record] = [
    wire.CollectAsk(VIEW),
    wire.CollectAnswer(VIEW, KNOWN, {ORIGIN: [(1, 2), (4, 9)]}),
    wire.Fetch(VIEW, {ORIGIN: [(1, 2)]}),
    wire.Fetched(VIEW, {}),
    wire.Report(VIEW, 1, True, {"NYC": {ORIGIN: 5}}),
    wire.Snapshot(VIEW, KNOWN),
    wire.Need(VIEW),
    wire.StateMark(KNOWN),
    wire.Lack("NYC", {ORIGIN: 3}),
    wire.PromoteAsk(),
    wire.Trim(1, {ORIGIN: 3}, ["SFO"]),
    wire.Gap(1, "NYC", {ORIGIN: 3}, False),
    wire.Forget(1, "", [ORIGIN]),
    wire.Cut(1, (1, "SFO"), {ORIGIN: 1}),
    wire.Block(1, True),
    wire.Begun(1, [ORIGIN]),
]
BRIDGED: list[wire.Record] = [
    wire.Ask(1, "NYC", (0, "NYC"), [ORIGIN], {"NYC": {ORIGIN: 1}}),
    wire.Have(1, "NYC", (0, "NYC"), {ORIGIN: 1}),
    wire.Ack({ORIGIN: 1}),
    wire.BridgeGap({ORIGIN: 1}, True),
    wire.StillKnown([ORIGIN]),
    wire.Leaving(),
]


@pytest.mark.parametrize("record", RECORDS + BRIDGED, ids=lambda r: type(r).__name__)
def test_records_survive_the_wire(record: wire.Record) -> None:
    decode = wire.decode_bridged if record in BRIDGED else wire.decode_local
    assert decode(memoryview(wire.encode(record))) == record


def test_records_of_the_other_side_are_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        wire.decode_bridged(wire.encode(RECORDS[0]))
    with pytest.raises(RemoteProtocolError):
        wire.decode_local(wire.encode(BRIDGED[0]))


@pytest.mark.parametrize(
    "payload",
    [
        None,
        7,
        b"",
        b"\xc1",
        b"\x80",
        b"\x91\x63",
        b"\xdd\xff\xff\xff\xff",
        b"\x92\x2a\x81\xc4\x01a\x01",
        wire.encode(wire.Ack({ORIGIN: -1})),
        wire.encode(wire.Ack({ORIGIN: SEQNO_MAX + 1})),
        wire.encode(wire.Have(1, "x" * 300, (0, ""), {})),
        b"\x91" * 100_000,
    ],
)
def test_bytes_that_are_no_record_are_one_kind_of_error(payload: object) -> None:
    for decode in (wire.decode_local, wire.decode_bridged):
        with pytest.raises(RemoteProtocolError):
            decode(payload)


def mutated(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not out:
            break
        at = rng.randrange(len(out))
        choice = rng.randrange(4)
        if choice == 0:
            out[at] = rng.randrange(256)
        elif choice == 1:
            del out[at]
        elif choice == 2:
            out.insert(at, rng.randrange(256))
        else:
            del out[at:]
    return bytes(out)


def test_ten_thousand_mutated_records_raise_nothing_else() -> None:
    rng, refused = random.Random(1), 0
    good = [wire.encode(r) for r in RECORDS + BRIDGED]
    for _ in range(10_000):
        data = mutated(rng, rng.choice(good))
        for decode in (wire.decode_local, wire.decode_bridged):
            try:
                decode(data)
            except RemoteProtocolError:
                refused += 1
    assert 10_000 < refused < 20_000, "a record is of one side only; some changes leave a record"


def test_a_relay_survives_whatever_its_peers_send() -> None:
    """Records that decode but are wrong, headers that do not fit, runs with impossible numbers."""
    net = Net(NYC="ED", SFO="TS")
    net.settle(3)
    rng = random.Random(2)
    good = [wire.encode(r) for r in RECORDS]
    bridged = [wire.encode(r) for r in BRIDGED]
    relay = net.members["E"]
    stack = next(iter(relay.stack.children))
    (session,) = relay.relay.bridge.sessions.values()
    member = net.members["D"].id
    relay.deliver = lambda batch: None  # type: ignore[method-assign]
    sender = SiteUUID(ORIGIN, "SFO", "T")
    for _ in range(3000):
        header = rng.choice(
            [
                CONTROL_HEADER,
                FragHeader(rng.choice([0, 1, 5, SEQNO_MAX, -1]), rng.randrange(6), 0),
                TpHeader("x"),
            ]
        )
        sources: list[dict[int, Header]] = [
            {},
            {SOURCE_ID: RelayHeader(RelayType.DATA, original_sender=sender)},
            {SOURCE_ID: RelayHeader(RelayType.DATA)},
            {SOURCE_ID: TpHeader("x")},
        ]
        source = rng.choice(sources)
        local = rng.random() < 0.6
        payload = mutated(rng, rng.choice(good if local else bridged))
        if rng.random() < 0.5:
            payload = rng.choice(good if local else bridged)
        src = rng.choice([member, make_address(9), session.peer, None])
        dest = rng.choice([None, relay.id])
        batch = Batch(dest, [payload], {ID: header, **source}, src)
        relay.machine.enter(net.now)
        if local:
            relay.bottom.pass_up(batch)
        else:
            stack.protocols[0].pass_up(batch)
        relay.machine.leave()
        relay.relay.buffer.check()
    assert relay.relay.counters.malformed > 100
    assert len(relay.relay.joining.early) < 10


def test_numbers_do_not_wrap() -> None:
    from jgroups_py.errors import LocalProtocolError

    net = Net(NYC="ED")
    net.settle(2)
    net.members["E"].relay.stream.next = SEQNO_MAX
    net.members["E"].stack.send(Batch(None, [b"E#1"], {}))
    with pytest.raises(LocalProtocolError):
        net.members["E"].stack.send(Batch(None, [b"E#2"], {}))


def test_a_run_of_no_site_is_refused_from_a_peer_that_has_not_said_its_site() -> None:
    net = Net(NYC="ED", SFO="TS")
    net.settle(3)
    relay = net.members["E"]
    stack = next(iter(relay.stack.children))
    (session,) = relay.relay.bridge.sessions.values()
    session.site = ""
    source = RelayHeader(RelayType.DATA, original_sender=SiteUUID(ORIGIN, "", "T"))
    headers: dict[int, Header] = {ID: FragHeader(1, wire.MessageKind.RELAYED, 0), SOURCE_ID: source}
    before = relay.relay.counters.malformed
    relay.machine.enter(net.now)
    stack.protocols[0].pass_up(Batch(relay.id, [b"x"], headers, session.peer))
    relay.machine.leave()
    net.settle(2)
    assert relay.relay.counters.malformed == before + 1
    assert all(m.batches == [] for m in net.everybody)


@pytest.mark.parametrize("number", [0, -1, SEQNO_MAX + 1])
def test_a_multicast_whose_number_cannot_be_is_refused(number: int) -> None:
    net = Net(NYC="ED")
    net.settle(2)
    relay, origin = net.members["E"], net.members["D"].id
    before = relay.relay.counters.malformed
    relay.machine.enter(net.now)
    headers: dict[int, Header] = {ID: FragHeader(number, wire.MessageKind.DATA, 0)}
    relay.bottom.pass_up(Batch(None, [b"x"], headers, origin))
    relay.machine.leave()
    assert relay.relay.counters.malformed == before + 1
    assert relay.batches == [] and bytes(origin) not in relay.relay.state.delivered
