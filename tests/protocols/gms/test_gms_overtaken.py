"""Rounds of survivors that are overtaken, replaced or given up: late messages do no harm."""

from __future__ import annotations

from typing import Any

import pytest
from gms_rounds import cannot_fetch, rounds

from jgroups_py.protocols.membership.gms.wire import (
    AGREE_ID,
    RoundKind,
    encode_freeze,
    encode_goals,
    read_fetch,
    read_freeze,
)
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Fetched, Freeze
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import FragHeader
from jgroups_py.wire.primitives import decode_whole


@pytest.mark.parametrize("thawed", [False, True])
def test_a_view_that_is_older_than_that_of_a_round_does_not_end_it(net: Any, thawed: bool) -> None:
    """C is asked about D before it has the view with E; the goals must contain the messages that it delivers then (all
    6989)."""
    a, b, c, d = net.group("ABCD")
    e = net.add("E", agree_timeout=100.0)
    net.lose = lambda src, dest, batch: dest is c and net.is_view(batch)
    net.connect("E")
    net.run(0.3)
    assert e.view == ("A", "B", "C", "D", "E") and c.view == ("A", "B", "C", "D")
    d.dead = True
    net.lose = lambda src, dest, batch: src is b and AGREE_ID in batch.headers
    net.suspect("A", "D")
    net.pump()
    assert c.held is not None
    net.delivered("B", B=3, C=3)
    c.gms.view_received(a.address, ViewDigest(a.gms.view))
    net.pump()
    assert c.view == ("A", "B", "C", "D", "E") and c.held is not None
    assert rounds(net, RoundKind.REPORT).count(("C", "A", RoundKind.REPORT)) == 2
    if thawed:
        net.unsuspect("A", "D")
        net.pump()
    else:
        net.run(a.gms.config.agree_timeout + 0.1)
        assert c.view == ("A", "B", "C", "E")
        assert [fetch.goals[b.address] for fetch in a.fetches] == [(3, c.address)]
    assert c.held is None and c.gms.agreement._promises == {}


@pytest.mark.parametrize("returns", [False, True])
def test_a_view_of_the_round_before_it_does_not_end_ones_own(net: Any, returns: bool) -> None:
    """B has carried out the goals of A's round. By now it fetches further messages from A in a round of its own: A's
    view, which C has, is among them (merge 9062). If A turns out to be alive, B installs the view."""
    a, b, c, d = net.group("ABCD")
    d.dead = True
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.suspect("A", "D")
    net.run(0.05)
    assert a.view == c.view == ("A", "B", "C") and b.gms.agreement._decided is not None
    net.delivered("A", A=5, C=5)
    cannot_fetch(net, b)
    net.suspect("B", "A", "D")
    net.pump()
    assert [fetch.goals[a.address] for fetch in b.fetches] == [(5, c.address)]
    b.gms.view_received(a.address, ViewDigest(a.gms.view))
    net.hand_over(b)
    assert b.view == ("A", "B", "C", "D")
    if returns:
        net.unsuspect("B", "A")
        net.run(0.05)
        assert b.gms.view == a.gms.view
    else:
        a.dead = True
        net.delivered("A", B=5)
        b.fake.event_up(Fetched())
        net.run(0.05)
        assert b.view == c.view == ("B", "C")


@pytest.mark.parametrize("further", ["A", "C", None])
def test_a_member_with_a_newer_round_of_its_own_refuses_the_older_view(
    net: Any, further: str | None
) -> None:
    """B has reported to A's round. In a round of its own it delivers messages that A or C sent in A's view; then A
    turns out to be alive (merge 21556, 22904)."""
    a, b, c, d = net.group("ABCD")
    net.delivered("A", A=2, B=2, C=2)
    net.delivered("C", A=3, B=3, C=3)
    d.dead = True
    net.lose = lambda src, dest, batch: (
        src is a and dest is b and not is_kind(batch, RoundKind.FREEZE)
    )
    net.suspect("A", "D")
    net.run(0.05)
    assert a.view == c.view == ("A", "B", "C") and b.view == ("A", "B", "C", "D")
    cannot_fetch(net, b)
    net.delivered("A", A=5, C=5)
    net.delivered("C", A=4, C=4)
    net.suspect("B", "A", "D")
    net.pump()
    assert len(b.fetches) == 1
    if further is not None:
        b.delivered[net.nodes[further].address] += 1
    net.unsuspect("B", "A")
    net.lose = lambda src, dest, batch: False
    goals = next(
        batch
        for source, dest, batch in net.sent
        if is_kind(batch, RoundKind.DECIDED) and dest == "B"
    )
    goals.src = a.address
    b.fake.up(goals)
    net.hand_over(b)
    net.run(0.05)
    assert (b.gms.view == a.gms.view) == (further is None)
    assert b.gms.agreement._ahead == (further is not None)
    if further is not None:
        net.merge("A", "B")
        net.run(0.2)
        assert b.gms.view == a.gms.view and set(b.view) == {"A", "B", "C"}


