"""Survivors agree on a departed member's messages before the view without it."""

from __future__ import annotations

from typing import Any

import pytest
from gms_rounds import cannot_fetch, rounds

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.wire import (
    AGREE_ID,
    MAX_VIEW_ID,
    Goals,
    RoundKind,
    encode_freeze,
    encode_goals,
    encode_report,
    read_fetch,
    read_report,
)
from jgroups_py.values.address import UUID, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Fetched, Freeze, GetDigest
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.headers import FragHeader
from jgroups_py.wire.primitives import decode_whole, encode_whole
from jgroups_py.wire.values import write_view_digest


def test_all_members_have_the_departed_members_messages_before_the_view(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=9, C=7, D=12)
    seen: list[tuple[int, int]] = []
    d.dead = True
    before = len(a.views)
    net.suspect("A", "D")
    up = a.gms.pass_event_up

    def spy(event: Any) -> None:
        seen.append((len(a.views), a.delivered[d.address]))
        up(event)

    a.gms.pass_event_up = spy
    net.run(0.1)
    assert a.view == b.view == c.view == ("A", "B", "C")
    assert seen[-1] == (before, 9), "A had 9 before it handed the view up"
    assert [f.goals[d.address] for f in a.fetches] == [(9, b.address)]
    assert [f.goals[d.address] for f in c.fetches] == [(9, b.address)]
    assert b.fetches == []
    assert a.gms.agreements == 1 and a.gms.agreements_timed_out == 0


def test_one_round_trip_is_enough_when_nothing_is_missing(net: Any) -> None:
    _a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=7, C=7, D=7)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert rounds(net) == [
        ("A", "B", RoundKind.FREEZE),
        ("A", "C", RoundKind.FREEZE),
        ("B", "A", RoundKind.REPORT),
        ("C", "A", RoundKind.REPORT),
        ("A", "B", RoundKind.DECIDED),
        ("A", "C", RoundKind.DECIDED),
        ("A", "B", RoundKind.VIEW),
        ("A", "C", RoundKind.VIEW),
    ]
    assert b.fetches == c.fetches == []


def test_all_have_any_survivors_deliveries_of_staying_members_too(net: Any) -> None:
    """A had a message from B that C lost; C could crash before B repeats it."""
    _a, b, c, d = net.group("ABCD")
    net.delivered("B", A=4, B=3, C=2)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert c.view == ("A", "B", "C")
    assert c.fetches[-1].goals[b.address][0] == 4
    assert b.fetches[-1].goals[b.address][0] == 4, "B's own, which it held back"
    assert c.delivered[b.address] == b.delivered[b.address] == 4


def test_a_survivor_reports_its_numbers_of_staying_members(net: Any) -> None:
    """A leaver reports its numbers of a member that has left its view, but not yet the views of all others."""
    a, b, c, d = net.group("ABCD")
    net.delivered("B", A=2, B=2, C=4)
    d.dead = True
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.suspect("A", "D")
    net.run(0.05)
    assert a.fetches[-1].goals[b.address] == (4, c.address)
    assert c.view == ("A", "B", "C") and b.view == ("A", "B", "C", "D")
    net.lose = lambda src, dest, batch: False
    c.delivered[d.address], b.delivered[d.address] = 9, 7
    net.leave("C")
    net.run(0.1)
    assert a.view == b.view == ("A", "B")
    assert b.fetches[-1].goals[d.address] == (9, c.address)


def test_a_member_beyond_the_goal_of_a_survivor_installs_the_view(net: Any) -> None:
    """C did not report in time, so it held nothing back. The others will get C's additional messages."""
    a, b, c, d = net.group("ABCD")
    d.dead = True
    c.deaf = True
    net.suspect("A", "D")
    net.run(a.gms.config.agree_timeout + 0.1)
    net.delivered("B", A=2, B=2, C=5)
    goals = {b.address: (2, b.address)}
    c.gms.agreement._decided = a.gms.view.id + 1, a.gms.view.members
    c.gms.agreement._goals_set(goals, False)
    assert not c.gms.agreement._ahead and c.fetches == []


def test_a_survivor_that_waits_in_vain_for_the_view_goes_on(net: Any) -> None:
    """The coordinator is cut off from the survivor, and not suspected yet."""
    a, b, _c, d = net.group("ABCD")
    d.dead = True

    def lose(src: Any, dest: Any, batch: Batch) -> bool:
        header = batch.header(AGREE_ID, FragHeader)
        return dest is b and (header is None or header.index != RoundKind.FREEZE)

    net.lose = lose
    net.suspect("A", "D")
    net.run(2 * a.gms.config.agree_timeout)
    assert b.held is not None, "a round may last so long"
    net.run(2 * a.gms.config.agree_timeout)
    assert b.held is None and b.gms.holds_expired == 1


