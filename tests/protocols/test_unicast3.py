"""UNICAST3 between a fake above and a fake below."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.reliable.unicast3.protocol import UNICAST3
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowBlocked, FlowOpened, ViewChange
from jgroups_py.values.message import Flag, MessageType
from jgroups_py.values.payloads import SeqnoList, Streamable
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import UnicastHeader3, UnicastType

A, B, C, D = (make_address(n) for n in range(1, 5))
ID = 48
DATA, ACK = UnicastType.DATA, UnicastType.ACK


def data(
    first: int,
    last: int | None = None,
    *,
    conn: int = 0,
    start: bool = False,
    flags: int = 0,
    src: Address = B,
) -> Batch:
    payloads = [b"%d" % n for n in range(first, (last or first) + 1)]
    return Batch(A, payloads, {ID: UnicastHeader3(DATA, first, conn, start)}, src, flags)


def control(kind: UnicastType, src: Address = B, **fields: Any) -> Batch:
    batch = Batch.of(A, ID, UnicastHeader3(kind, **fields), flags=5)
    batch.src = src
    return batch


def ack(seqno: int, timestamp: int, conn: int = 0, src: Address = B) -> Batch:
    return control(ACK, src, seqno=seqno, conn_id=conn, timestamp=timestamp)


def request(*seqnos: int, src: Address = B) -> Batch:
    batch = Batch.of(
        A,
        ID,
        UnicastHeader3(UnicastType.XMIT_REQ),
        payload=Streamable(15, SeqnoList.of(seqnos)),
        type=MessageType.OBJECT,
    )
    batch.src = src
    return batch


def members(number: int, *of: Address, old: View | None = None) -> ViewChange:
    return ViewChange(View(ViewId(of[0], number), of), old)


def fake(**config: Any) -> FakeStack:
    stack = FakeStack(UNICAST3(**config), address=A)
    stack.event_down(members(1, A, B, C))
    return stack


def receiving(**config: Any) -> FakeStack:
    """B's connection 0 to us exists, message 1 was delivered."""
    stack = fake(**config)
    stack.up(data(1, start=True))
    stack.take_up()
    return stack


def sending(count: int = 1, **config: Any) -> FakeStack:
    """We have sent B messages 1..count."""
    stack = fake(**config)
    stack.down(Batch(B, [b"%d" % n for n in range(1, count + 1)], {}))
    stack.take_down()
    return stack


def got(stack: FakeStack, src: Address = B) -> list[int]:
    return [int(p) for batch in stack.take_up() if batch.src == src for p in batch.payloads]


def sent(stack: FakeStack, kind: UnicastType) -> list[Any]:
    out: list[Any] = []
    for batch in stack.take_down():
        header = batch.header(ID, UnicastHeader3)
        if header is None or header.type != kind:
            continue
        if kind == DATA:
            out.append((header.seqno, len(batch), header.first))
        elif kind == UnicastType.XMIT_REQ:
            out.append(list(batch.payloads[0].value))
        else:
            out.append((batch.dest, header.seqno, header.conn_id, header.timestamp))
    return out


def count(stack: FakeStack, name: str) -> float:
    return stack.protocol.statistics()[name]


# --- sending


def test_the_first_message_is_a_run_of_its_own_and_marked() -> None:
    stack = fake()
    stack.down(Batch(B, [b"1", b"2", b"3"], {}))
    stack.down(Batch(B, [b"4", b"5"], {}))
    assert sent(stack, DATA) == [(1, 1, True), (2, 2, False), (4, 2, False)]


def test_each_destination_has_its_own_connection() -> None:
    stack = fake()
    for dest in (B, C, B):
        stack.down(Batch(dest, [b"x"], {}))
    headers = [batch.headers[ID] for batch in stack.take_down()]
    assert headers == [
        UnicastHeader3(DATA, 1, 0, True),
        UnicastHeader3(DATA, 1, 1, True),
        UnicastHeader3(DATA, 2, 0, False),
    ]


def test_messages_without_reliability_pass_by() -> None:
    stack = fake()
    stack.down(Batch(None, [b"x"], {}))
    stack.down(Batch(A, [b"x"], {}))
    stack.down(Batch(B, [b"x"], {}, flags=Flag.NO_RELIABILITY))
    stack.down(Batch(IpAddress("127.0.0.1", 7800), [b"x"], {}))
    assert [batch.headers for batch in stack.take_down()] == [{}] * 4
    stack.up(Batch(None, [b"y"], {}, B))
    assert len(stack.take_up()) == 1