def test_a_view_that_overtakes_the_decision_waits_for_it(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=7, C=5)
    d.dead = True
    kept: list[Any] = []

    def later(src: Any, dest: Any, batch: Any) -> bool:
        """Return whether a message of the round is delayed on its way to C; views are not delayed."""
        if dest is c and batch.header(AGREE_ID, FragHeader) is not None:
            kept.append((src, batch))
            return True
        return False

    net.lose = later
    net.suspect("A", "D")
    net.run(2 * a.gms.config.agree_timeout + 0.1)
    assert a.view == b.view == ("A", "B", "C") and c.view == ("A", "B", "C", "D")
    net.run(60)
    assert c.view == ("A", "B", "C", "D"), "without word it never installs the view"
    assert c.gms.agreements_timed_out == 1
    net.lose = lambda src, dest, batch: False
    src, header, payload = next(
        (src, h, batch.payloads[0])
        for src, batch in kept
        if (h := batch.header(AGREE_ID, FragHeader)).index == RoundKind.DECIDED
    )
    late = Batch.of(c.address, AGREE_ID, header, payload=payload)
    late.src = src.address
    a.delivered[d.address] = 7  # A still keeps messages that are not stable
    c.fake.up(late)
    net.run(0.1)
    assert c.view == ("A", "B", "C", "D"), "other goals may come until the view is handed over"
    net.hand_over(c)
    assert c.view == ("A", "B", "C") and c.fetches[-1].goals[d.address] == (7, a.address)


def test_a_merge_ends_the_wait_of_a_member_that_was_left_behind(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    d.dead = True
    net.lose = lambda src, dest, batch: dest is c and AGREE_ID in batch.headers
    net.suspect("A", "D")
    net.run(a.gms.config.agree_timeout + 0.05)
    assert a.view == ("A", "B", "C") and c.view == ("A", "B", "C", "D")
    assert len(c.traced("agree")) == 1, "it has put the view off"
    net.lose = lambda src, dest, batch: False
    net.merge("A", "C")
    net.run(0.2)
    assert c.view == a.view and set(c.view) == {"A", "B", "C"}
    net.run(2 * a.gms.config.agree_timeout)
    assert c.gms.agreements_timed_out == 0 and b.view == c.view


def test_a_decision_for_others_does_not_count(net: Any) -> None:
    """The decision was that D leaves; the view is without C and D."""
    a, b, c, d = net.group("ABCD")
    b.gms.agreement._follows = (a.address, 1)
    b.gms.agreement._decided = 9, (a.address, b.address, c.address)
    b.gms.agreement._handed = ViewId(a.address, 9)
    view = View(ViewId(a.address, 9), (a.address, b.address))
    b.gms.view_received(a.address, ViewDigest(view))
    assert b.view == ("A", "B", "C", "D")
    b.gms.agreement._decided = 10, (a.address, b.address)
    b.gms.view_received(a.address, ViewDigest(view))
    assert b.view == ("A", "B", "C", "D"), "it was decided for a later view"
    b.gms.agreement._decided = 9, (a.address, b.address)
    b.gms.view_received(a.address, ViewDigest(view))
    assert b.view == ("A", "B") and d.address not in b.gms.view


@pytest.mark.parametrize("silent", [True, False])
def test_a_coordinator_that_has_gone_on_meanwhile_decides_anew(net: Any, silent: bool) -> None:
    """A round of B that was given up has taken A further (merge 27153), while A waits for the silent C
    to report, or for C to fetch."""
    a, b, c, d = net.group("ABCD")
    b.dead = d.dead = True
    net.delivered("B", A=5, C=5 if silent else 4)
    if silent:
        c.deaf = True
    else:
        cannot_fetch(net, c)
    net.suspect("A", "B", "D")
    net.pump()
    assert bool(c.fetches) != silent
    net.delivered("B", A=8)
    if silent:
        net.run(a.gms.config.agree_timeout + 0.05)
    else:
        net.delivered("B", C=5)
        c.fake.event_up(Fetched())
    net.pump()
    c.deaf = False
    told = [batch.payloads[0] for _, dest, batch in net.sent if dest == "C" and is_decision(batch)]
    goals = decode_whole(read_fetch, told[-1])[2]
    assert goals[b.address] == (8, a.address)
    assert a.gms.agreements_restarted == (0 if silent else 1)


def test_notes_about_members_that_departed_before_hold_nobody_up(net: Any) -> None:
    """C has more messages from a departed member than A, and no member can fetch them any more (merge 28608)."""
    a, b, c, d, e = net.group("ABCDE")
    e.dead = True
    net.suspect("A", "E")
    net.run(0.05)
    net.delivered("E", A=0, B=1, C=1)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.05)
    assert a.view == b.view == c.view == ("A", "B", "C")
    assert a.gms.agreements_restarted == 0


