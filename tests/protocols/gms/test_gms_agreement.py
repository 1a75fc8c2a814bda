"""Survivors agree on a departed member's messages before the view without it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jgroups_py.address import UUID
from jgroups_py.batch import Batch
from jgroups_py.events import Fetched, Freeze, GetDigest
from jgroups_py.headers import FragHeader
from jgroups_py.protocols.gms_agree_wire import (
    AGREE_ID,
    Goals,
    Kind,
    encode_freeze,
    encode_goals,
    read_fetch,
    read_freeze,
)
from jgroups_py.values import ViewDigest
from jgroups_py.view import Digest, View, ViewId
from jgroups_py.wire import decode_whole


def rounds(net: Any, kind: Kind | None = None) -> list[tuple[str, str, int]]:
    """(from, to, kind) of all messages of rounds."""
    found = []
    for source, dest, batch in net.sent:
        header = batch.header(AGREE_ID, FragHeader)
        if header is not None and kind in (None, header.index):
            found.append((source, dest, header.index))
    return found


def test_everybody_has_the_departed_members_messages_before_the_view(net: Any) -> None:
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


def test_where_nothing_is_missing_one_round_trip_does(net: Any) -> None:
    _a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=7, C=7, D=7)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert rounds(net) == [
        ("A", "B", Kind.FREEZE),
        ("A", "C", Kind.FREEZE),
        ("B", "A", Kind.REPORT),
        ("C", "A", Kind.REPORT),
        ("A", "B", Kind.DECIDED),
        ("A", "C", Kind.DECIDED),
        ("A", "B", Kind.VIEW),
        ("A", "C", Kind.VIEW),
    ]
    assert b.fetches == c.fetches == []


def test_everybody_has_what_anybody_delivered_of_those_who_stay_too(net: Any) -> None:
    """A had a message of B's that C lost; C could crash before B repeats it."""
    _a, b, c, d = net.group("ABCD")
    net.delivered("B", A=4, B=3, C=2)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert c.view == ("A", "B", "C")
    assert c.fetches[-1].goals[b.address][0] == 4
    assert b.fetches[-1].goals[b.address][0] == 4, "B's own, which it held back"
    assert c.delivered[b.address] == b.delivered[b.address] == 4


def test_a_survivor_tells_what_it_has_of_those_who_stay(net: Any) -> None:
    """And a leaver what it has of one that is out of its view already, but not of all others'."""
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


def test_who_is_beyond_the_goal_of_one_who_stays_installs_the_view(net: Any) -> None:
    """C did not report in time, so it held nothing back. What it has more, the others will have."""
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
    """Its coordinator is cut off from it, and not suspected yet."""
    a, b, _c, d = net.group("ABCD")
    d.dead = True

    def lose(src: Any, dest: Any, batch: Batch) -> bool:
        header = batch.header(AGREE_ID, FragHeader)
        return dest is b and (header is None or header.index != Kind.FREEZE)

    net.lose = lose
    net.suspect("A", "D")
    net.run(2 * a.gms.config.agree_timeout)
    assert b.held is not None, "a round may last so long"
    net.run(2 * a.gms.config.agree_timeout)
    assert b.held is None and b.gms.holds_expired == 1