def test_an_ack_is_cumulative_and_frees_covered_messages() -> None:
    stack = fake()
    for _ in range(4):
        stack.down(Batch(B, [b"x"], {}))
    stack.up(ack(3, 1))
    assert count(stack, "unacked") == 1
    stack.up(ack(4, 2))
    assert count(stack, "unacked") == 0


@pytest.mark.parametrize(
    "stale", [ack(2, 1), ack(2, 2), ack(2, 9, conn=1), ack(7, 9), ack(2, 9, src=C)]
)
def test_an_ack_that_is_old_or_for_something_else_is_ignored(stale: Batch) -> None:
    stack = sending(3)
    stack.up(ack(1, 2))
    stack.up(stale)
    assert count(stack, "unacked") == 2
    assert count(stack, "stale_acks") == 1


def test_the_last_message_is_sent_again_at_growing_intervals_until_it_is_acked() -> None:
    stack = sending(3, xmit_interval=0.5)
    times = []
    for _ in range(160):
        stack.advance(0.125)
        if sent(stack, DATA) == [(3, 1, False)]:
            times.append(stack.now)
    assert times == [0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    stack.up(ack(3, 1))
    stack.advance(100)
    assert sent(stack, DATA) == []


def test_messages_are_not_sent_again_while_acks_come() -> None:
    stack = fake(xmit_interval=0.5)
    for seqno in range(1, 20):
        stack.down(Batch(B, [b"x"], {}))
        stack.advance(0.3)
        stack.up(ack(seqno, seqno))
    assert len(sent(stack, DATA)) == 19


def test_a_request_is_answered_with_the_messages_asked_for() -> None:
    stack = sending(6)
    stack.up(request(1, 3, 4, 9))
    assert sent(stack, DATA) == [(1, 1, True), (3, 2, False)]
    assert count(stack, "not_found") == 1


def test_one_asker_gets_no_more_than_its_share() -> None:
    stack = fake(max_xmit_bytes=10)
    for _ in range(4):
        stack.down(Batch(B, [bytes(8)], {}))
    stack.take_down()
    stack.up(request(1, 2, 3, 4))
    assert len(sent(stack, DATA)) == 2
    assert count(stack, "limited") == 1


def test_the_oldest_unacked_message_begins_the_connection_again() -> None:
    stack = sending(5)
    stack.up(ack(2, 1))
    stack.up(control(UnicastType.SEND_FIRST_SEQNO, timestamp=2))
    assert sent(stack, DATA) == [(3, 1, True)]
    stack.up(control(UnicastType.SEND_FIRST_SEQNO, timestamp=2))
    assert sent(stack, DATA) == []


def test_a_sender_that_is_far_ahead_of_the_acks_is_asked_to_wait() -> None:
    stack = fake(max_unacked=2400)
    for _ in range(6):
        stack.down(Batch(B, [b"x"], {}))
    assert stack.take_up_events() == [
        FlowBlocked("UNICAST3", B, (B,), "acknowledgement"),
    ]
    stack.up(ack(4, 1))
    assert stack.take_up_events() == [FlowOpened("UNICAST3", B)]


# --- receiving


def test_messages_are_delivered_in_order_once() -> None:
    stack = receiving()
    for first, last in [(5, 6), (2, 2), (1, 3), (4, 4), (5, 7)]:
        stack.up(data(first, last))
    assert got(stack) == [2, 3, 4, 5, 6, 7]


def test_a_run_in_order_is_passed_on_as_it_is() -> None:
    stack = receiving()
    run = data(2, 50)
    stack.up(run)
    assert stack.take_up() == [run]


def test_an_oob_message_is_delivered_at_once_and_never_again() -> None:
    stack = receiving()
    stack.up(data(3, flags=Flag.OOB))
    assert got(stack) == [3]
    stack.up(data(3, flags=Flag.OOB))
    stack.up(data(2))
    assert got(stack) == [2]


def test_an_ack_goes_out_with_the_interval_or_with_the_threshold() -> None:
    stack = receiving(xmit_interval=0.5, ack_threshold=100)
    stack.up(data(2, 60))
    assert sent(stack, ACK) == []
    stack.advance(0.25)
    assert sent(stack, ACK) == [(B, 60, 0, 1)]
    stack.up(data(61, 110))
    stack.up(data(111, 160))
    assert sent(stack, ACK) == [(B, 160, 0, 2)]
    stack.advance(5)
    assert sent(stack, ACK) == []


def test_the_ack_of_the_threshold_leaves_after_the_answers_to_its_messages() -> None:
    """A caller that waits for its answer does not wait for the ack to be made and read."""
    stack = receiving(ack_threshold=3)
    machine = stack.machine
    machine.enter()
    stack.protocol.up(data(2, 5))
    machine.leave()
    assert got(stack) == [2, 3, 4, 5]
    assert sent(stack, ACK) == [], "the answers leave first"
    machine.do_rest()
    assert sent(stack, ACK) == [(B, 5, 0, 1)]


def test_no_ack_leaves_a_stack_that_was_closed_in_the_same_turn() -> None:
    stack = receiving(ack_threshold=3)
    stack.machine.enter()
    stack.protocol.up(data(2, 5))
    stack.machine.leave()
    stack.stack.close()
    stack.machine.do_rest()
    assert sent(stack, ACK) == []


def test_the_ack_of_a_single_message_comes_before_it_would_be_sent_again() -> None:
    """Writes of a cache, and most requests, are one message followed by silence."""
    sender, receiver = sending(1, xmit_interval=0.5), receiving(xmit_interval=0.5)
    receiver.up(data(2))
    receiver.advance(0.5 - 0.001)  # as long as the sender waits, apart from the round trip
    ((_, seqno, conn, timestamp),) = sent(receiver, ACK)
    sender.take_down()
    sender.advance(0.5 - 0.001)
    sender.up(ack(seqno - 1, timestamp, conn))
    sender.advance(0.5)
    assert sent(sender, DATA) == []


def test_messages_beyond_a_gap_are_not_acked() -> None:
    stack = receiving(xmit_interval=0.5, ack_threshold=3)
    stack.up(data(4, 9))
    assert sent(stack, ACK) == [(B, 1, 0, 1)]


def test_duplicates_are_acked_again() -> None:
    stack = receiving()
    stack.advance(1)
    stack.take_down()
    stack.up(data(1, start=True))
    stack.advance(1)
    assert sent(stack, ACK) == [(B, 1, 0, 2)]


def test_a_gap_is_asked_for_after_a_short_delay_and_then_with_back_off() -> None:
    stack = receiving(xmit_interval=0.5)
    stack.up(data(4))
    stack.advance(0.02)
    assert sent(stack, UnicastType.XMIT_REQ) == [[2, 3]]
    stack.advance(0.49)
    assert sent(stack, UnicastType.XMIT_REQ) == []
    stack.advance(0.02)
    assert sent(stack, UnicastType.XMIT_REQ) == [[2, 3]]


def test_a_connection_we_do_not_know_is_asked_for_its_first_message() -> None:
    stack = fake()
    stack.up(data(7))
    stack.up(data(8, 9))
    assert sent(stack, UnicastType.SEND_FIRST_SEQNO) == [(B, 0, 0, 1)]
    assert got(stack) == []
    stack.up(data(6, start=True))
    assert got(stack) == [6, 7, 8, 9]


def test_a_sender_without_connection_is_not_asked_more_often_than_the_interval_allows() -> None:
    stack = fake(sync_min_interval=2.0)
    for _ in range(5):
        stack.up(data(7))
        stack.advance(0.5)
    assert len(sent(stack, UnicastType.SEND_FIRST_SEQNO)) == 2


def test_messages_that_wait_for_their_connection_are_limited() -> None:
    stack = fake(max_cached=2, max_strangers=2)
    for seqno in range(2, 7):
        stack.up(data(seqno))
    assert count(stack, "unknown_dropped") == 3
    stack.up(data(2, src=C))
    stack.up(data(2, src=D))
    assert count(stack, "strangers_dropped") == 1


def test_a_new_connection_replaces_the_old_one() -> None:
    stack = receiving()
    stack.up(data(2, 4))
    stack.up(data(1, conn=1, start=True))
    stack.up(data(2, conn=1))
    assert got(stack) == [2, 3, 4, 1, 2]


def test_messages_of_an_older_connection_are_ignored() -> None:
    stack = fake()
    stack.up(data(1, conn=5, start=True))
    stack.up(data(1, conn=4, start=True))
    stack.up(data(2, conn=32767))
    assert got(stack) == [1]
    assert sent(stack, UnicastType.SEND_FIRST_SEQNO) == []
    stack.up(data(2, conn=5))
    assert got(stack) == [2]


def test_connection_numbers_go_round() -> None:
    stack = fake()
    stack.up(data(1, conn=32767, start=True))
    stack.up(data(1, conn=0, start=True))
    assert got(stack) == [1, 1]


def test_a_seqno_beyond_the_window_is_dropped() -> None:
    stack = receiving(max_window=10)
    stack.up(data(12))
    assert count(stack, "window_dropped") == 1
    stack.up(data(11))
    assert count(stack, "pending") == 1


def test_messages_that_were_too_far_off_are_asked_for_although_only_the_last_is_sent_again() -> (
    None
):
    """Message 2 was lost, 12 to 30 were dropped; the sender repeats only 30 (all 1393)."""
    stack = receiving(max_window=10)
    stack.up(data(3, 11))
    stack.up(data(12, 30))
    stack.advance(0.02)
    assert sent(stack, UnicastType.XMIT_REQ) == [[2]]
    stack.up(data(2))
    assert got(stack) == list(range(2, 12))
    for first, last in ((12, 21), (22, 30)):
        stack.up(data(30))
        stack.advance(0.02)
        missing = [n for n in range(first, last + 1) if last < 30 or n < 30]
        assert sent(stack, UnicastType.XMIT_REQ) == [missing]
        for seqno in missing:
            stack.up(data(seqno))
        assert got(stack) == list(range(first, last + 1))


def test_bytes_beyond_a_gap_are_asked_for_when_the_gap_has_closed() -> None:
    stack = receiving(max_window_bytes=1000)
    for seqno in (3, 4, 5, 2):
        stack.up(data(seqno))
    assert got(stack) == [2, 3, 4]
    stack.advance(0.02)
    assert sent(stack, UnicastType.XMIT_REQ) == [[5]]


def test_bytes_beyond_a_gap_are_limited_and_the_gap_can_always_be_closed() -> None:
    stack = receiving(max_window_bytes=1000)
    for seqno in (3, 4, 5, 2, 5):
        stack.up(data(seqno))
    assert count(stack, "window_dropped") == 1
    assert got(stack) == [2, 3, 4, 5]


def test_rubbish_is_counted_and_dropped() -> None:
    stack = receiving()
    stack.up(data(0))
    stack.up(data(0, conn=7, start=True))
    bad = request(1)
    bad.payloads = (None,)
    stack.up(bad)
    stack.up(Batch(None, [b"x"], {ID: UnicastHeader3(DATA, 2)}, B))
    assert count(stack, "bad") == 4
    assert got(stack) == []


# --- the end of connections


def test_close_makes_us_forget_that_connection_and_no_other() -> None:
    stack = receiving()
    stack.up(control(UnicastType.CLOSE, conn_id=1))
    assert count(stack, "connections_in") == 1
    stack.up(control(UnicastType.CLOSE, conn_id=0))
    assert count(stack, "connections_in") == 0


def test_an_idle_connection_is_closed_and_the_peer_told() -> None:
    stack = sending(1, conn_expiry_timeout=10.0, conn_close_timeout=20.0)
    stack.up(ack(1, 1))
    stack.advance(29)
    assert sent(stack, UnicastType.CLOSE) == []
    stack.advance(12)
    assert sent(stack, UnicastType.CLOSE) == [(B, 0, 0, 0)]
    assert count(stack, "connections_out") == 0
    stack.down(Batch(B, [b"x"], {}))
    assert stack.take_down()[0].headers[ID] == UnicastHeader3(DATA, 1, 1, True)


def test_an_idle_connection_with_unacked_messages_stays() -> None:
    stack = sending(1, conn_expiry_timeout=10.0, conn_close_timeout=20.0)
    stack.advance(50)
    assert sent(stack, UnicastType.CLOSE) == []
    assert count(stack, "connections_out") == 1


def test_a_connection_in_use_stays() -> None:
    stack = sending(1, conn_expiry_timeout=10.0, conn_close_timeout=20.0)
    for seqno in range(1, 30):
        stack.up(ack(seqno, seqno))
        stack.advance(5)
        stack.down(Batch(B, [b"x"], {}))
    assert sent(stack, UnicastType.CLOSE) == []


def test_a_connection_to_a_former_member_is_closed_with_its_unacked_messages() -> None:
    stack = sending(3)
    stack.event_down(members(2, A, C, old=View(ViewId(A, 1), (A, B, C))))
    assert count(stack, "unacked_dropped") == 3
    assert count(stack, "connections_out") == 0
    stack.advance(100)
    assert stack.take_down() == []


def test_members_do_not_wait_for_one_that_left() -> None:
    stack = fake(max_unacked=2400)
    for _ in range(6):
        stack.down(Batch(B, [b"x"], {}))
    stack.take_up_events()
    stack.event_down(members(2, A, C, old=View(ViewId(A, 1), (A, B, C))))
    assert stack.take_up_events() == [FlowOpened("UNICAST3", B)]


def test_a_member_that_left_is_neither_asked_nor_delivered_twice() -> None:
    stack = receiving()
    stack.up(data(3))
    stack.event_down(members(2, A, C, old=View(ViewId(A, 1), (A, B, C))))
    stack.advance(100)
    assert sent(stack, UnicastType.XMIT_REQ) == []
    stack.up(data(1, start=True))
    assert got(stack) == []
    stack.up(data(2, 3))
    assert got(stack) == [2, 3]


def test_a_connection_that_ends_during_delivery_is_not_searched_for_gaps() -> None:
    stack = receiving()

    class Above(list[Batch]):
        def append(self, batch: Batch) -> None:
            stack.protocol.up(control(UnicastType.CLOSE))

    stack.up_batches = Above()
    stack.up(data(3, flags=int(Flag.OOB)))
    assert count(stack, "connections_in") == 0
    assert count(stack, "gaps_seen") == 0


def test_a_member_that_still_has_us_in_its_view_delivers_nothing_twice() -> None:
    """The member has received nothing from us for longer than idle connections last (merge 22020)."""
    stack = receiving(conn_expiry_timeout=2.0, conn_close_timeout=5.0, departed_remembered=100.0)
    stack.event_down(members(2, A, C, old=View(ViewId(A, 1), (A, B, C))))
    stack.advance(90)
    stack.up(data(1, start=True))
    stack.up(data(2))
    assert got(stack) == [2]
    stack.advance(110)
    assert count(stack, "connections_in") == 0


def test_gaps_of_strangers_are_not_asked_for_any_more_when_they_are_silent() -> None:
    """Perhaps the stranger hears no member (membership 23600); its delivered number is remembered nevertheless."""
    stack = fake(conn_expiry_timeout=2.0, conn_close_timeout=5.0, departed_remembered=100.0)
    stack.up(data(1, start=True, src=D))
    stack.up(data(3, src=D))
    stack.advance(12)
    assert sent(stack, UnicastType.XMIT_REQ) != []
    assert (count(stack, "pending"), count(stack, "connections_in")) == (0, 1)
    stack.advance(30)
    assert sent(stack, UnicastType.XMIT_REQ) == []
    stack.take_up()
    stack.up(data(1, 2, src=D))
    assert got(stack, D) == [2]


def test_an_oob_message_of_a_member_that_left_is_not_delivered_again() -> None:
    stack = receiving()
    stack.up(data(3, flags=Flag.OOB))
    assert got(stack) == [3]
    stack.event_down(members(2, A, C, old=View(ViewId(A, 1), (A, B, C))))
    stack.up(data(3, 4, flags=Flag.OOB))
    assert got(stack) == [4]
    stack.up(data(2))
    assert got(stack) == [2]
    stack.up(data(5))
    assert got(stack) == [5]


def test_messages_on_an_unknown_connection_are_forgotten_in_the_end() -> None:
    """No other connection here needs attention (membership 22908)."""
    stack = fake(conn_expiry_timeout=2.0, conn_close_timeout=5.0)
    protocol = stack.protocol
    assert isinstance(protocol, UNICAST3)
    stack.up(data(2, src=D))
    assert len(protocol.unknown) == 1
    stack.advance(15)
    assert len(protocol.unknown) == 0


def test_the_newest_connections_of_strangers_are_remembered() -> None:
    stack = fake(max_strangers=2)
    for number in (4, 5, 6):
        stack.up(data(1, start=True, src=make_address(number)))
        stack.advance(1)
    stack.up(data(1, start=True, src=B))
    assert count(stack, "connections_in") == 3
    assert count(stack, "strangers_dropped") == 1


def test_the_stranger_that_was_silent_for_longest_is_forgotten() -> None:
    stack = fake(max_strangers=2)
    one, two, three = (make_address(number) for number in (4, 5, 6))
    for src in (one, two):
        stack.up(data(1, start=True, src=src))
        stack.advance(1)
    stack.up(data(2, src=one))
    stack.advance(1)
    stack.up(data(1, start=True, src=three))
    stack.take_up()
    delivered = []
    for src, seqno in ((one, 3), (two, 2), (three, 2)):
        stack.up(data(seqno, src=src))
        delivered.append(got(stack, src))
    assert delivered == [[3], [], [2]]


def test_a_stranger_that_acks_nothing_is_given_up() -> None:
    stack = fake(max_retransmit_time=10.0)
    stack.down(Batch(D, [b"x"], {}))
    stack.down(Batch(B, [b"x"], {}))
    stack.advance(30)
    assert count(stack, "given_up") == 1
    assert count(stack, "connections_out") == 1


@pytest.mark.parametrize(
    "bad", [{"xmit_interval": 0}, {"ack_threshold": 0}, {"max_unacked": 0}, {"xmit_delay": -1}]
)
def test_values_out_of_range_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        UNICAST3(**bad)


# --- destinations outside the view


def seqno_of(batch: Batch) -> int:
    header = batch.headers[ID]
    assert isinstance(header, UnicastHeader3)
    return header.seqno


def test_messages_kept_for_destinations_outside_the_view_have_one_limit_together() -> None:
    stack = fake(max_strangers_bytes=100_000)
    for number in range(10, 410):
        stack.down(Batch(make_address(number), (bytes(1000),), {}))
        stack.protocol.check()
    stats = stack.protocol.statistics()
    assert stats["connections_out"] < 100
    assert stats["turned_away_stranger"] == stats["given_up"] == 400 - stats["connections_out"]


def test_destinations_outside_the_view_are_few_and_the_one_not_used_for_longest_goes() -> None:
    stack = fake(max_strangers=2)
    stack.down(Batch(B, (b"member",), {}))
    for number in (10, 11, 10, 12):
        stack.down(Batch(make_address(number), (b"x",), {}))
    assert stack.protocol.statistics()["connections_out"] == 3
    sent = [(out.dest, seqno_of(out)) for out in stack.take_down()]
    assert sent[1:] == [(make_address(n), s) for n, s in ((10, 1), (11, 1), (10, 2), (12, 1))]
    stack.down(Batch(make_address(10), (b"x",), {}))
    assert seqno_of(stack.take_down()[0]) == 3


def test_a_stranger_that_joins_is_counted_as_one_no_more_and_keeps_its_connection() -> None:
    stack = fake(max_strangers=1)
    stack.down(Batch(D, (b"early",), {}))
    stack.event_down(members(2, A, B, C, D))
    stack.down(Batch(make_address(9), (b"x",), {}))
    stack.down(Batch(make_address(10), (b"x",), {}))
    stack.take_down()
    stack.down(Batch(D, (b"later",), {}))
    (batch,) = stack.take_down()
    assert seqno_of(batch) == 2
    stack.protocol.check()


def test_destinations_outside_the_view_are_still_counted_in_the_next_view() -> None:
    stack = fake(max_strangers=1)
    stack.down(Batch(D, (b"to a stranger",), {}))
    stack.event_down(members(2, A, C, old=View(ViewId(A, 1), (A, B, C))))
    stack.down(Batch(make_address(9), (b"one too many",), {}))
    stats = stack.protocol.statistics()
    assert (stats["turned_away_stranger"], stats["connections_out"]) == (1, 1)
    stack.protocol.check()


def test_an_acknowledgement_of_a_stranger_makes_room() -> None:
    stack = fake(max_strangers_bytes=3000)
    stack.down(Batch(D, (bytes(2000),), {}))
    stack.up(ack(1, 1, src=D))
    stack.down(Batch(make_address(9), (bytes(2000),), {}))
    stack.protocol.check()
    assert stack.protocol.statistics()["turned_away_stranger"] == 0