def is_decision(batch: Batch) -> bool:
    return is_kind(batch, RoundKind.FETCH) or is_kind(batch, RoundKind.DECIDED)


def test_goals_that_were_given_up_do_not_let_the_view_in(net: Any) -> None:
    """A could not fetch messages that D had reported; B, whose report comes late, has them (merge 25628)."""
    a, b, c, _d = net.group("ABCD")
    net.delivered("D", A=5, B=7, C=5, D=7)
    cannot_fetch(net, a, c)
    later: list[Batch] = []

    def keep(src: Any, dest: Any, batch: Batch) -> bool:
        if src is a and dest is b and AGREE_ID in batch.headers:
            later.append(batch)
            return True
        return False

    net.lose = keep
    net.leave("D")
    net.run(3 * a.gms.config.agree_timeout)
    assert a.view == c.view == ("A", "B", "C") and b.view == ("A", "B", "C", "D")
    for batch in later:
        batch.src = a.address
        b.fake.up(batch)
    net.run(0.05)
    assert b.view == ("A", "B", "C", "D") and b.gms.agreement._ahead


def test_a_member_that_turns_out_alive_in_the_round_is_listened_to_again(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c
    net.suspect("A", "D")
    net.run(0.1)
    net.lose = lambda src, dest, batch: False
    net.unsuspect("A", "D")
    net.run(0.1)
    assert a.frozen == b.frozen == set()
    assert {n.view for n in (a, b, c, d)} == {("A", "B", "C", "D")}
    assert ("A", "B", RoundKind.THAW) in rounds(net)


def test_a_member_that_was_asked_in_a_round_that_was_replaced_hears_that_all_are_given_up(
    net: Any,
) -> None:
    """C reported; then C itself counted as departed, and then no member did (merge 20735)."""
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: src is b or src is d
    net.suspect("A", "D")
    net.pump()
    assert c.frozen
    net.suspect("A", "C")
    net.pump()
    net.unsuspect("A", "C", "D")
    net.pump()
    assert a.frozen == b.frozen == c.frozen == set() and c.held is None
    assert {n.view for n in (a, b, c, d)} == {("A", "B", "C", "D")}


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("kind", [RoundKind.FREEZE, RoundKind.DECIDED])
def test_a_freeze_that_the_end_of_its_round_has_overtaken_does_not_freeze(
    net: Any, kind: RoundKind, joined: bool
) -> None:
    """Out-of-band messages overtake each other; a new view in between changes nothing."""
    a, b, c, _d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c or dest is b
    net.suspect("A", "D")
    net.run(0.1)
    net.lose = lambda src, dest, batch: dest is b and not is_kind(batch, RoundKind.THAW)
    net.unsuspect("A", "D")
    net.run(0.1)
    net.lose = lambda src, dest, batch: False
    if joined:
        net.connect("E")
        net.run(0.3)
    sent = freeze_to(net, "B", 0)
    proposed, staying = decode_whole(read_freeze, sent.payloads[0])
    if kind is RoundKind.FREEZE:
        payload = encode_freeze(proposed + joined, staying)
    else:
        payload = encode_goals(proposed + joined, staying, {})
    first = sent.header(AGREE_ID, FragHeader)
    assert first is not None
    header = FragHeader(first.id, kind, 0)
    late = Batch.of(b.address, AGREE_ID, header, payload=payload)
    late.src = a.address
    b.fake.up(late)
    net.run(0.1)
    assert b.frozen == set()


def test_a_round_ends_for_all_when_its_coordinator_gets_a_newer_view(net: Any) -> None:
    """The others had the view before, so no other view comes that would thaw them."""
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is a  # no report comes
    net.suspect("A", "D")
    net.run(0.05)
    assert b.frozen == c.frozen == {d.address}
    members = (b.address, a.address, c.address, d.address)
    a.gms.view_received(b.address, ViewDigest(View(ViewId(b.address, 20), members)))
    net.run(0.05)
    assert a.view == ("B", "A", "C", "D")
    assert b.frozen == c.frozen == set()


def is_kind(batch: Batch, kind: RoundKind) -> bool:
    header = batch.header(AGREE_ID, FragHeader)
    return header is not None and header.index == kind


def test_a_late_freeze_of_an_older_view_does_not_freeze(net: Any) -> None:
    """T21: it reaches a member that has installed the view already."""
    a, b, _c, d = net.group("ABCD")
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    (late,) = [
        batch
        for src, dest, batch in net.sent
        if dest == "B" and (h := batch.header(AGREE_ID, FragHeader)) and h.index == RoundKind.FREEZE
    ]
    late.src = a.address
    b.fake.up(late)
    assert b.fake.take_down_events(Freeze) == [] and b.frozen == set()


def test_a_late_freeze_does_not_freeze_later_joiners(net: Any) -> None:
    _a, b, _c, d = net.group("ABCD")
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    net.connect("E")
    net.run(0.3)
    assert b.view == ("A", "B", "C", "E")
    b.fake.up(freeze_to(net, "B", 0))
    net.run(0.1)
    assert b.frozen == set()


def freeze_to(net: Any, member: str, index: int) -> Batch:
    """Return an old FREEZE for a member, as it would arrive now."""
    batch: Batch = [
        batch
        for _, dest, batch in net.sent
        if dest == member
        and (h := batch.header(AGREE_ID, FragHeader)) is not None
        and h.index == RoundKind.FREEZE
    ][index]
    batch.src = net.nodes["A"].address
    return batch


def test_a_freeze_that_was_overtaken_thaws_nobody(net: Any) -> None:
    _a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest.name == "A"  # no report comes
    c.dead = d.dead = True
    net.suspect("A", "D")
    net.run(0.05)
    net.suspect("A", "C")
    net.run(0.05)
    assert b.frozen == {c.address, d.address}
    b.fake.up(freeze_to(net, "B", 0))
    net.run(0.05)
    assert b.frozen == {c.address, d.address}


def test_a_report_of_an_overtaken_round_does_not_count(net: Any) -> None:
    """The report lacks numbers of C, which was present then."""
    a, b, c, d = net.group("ABCD")
    net.delivered("C", A=3, B=5)
    late: list[Batch] = []

    def keep(src: Any, dest: Any, batch: Batch) -> bool:
        header = batch.header(AGREE_ID, FragHeader)
        if src is b and header is not None and header.index == RoundKind.REPORT:
            late.append(batch)
            return True
        return False

    net.lose = keep
    c.dead = d.dead = True
    net.suspect("A", "D")
    net.run(0.05)
    net.suspect("A", "C")
    net.run(0.05)
    for number, batch in enumerate(list(late)):
        batch.src = b.address
        a.fake.up(batch)
        net.run(0.05)
        assert a.view == (("A", "B", "C", "D") if number == 0 else ("A", "B"))
    assert a.fetches[-1].goals[c.address] == (5, b.address)