def test_what_is_held_is_handed_out_when_the_round_is_given_up(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: src is c or src is d
    net.suspect("A", "D")
    net.pump()
    assert a.held == b.held == []
    net.unsuspect("A", "D")
    net.pump()
    assert a.held is b.held is None and b.view == ("A", "B", "C", "D")
    assert not b.gms.agreement._hold.armed and b.frozen == set()


@pytest.mark.parametrize("decided_first", [True, False])
def test_who_has_reported_to_two_rounds_holds_until_both_have_ended(
    net: Any, decided_first: bool
) -> None:
    """B suspects A for a moment, while A makes a view without D; all that C has is in A's goals."""
    a, b, c, d, e = net.group("ABCDE")
    net.delivered("A", A=4, B=4, C=4, E=4)
    d.dead = True
    net.lose = lambda src, dest, batch: src is e and AGREE_ID in batch.headers
    net.suspect("A", "D")
    net.pump()
    assert c.held is not None, "reported to A, which waits for E"
    b.gms.config = replace(b.gms.config, agree_timeout=100.0)
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


@pytest.mark.parametrize("thawed", [False, True])
def test_a_view_that_is_older_than_that_of_a_round_does_not_end_it(net: Any, thawed: bool) -> None:
    """C is asked about D before it has the view with E; what it hands out then, the goals are to
    contain (all 6989)."""
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
    assert rounds(net, Kind.REPORT).count(("C", "A", Kind.REPORT)) == 2
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
    """B has done what A's round agreed on and fetches more of A in its own by now: among that is
    A's view, which C has (merge 9062). When A turns out alive, it is taken."""
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
def test_who_has_gone_on_in_a_round_of_its_own_does_not_take_the_view_before_it(
    net: Any, further: str | None
) -> None:
    """B has reported to A's round. In one of its own it hands out what A, or C, sent in A's view; then
    A turns out alive (merge 21556, 22904)."""
    a, b, c, d = net.group("ABCD")
    net.delivered("A", A=2, B=2, C=2)
    net.delivered("C", A=3, B=3, C=3)
    d.dead = True
    net.lose = lambda src, dest, batch: src is a and dest is b and not is_kind(batch, Kind.FREEZE)
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
        batch for source, dest, batch in net.sent if is_kind(batch, Kind.DECIDED) and dest == "B"
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


def test_joins_do_not_need_a_round(net: Any) -> None:
    net.group("ABC")
    assert rounds(net) == []


def test_who_has_reported_takes_nothing_more(net: Any) -> None:
    _, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert b.frozen == {d.address}
    assert b.view == ("A", "B", "C", "D")


def test_the_round_covers_every_sender_that_is_not_in_the_new_view(net: Any) -> None:
    """B has D still, since it did not get the view without it."""
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


def test_who_has_the_view_already_still_says_what_it_has_of_those_it_left_out(net: Any) -> None:
    """B has D still, C has not; but its NAKACK2 remembers D."""
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
    """B, who has the missing message, dies while C fetches it."""
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=9, C=7)
    d.dead = True
    net.lose = lambda src, dest, batch: (
        Kind.DONE in [h.index for h in batch.headers.values() if isinstance(h, FragHeader)]
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


def cannot_fetch(net: Any, *nodes: Any) -> None:
    """What these members are told to fetch does not come."""
    fetch = net._fetch
    net._fetch = lambda node, event: None if node in nodes else fetch(node, event)


def test_who_has_not_fetched_in_time_installs_the_view_when_it_has(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=9, B=9, C=7)
    d.dead = True
    cannot_fetch(net, c)
    net.suspect("A", "D")
    net.run(a.gms.config.agree_timeout + 0.1)
    assert a.view == b.view == ("A", "B", "C"), "C is not waited for"
    assert c.view == ("A", "B", "C", "D")
    c.delivered[d.address] = 9
    c.fake.event_up(Fetched())
    net.run(0.1)
    assert c.view == ("A", "B", "C")


def test_what_a_coordinator_could_not_fetch_nobody_has_in_its_view(net: Any) -> None:
    """The goal then is what the coordinator has: B, which has more, does not come along."""
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=9, C=7)
    d.dead = True
    cannot_fetch(net, a, c)
    net.suspect("A", "D")
    net.run(a.gms.config.agree_timeout + 0.1)
    assert a.view == c.view == ("A", "B", "C")
    assert (a.delivered, c.delivered) == ({a.address: 0, b.address: 0, c.address: 0},) * 2
    assert b.view == ("A", "B", "C", "D")


def test_it_can_be_switched_off(net: Any) -> None:
    a, b, _c, d = net.group("ABCD", agree_timeout=0.0)
    net.delivered("D", A=7, B=9)
    d.dead = True
    net.suspect("A", "D")
    net.run(0.1)
    assert a.view == b.view == ("A", "B", "C")
    assert {kind for _, _, kind in rounds(net)} == {Kind.DECIDED, Kind.VIEW}, "nobody is asked"
    assert b.fetches == []


def test_a_view_that_overtakes_the_decision_waits_for_it(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.delivered("D", A=7, B=7, C=5)
    d.dead = True
    kept: list[Any] = []

    def later(src: Any, dest: Any, batch: Any) -> bool:
        """What belongs to the round stays behind on its way to C; the views do not."""
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
        if (h := batch.header(AGREE_ID, FragHeader)).index == Kind.DECIDED
    )
    late = Batch.of(c.address, AGREE_ID, header, payload=payload)
    late.src = src.address
    a.delivered[d.address] = 7  # A still keeps what is not stable
    c.fake.up(late)
    net.run(0.1)
    assert c.view == ("A", "B", "C", "D"), "other goals may come until the view is handed over"
    net.hand_over(c)
    assert c.view == ("A", "B", "C") and c.fetches[-1].goals[d.address] == (7, a.address)