def test_held_messages_are_handed_out_when_the_round_is_given_up(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: src is c or src is d
    net.suspect("A", "D")
    net.pump()
    assert a.held == b.held == []
    net.unsuspect("A", "D")
    net.pump()
    assert a.held is b.held is None and b.view == ("A", "B", "C", "D")
    assert not b.gms.agreement._timers.hold.armed and b.frozen == set()


@pytest.mark.parametrize("decided_first", [True, False])
def test_a_member_that_has_reported_to_two_rounds_holds_until_both_have_ended(
    net: Any, decided_first: bool
) -> None:
    """B suspects A for a moment, while A makes a view without D; A's goals include all messages of C."""
    a, b, c, d, e = net.group("ABCDE")
    net.delivered("A", A=4, B=4, C=4, E=4)
    d.dead = True
    net.lose = lambda src, dest, batch: src is e and AGREE_ID in batch.headers
    net.suspect("A", "D")
    net.pump()
    assert c.held is not None, "reported to A, which waits for E"
    b.gms.agreement.timeout = 100.0
    net.suspect("B", "A", "D")
    net.pump()
    assert c.gms.agreement._follows[0] == b.address
    net.lose = lambda src, dest, batch: (
        (src is e and AGREE_ID in batch.headers) or (src is a and dest is b)
    )
    if decided_first:
        net.run(a.gms.config.agree_timeout + 0.1)
        assert c.view == ("A", "B", "C", "D", "E"), "overtaken by B's"
    net.unsuspect("B", "A", "D")
    net.pump()
    if not decided_first:
        assert c.held is not None and c.gms.agreement._follows[0] == a.address
        net.run(a.gms.config.agree_timeout + 0.1)
    assert c.view == ("A", "B", "C", "E") and c.held is None
    assert c.gms.agreement._promises == {}


def test_joins_do_not_need_a_round(net: Any) -> None:
    net.group("ABC")
    assert rounds(net) == []


def test_a_member_that_has_reported_takes_nothing_more(net: Any) -> None:
    _, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert b.frozen == {d.address}
    assert b.view == ("A", "B", "C", "D")


def test_the_round_covers_every_sender_that_is_not_in_the_new_view(net: Any) -> None:
    """B still has D, since it did not get the view without it."""
    a, b, c, d = net.group("ABCD")
    d.dead = True
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.suspect("A", "D")
    net.run(0.05)
    assert a.view == ("A", "B", "C")
    net.lose = lambda src, dest, batch: False
    c.dead = True
    b.fake.take_down_events()
    freezes: list[Any] = []
    event = net._event

    def spy(node: Any, what: Any) -> None:
        if isinstance(what, Freeze):
            freezes.append((node.name, what))
        event(node, what)

    net._event = spy
    net.suspect("A", "C")
    net.run(0.1)
    assert ("B", Freeze((c.address, d.address))) in freezes


def test_a_member_with_the_view_still_reports_its_numbers_of_excluded_senders(
    net: Any,
) -> None:
    """B still has D, C does not; but C's NAKACK2 remembers D."""
    a, b, c, d, e = net.group("ABCDE")
    d.dead = True
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.suspect("A", "D")
    net.run(0.05)
    assert c.view == ("A", "B", "C", "E")
    net.lose = lambda src, dest, batch: False
    c.delivered[d.address], b.delivered[d.address] = 9, 7
    e.dead = True
    net.suspect("A", "E")
    net.run(0.1)
    assert a.view == b.view == c.view == ("A", "B", "C")
    assert b.fetches[-1].goals[d.address] == (9, c.address)


def test_another_crash_starts_the_round_again_with_both(net: Any) -> None:
    """B, which has the missing message, dies while C fetches it."""
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=9, C=7)
    d.dead = True
    net.lose = lambda src, dest, batch: (
        RoundKind.DONE in [h.index for h in batch.headers.values() if isinstance(h, FragHeader)]
    )
    net.suspect("A", "D")
    net.run(0.1)
    assert a.view == ("A", "B", "C", "D"), "waits for C"
    net.lose = lambda src, dest, batch: False
    b.dead = True
    net.suspect("A", "B")
    net.run(0.1)
    assert a.view == c.view == ("A", "C")
    assert a.gms.agreements_restarted == 1
    assert a.delivered.keys() == c.delivered.keys() == {a.address, c.address}


