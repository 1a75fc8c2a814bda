"""With prove_joiners a coordinator admits a joiner after its answer."""

from __future__ import annotations

from random import Random

from jgroups_py.protocols.discovery.ping import PING
from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.protocols.membership.gms.strangers import Strangers
from jgroups_py.protocols.transport.udp import UDP
from jgroups_py.stack.ports import Bound, Datagram
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    CanProveReach,
    Connect,
    GetView,
    MembersFound,
    ProveReach,
    Reached,
    TransportReady,
    ViewChange,
)
from jgroups_py.values.header import Header
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import PROTOCOL_IDS, GmsHeader, GmsType, PingHeader, PingType
from jgroups_py.wire.packing import encode_packets

A, B, C = (make_address(n) for n in range(1, 4))
READY = TransportReady(IpAddress("10.0.0.1", 7000))


def coordinator(*, prove: bool = True, can: bool = True, most: int = 1000) -> FakeStack:
    """A, alone in its group."""
    fake = FakeStack(GMS(prove_joiners=prove, max_waiting=most), address=A)
    fake.answers[CanProveReach] = lambda query: can
    fake.stack.connect("test")
    fake.event_up(READY)
    fake.event_up(MembersFound("GMS", (), alone=True))
    assert members(fake) == (A,)
    fake.take_down_events()
    return fake


def members(fake: FakeStack) -> tuple[Address, ...]:
    view = fake.stack.ask(GetView())
    return () if view is None else tuple(view.members)


def asks_to_join(fake: FakeStack, joiner: Address) -> list[ProveReach]:
    fake.up(Batch(A, (None,), {PROTOCOL_IDS["GMS"]: GmsHeader(GmsType.JOIN_REQ, joiner)}, joiner))
    return questions(fake)


def questions(fake: FakeStack) -> list[ProveReach]:
    return [event for event in fake.take_down_events() if isinstance(event, ProveReach)]


def unproved(fake: FakeStack) -> int:
    return int(fake.protocol.statistics()["turned_away_unproved"])


def test_a_joiner_that_answers_is_let_in() -> None:
    fake = coordinator()
    (question,) = asks_to_join(fake, B)
    fake.advance(0.1)
    assert members(fake) == (A,)
    fake.event_up(Reached(B, question.nonce))
    fake.advance(0.2)
    assert members(fake) == (A, B) and unproved(fake) == 0


def test_a_joiner_that_does_not_answer_is_asked_again_and_turned_away() -> None:
    fake = coordinator()
    (question,) = asks_to_join(fake, B)
    assert asks_to_join(fake, B) == [], "a further request asks nothing more"
    fake.advance(1.9)
    again = questions(fake)
    assert len(again) == 3 and {q.nonce for q in again} == {question.nonce}
    fake.advance(2.1)
    assert members(fake) == (A,) and unproved(fake) == 1
    fake.event_up(Reached(B, question.nonce))
    fake.advance(2.5)
    assert members(fake) == (A,), "the answer came too late"


def test_another_joiners_number_proves_nothing() -> None:
    fake = coordinator()
    (of_b,), (of_c,) = asks_to_join(fake, B), asks_to_join(fake, C)
    fake.event_up(Reached(B, of_c.nonce))
    fake.event_up(Reached(C, of_b.nonce))
    fake.advance(0.5)
    assert members(fake) == (A,)


def test_joiners_that_do_not_answer_have_limited_room() -> None:
    fake = coordinator(most=3)
    ghosts = [UUID.make(Random(n)) for n in range(10)]
    for ghost in ghosts:
        asks_to_join(fake, ghost)
    assert unproved(fake) == 7
    (question,) = asks_to_join(fake, B)
    fake.event_up(Reached(B, question.nonce))
    fake.advance(0.5)
    assert members(fake) == (A, B)


def test_without_the_attribute_or_a_discovery_nobody_is_asked() -> None:
    for fake in (coordinator(prove=False), coordinator(can=False)):
        assert asks_to_join(fake, B) == []
        fake.advance(0.5)
        assert members(fake) == (A, B)


def test_a_nonce_is_no_address_of_ours_that_can_be_guessed() -> None:
    strangers = Strangers(10, Random(1).randbytes)
    for joiner in (B, C):
        strangers.doubt(joiner, 0.0)
    nonces = {nonce for _, nonce, _ in strangers.to_ask(0.0)}
    assert len(nonces) == 2 and not nonces & {A, B, C}


def test_discovery_asks_in_the_name_of_the_nonce_and_tells_the_answer() -> None:
    fake = FakeStack(PING(), address=A)
    nonce = UUID(bytes(range(16)))
    fake.event_up(READY)
    fake.event_down(ProveReach(B, nonce, 2.0))
    (request,) = fake.take_down()
    assert (request.dest, request.src) == (B, nonce)
    fake.take_up_events()
    for dest in (A, nonce):
        headers: dict[int, Header] = {PROTOCOL_IDS["PING"]: PingHeader(PingType.GET_MBRS_RSP)}
        fake.up(Batch(dest, (b"",), headers, B))
    assert fake.take_up_events() == [Reached(B, nonce)]


def test_the_transport_takes_packets_for_a_nonce_until_its_time_is_over() -> None:
    fake = FakeStack(UDP(ip_mcast=False), address=A)
    fake.event_down(Connect("test", False))
    fake.handle(Bound(1, ("10.0.0.1", 7000)))
    fake.event_down(ViewChange(View(ViewId(A, 1), (A,)), None))
    nonce = UUID(bytes(range(16)))
    (packet,) = encode_packets([Batch(nonce, (b"x",), {}, B)], "test")
    came = []
    for begin in (False, True):
        if begin:
            fake.event_down(ProveReach(B, nonce, fake.now + 2.0))
        fake.handle(Datagram(1, packet, ("10.0.0.2", 7001)))
        came.append(len(fake.take_up()))
    fake.advance(2.5)
    fake.handle(Datagram(1, packet, ("10.0.0.2", 7001)))
    assert [*came, len(fake.take_up())] == [0, 1, 0]