def test_a_merge_ends_the_wait_of_who_was_left_behind(net: Any) -> None:
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
    """It was decided that D goes; the view is without C and D."""
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
    """A round of B, which it has given up on, has taken A further (merge 27153): while A waits for the
    silent C to report, or for C to fetch."""
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


def test_what_is_remembered_of_who_departed_before_holds_nobody_up(net: Any) -> None:
    """C knows more of it than A does, and nobody can fetch it any more (merge 28608)."""
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
    return is_kind(batch, Kind.FETCH) or is_kind(batch, Kind.DECIDED)


def test_goals_that_were_given_up_do_not_let_the_view_in(net: Any) -> None:
    """A could not fetch what D had said to have; B, which comes late, has it (merge 25628)."""
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


def test_who_turns_out_alive_in_the_round_is_listened_to_again(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c
    net.suspect("A", "D")
    net.run(0.1)
    net.lose = lambda src, dest, batch: False
    net.unsuspect("A", "D")
    net.run(0.1)
    assert a.frozen == b.frozen == set()
    assert {n.view for n in (a, b, c, d)} == {("A", "B", "C", "D")}
    assert ("A", "B", Kind.THAW) in rounds(net)


def test_who_was_asked_in_a_round_that_was_replaced_hears_that_all_are_given_up(net: Any) -> None:
    """C reported, then it was taken for departed itself, then nobody was (merge 20735)."""
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
@pytest.mark.parametrize("kind", [Kind.FREEZE, Kind.DECIDED])
def test_what_the_end_of_a_round_has_overtaken_does_not_freeze(
    net: Any, kind: Kind, joined: bool
) -> None:
    """Out-of-band messages overtake each other; a new view in between changes nothing."""
    a, b, c, _d = net.group("ABCD")
    net.lose = lambda src, dest, batch: dest is c or dest is b
    net.suspect("A", "D")
    net.run(0.1)
    net.lose = lambda src, dest, batch: dest is b and not is_kind(batch, Kind.THAW)
    net.unsuspect("A", "D")
    net.run(0.1)
    net.lose = lambda src, dest, batch: False
    if joined:
        net.connect("E")
        net.run(0.3)
    sent = freeze_to(net, "B", 0)
    proposed, staying = decode_whole(read_freeze, sent.payloads[0])
    if kind is Kind.FREEZE:
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
    """The others had it before: nobody sends them another one that would thaw them."""
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


def is_kind(batch: Batch, kind: Kind) -> bool:
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
        if dest == "B" and (h := batch.header(AGREE_ID, FragHeader)) and h.index == Kind.FREEZE
    ]
    late.src = a.address
    b.fake.up(late)
    assert b.fake.take_down_events(Freeze) == [] and b.frozen == set()


def test_a_late_freeze_does_not_freeze_who_has_joined_since(net: Any) -> None:
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
    """A FREEZE that was sent to a member before, as it would come now."""
    batch: Batch = [
        batch
        for _, dest, batch in net.sent
        if dest == member
        and (h := batch.header(AGREE_ID, FragHeader)) is not None
        and h.index == Kind.FREEZE
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
    """It says nothing of C, which was there then."""
    a, b, c, d = net.group("ABCD")
    net.delivered("C", A=3, B=5)
    late: list[Batch] = []

    def keep(src: Any, dest: Any, batch: Batch) -> bool:
        header = batch.header(AGREE_ID, FragHeader)
        if src is b and header is not None and header.index == Kind.REPORT:
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


def test_a_leaver_counts_what_it_has_sent_and_not_delivered_to_itself_yet(net: Any) -> None:
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
    a.gms.view = type(a.gms.view)(a.gms.view.view_id, (a.address, plain, c.address, d.address))
    net.suspect("A", "D")
    net.run(0.1)
    assert {dest for _, dest, _ in rounds(net, Kind.FREEZE)} == {"C"}


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


def test_goals_are_read_as_they_were_written() -> None:
    from jgroups_py.protocols.gms_agree_wire import read_goals, write_goals
    from jgroups_py.testing import make_address
    from jgroups_py.wire import decode_whole, encode_whole

    goals: Goals = {
        make_address(1): (5, make_address(2)),
        make_address(3): (2**40, make_address(1)),
    }
    assert decode_whole(read_goals, encode_whole(write_goals, goals)) == goals