def test_the_coordinator_dies_in_the_round_and_the_next_one_begins_its_own(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=9, B=7, C=8)
    d.dead = True
    net.lose = lambda src, dest, batch: dest is a  # reports do not come back
    net.suspect("A", "D")
    net.run(0.1)
    assert b.frozen == c.frozen == {d.address}
    a.dead = True
    net.lose = lambda src, dest, batch: False
    net.suspect("B", "A", "D")
    net.run(0.1)
    assert b.view == c.view == ("B", "C")
    assert [f.goals[d.address] for f in b.fetches] == [(8, c.address)]
    assert b.frozen == c.frozen == set()


def test_a_round_is_bounded_in_time(net: Any) -> None:
    a, b, c, d = net.group("ABCD", agree_timeout=1.0)
    d.dead = True
    c.deaf = True
    net.suspect("A", "D")
    net.run(0.95)
    assert a.view == ("A", "B", "C", "D")
    net.run(0.1)
    assert a.view == b.view == ("A", "B", "C")
    assert a.gms.agreements_timed_out == 1
    (late,) = [t for t in a.traced("agree") if t["step"] == "timed out"]
    assert late["waiting"] == (c.address,)


def test_a_member_that_has_not_fetched_in_time_installs_the_view_when_it_has(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=9, B=9, C=7)
    d.dead = True
    cannot_fetch(net, c)
    net.suspect("A", "D")
    net.run(a.gms.config.agree_timeout + 0.1)
    assert a.view == b.view == ("A", "B", "C"), "C is not waited for"
    assert rounds(net, RoundKind.DECIDED) == [("A", "B", RoundKind.DECIDED)]
    assert rounds(net, RoundKind.FETCH) == [("A", "C", RoundKind.FETCH)], (
        "the goals stay as they were"
    )
    assert c.view == ("A", "B", "C", "D")
    c.delivered[d.address] = 9
    c.fake.event_up(Fetched())
    net.run(0.1)
    assert c.view == ("A", "B", "C")


def test_messages_that_the_coordinator_could_not_fetch_are_in_nobodys_view(net: Any) -> None:
    """The goal is then the coordinator's number: B, which has more messages, does not join the view."""
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=9, C=7)
    d.dead = True
    cannot_fetch(net, a, c)
    net.suspect("A", "D")
    net.run(a.gms.config.agree_timeout + 0.1)
    assert a.view == c.view == ("A", "B", "C")
    assert (a.delivered, c.delivered) == ({a.address: 0, b.address: 0, c.address: 0},) * 2
    assert b.view == ("A", "B", "C", "D")


def test_the_round_of_survivors_can_be_switched_off(net: Any) -> None:
    a, b, _c, d = net.group("ABCD", agree_timeout=0.0)
    net.delivered("D", A=7, B=9)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert a.view == b.view == ("A", "B", "C")
    assert {kind for _, _, kind in rounds(net)} == {RoundKind.DECIDED, RoundKind.VIEW}, (
        "nobody is asked"
    )
    assert b.fetches == []


def test_a_stranger_cannot_freeze(net: Any) -> None:
    _a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)  # B and C went on without A
    net.sent.clear()
    net.suspect("A", "C")
    net.run(0.1)
    assert b.frozen == c.frozen == set() and b.view == ("B", "C")


def test_a_leavers_messages_come_to_all_and_it_helps(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.delivered("C", A=3, B=3, C=5)
    net.leave("C")
    net.run(0.1)
    assert a.view == b.view == ("A", "B") and c.left
    assert [f.goals[c.address] for f in a.fetches] == [(5, c.address)]
    assert [f.goals[c.address] for f in b.fetches] == [(5, c.address)]


def test_a_leaver_counts_its_sent_messages_before_they_are_delivered_to_it(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.delivered("C", A=3, B=4, C=5)
    own = {c.address: (3, 5), a.address: (0, 0), b.address: (0, 0)}
    c.fake.answers[GetDigest] = lambda query: Digest(own)
    net.leave("C")
    net.run(0.1)
    assert a.view == ("A", "B")
    assert a.fetches[-1].goals[c.address] == (5, c.address)


def test_a_leaver_that_dies_meanwhile_is_not_waited_for(net: Any) -> None:
    a, b, c = net.group("ABC", agree_timeout=60.0)
    net.lose = lambda src, dest, batch: dest is c
    net.leave("C")
    net.run(0.2)
    assert a.view == ("A", "B", "C")
    c.dead = True
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == b.view == ("A", "B")


def test_java_members_are_not_asked(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    d.dead = True
    plain = UUID(b.address[:12] + bytes(4))
    assert not plain.is_ours
    a.gms.group.view = type(a.gms.view)(
        a.gms.view.view_id, (a.address, plain, c.address, d.address)
    )
    net.suspect("A", "D")
    net.run(0.1)
    assert {dest for _, dest, _ in rounds(net, RoundKind.FREEZE)} == {"C"}


def test_without_nakack2_there_is_nothing_to_agree_on(net: Any) -> None:
    a, b, c = net.group("ABC")
    for node in (a, b):
        node.fake.answers[GetDigest] = lambda query: None
    c.dead = True
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == b.view == ("A", "B") and rounds(net) == []


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 5, 99])
@pytest.mark.parametrize("payload", [b"", b"\x00", b"\xff" * 20, b"\x08" + b"\xff" * 8])
def test_garbage_does_no_harm(net: Any, kind: int, payload: bytes) -> None:
    a, b, c = net.group("ABC")
    c.dead = True
    net.lose = lambda src, dest, batch: dest is a
    net.suspect("A", "C")
    net.run(0.05)
    number = next(h.id for _, _, m in net.sent if (h := m.header(AGREE_ID, FragHeader)))
    batch = Batch.of(a.address, AGREE_ID, FragHeader(number, kind, 0), payload=payload)
    batch.src = b.address
    a.fake.up(batch)
    net.run(3.0)
    assert a.view == ("A", "B")


def test_fetched_without_a_round_is_ignored(net: Any) -> None:
    _a, b = net.group("AB")
    b.fake.event_up(Fetched())
    net.run(0.1)
    assert rounds(net) == []


@pytest.mark.parametrize("number", [-1, MAX_VIEW_ID + 1])
def test_a_view_number_that_cannot_be_is_refused(number: int) -> None:
    report = encode_report(number, Digest({}))
    with pytest.raises(RemoteProtocolError, match=f"view id {number}"):
        decode_whole(read_report, report)
    goals = encode_goals(number, (), {})
    with pytest.raises(RemoteProtocolError, match=f"view id {number}"):
        decode_whole(read_fetch, goals)


def test_goals_are_read_as_they_were_written() -> None:
    from jgroups_py.protocols.membership.gms.wire import read_goals, write_goals
    from jgroups_py.testing import make_address
    from jgroups_py.wire.primitives import encode_whole

    goals: Goals = {
        make_address(1): (5, make_address(2)),
        make_address(3): (2**40, make_address(1)),
    }
    assert decode_whole(read_goals, encode_whole(write_goals, goals)) == goals


def frozen_for(net: Any, *staying: Any) -> Any:
    """A survivor holds messages for a round of A; the next member that is asked decides nothing."""
    a, b = net.nodes["A"], net.nodes["B"]
    payload = encode_freeze(b.gms.view.id + 1, tuple(n.address for n in staying))
    _say(b, a, RoundKind.FREEZE, 7, payload)
    return b


def _say(to: Any, src: Any, kind: RoundKind, number: int, payload: bytes) -> None:
    batch = Batch.of(to.address, AGREE_ID, FragHeader(number, int(kind), 0), payload=payload)
    batch.src = src.address
    to.fake.up(batch)


def _view(net: Any, to: Any, src: Any, number: int, *members: Any) -> None:
    view = View(ViewId(src.address, number), tuple(n.address for n in members))
    payload = encode_whole(write_view_digest, ViewDigest(view, None))
    _say(to, src, RoundKind.VIEW, 0, payload)


def test_an_older_view_that_comes_late_does_not_replace_the_one_that_waits(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    frozen_for(net, a, b, c)
    now = b.gms.view.id
    _view(net, b, a, now + 2, a, b)
    _view(net, b, a, now + 1, a, b, c)
    decided = encode_goals(now + 1, (a.address, b.address, c.address), {})
    _say(b, a, RoundKind.DECIDED, 7, decided)
    net.pump()
    assert b.gms.view.id == now, "a newer one is here"
    _view(net, b, a, now + 2, a, b, c)
    assert b.gms.view.id == now + 2 and b.view == ("A", "B", "C")
    assert d.view == ("A", "B", "C", "D")


def test_the_end_of_an_earlier_round_does_not_end_the_one_after_it(net: Any) -> None:
    a, b, c, _ = net.group("ABCD")
    frozen_for(net, a, b, c)
    _say(b, a, RoundKind.THAW, 6, b"")
    _say(b, c, RoundKind.FREEZE, 3, encode_freeze(b.gms.view.id + 1, (b.address, c.address)))
    _say(b, c, RoundKind.THAW, 3, b"")
    net.pump()
    assert b.held is not None and b.frozen, "back to A's round 7"
    _say(b, a, RoundKind.THAW, 7, b"")
    net.pump()
    assert b.held is None and not b.frozen


def test_the_end_of_a_round_of_another_member_does_not_end_the_one_that_is_followed(
    net: Any,
) -> None:
    """Each member numbers its rounds by itself. A's FREEZE is lost."""
    a, b, c, _ = net.group("ABCD")
    number = b.gms.view.id + 1
    staying = (a.address, b.address, c.address)
    _say(b, a, RoundKind.DECIDED, 7, encode_goals(number, staying, {}))
    _say(b, c, RoundKind.THAW, 7, b"")
    _view(net, b, a, number, a, b, c)
    net.pump()
    assert b.view == ("A", "B", "C")


def test_a_report_of_an_unasked_member_does_not_count(net: Any) -> None:
    """The member departs, so no other member can fetch the messages that it reports."""
    a, _, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c or src is c
    net.suspect("A", "D")
    net.pump()
    number = a.gms.agreement._number
    report = encode_report(a.gms.view.id, Digest({d.address: (99, 99)}))
    _say(a, d, RoundKind.REPORT, number, report)
    net.lose = lambda src, dest, batch: False
    net.run(5)
    assert a.view == ("A", "B", "C")
    assert all(d.address not in f.goals or f.goals[d.address][0] < 99 for f in a.fetches)


def test_a_view_of_a_creator_that_is_no_uuid_does_not_wait(net: Any) -> None:
    _, b, c, d = net.group("ABCD")
    view = View(ViewId(IpAddress("10.0.0.9", 7800), b.gms.view.id + 5), (b.address, c.address))
    assert not b.gms.agreement.puts_off(d.address, view, None)


def test_the_later_of_two_views_with_one_number_waits(net: Any) -> None:
    """The deciding member learns of it last."""
    a, b, c, _ = net.group("ABCD")
    frozen_for(net, a, b, c)
    number = b.gms.view.id + 1
    _view(net, b, c, number, c, b)
    _view(net, b, a, number, a, b, c)
    staying = (a.address, b.address, c.address)
    _say(b, a, RoundKind.DECIDED, 7, encode_goals(number, staying, {}))
    net.pump()
    assert b.view == ("A", "B", "C")


def test_the_decision_of_a_round_that_was_given_up_is_no_longer_followed(net: Any) -> None:
    a, b, c, _ = net.group("ABCD")
    frozen_for(net, a, b, c)
    number = b.gms.view.id + 1
    staying = (a.address, b.address, c.address)
    _say(b, a, RoundKind.DECIDED, 7, encode_goals(number, staying, {}))
    _say(b, a, RoundKind.THAW, 7, b"")
    _view(net, b, a, number, a, b, c)
    view = View(ViewId(a.address, number), staying)
    b.gms.view_received(a.address, ViewDigest(view, None))
    net.pump()
    assert b.view == ("A", "B", "C", "D"), "nobody knows whether all have the same of D"


def test_a_merge_view_of_the_round_waits_until_its_messages_are_fetched(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    cannot_fetch(net, b)
    net.delivered("D", A=5, C=5)
    number = b.gms.view.id + 1
    staying = (a.address, b.address, c.address)
    _say(b, a, RoundKind.DECIDED, 7, encode_goals(number, staying, {d.address: (5, c.address)}))
    net.pump()
    assert len(b.fetches) == 1
    members = (*staying, d.address)
    digest = Digest({m: (5, 5) for m in members})
    merged = MergeView(ViewId(a.address, number + 1), members, (b.gms.view,))
    assert not b.gms.agreement.puts_off(c.address, merged, digest), "it comes of another round"
    b.gms.view_received(a.address, ViewDigest(merged, digest))
    assert b.gms.view.id == number - 1
    b.fake.event_up(Fetched())
    net.pump()
    assert b.gms.view == merged


@pytest.mark.parametrize("late", ["old", "without us"])
def test_a_decision_that_is_not_for_this_view_and_member_is_not_followed(
    net: Any, late: str
) -> None:
    a, b, c, d = net.group("ABCD")
    number = b.gms.view.id + (0 if late == "old" else 1)
    staying = (a.address, b.address, c.address) if late == "old" else (a.address, c.address)
    _say(b, a, RoundKind.DECIDED, 7, encode_goals(number, staying, {d.address: (5, c.address)}))
    net.pump()
    assert b.held is None and not b.frozen and b.fetches == []
    assert b.gms.agreement._follows is None
