"""The parts of RELAY, each alone: without a stack, a network or another member."""

from __future__ import annotations

from typing import Any

import pytest
from relay_recorded import Recorded

from jgroups_py.protocols.relay.bridge.direction import Direction
from jgroups_py.protocols.relay.bridge.session import RelaySession, Sessions
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.holders.collect import CopyHolding
from jgroups_py.protocols.relay.home.buffer import RelayBuffer
from jgroups_py.protocols.relay.home.departures import Departures
from jgroups_py.protocols.relay.home.keep import CopyKeeping
from jgroups_py.protocols.relay.home.origins import Origins
from jgroups_py.protocols.relay.home.stability import Stability
from jgroups_py.protocols.relay.home.trim import Trimming
from jgroups_py.protocols.relay.posts import BridgePosts
from jgroups_py.protocols.relay.remote.forwarded import Forwarded
from jgroups_py.protocols.relay.remote.incoming import RelayedIncoming
from jgroups_py.protocols.relay.site.control import ControlRecords
from jgroups_py.protocols.relay.site.joining import Joining
from jgroups_py.protocols.relay.site.reports import Reporting
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import RelayState, fresh_from
from jgroups_py.protocols.relay.status import RelayCounters
from jgroups_py.protocols.relay.wire import (
    Block,
    CollectAnswer,
    CollectAsk,
    Fetch,
    Fetched,
    Gap,
    Lack,
    Report,
    encode,
)
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowBlocked, FlowOpened
from jgroups_py.values.view import View, ViewId


def member(letter: str) -> UUID:
    """Return a UUID of ours."""
    return UUID(letter.encode() * 12 + b"jgpy")


R, S, M, O = (member(letter) for letter in "RSMO")  # noqa: E741
ORIGIN = bytes(O)


def view(*members: UUID, number: int = 1) -> View:
    return View(ViewId(members[0], number), members)


def roles_of(me: UUID, *members: UUID, holders: int = 2) -> Roles:
    roles = Roles(me, holders)
    roles.install(view(*members))
    return roles


def state_of(**delivered: int) -> RelayState:
    state = RelayState("NYC", "all", ["NYC", "SFO"])
    state.delivered.update({bytes(member(name)): number for name, number in delivered.items()})
    return state


def run(*payloads: bytes) -> Batch:
    return Batch(None, payloads, {}, O)


# --- numbers


def test_only_the_part_of_a_run_without_a_gap_before_it_is_fresh() -> None:
    assert fresh_from(3, 4, 6) == 4
    assert fresh_from(3, 2, 6) == 4
    assert fresh_from(3, 1, 3) == 4, "nothing is fresh: the number after the run"
    assert fresh_from(3, 5, 6) is None, "4 is missing"


# --- remote


def test_a_run_is_taken_once_and_in_order() -> None:
    state = RelayState("SFO", "all", ["NYC", "SFO"])
    incoming = RelayedIncoming(Recorded(S), state)
    assert incoming.take("NYC", ORIGIN, 1, 3) == 1
    assert incoming.take("NYC", ORIGIN, 2, 5) == 4
    assert incoming.take("NYC", ORIGIN, 1, 5) == 6
    assert state.site_digest == {"NYC": {ORIGIN: 5}}


def test_a_gap_is_reported_once_until_something_comes() -> None:
    incoming = RelayedIncoming(Recorded(S), RelayState("SFO", "all", ["NYC", "SFO"]))
    incoming.take("NYC", ORIGIN, 1, 1)
    lack = Lack("NYC", {ORIGIN: 1})
    assert incoming.take("NYC", ORIGIN, 3, 4) is None
    assert incoming.lack("NYC", ORIGIN) == lack
    assert incoming.take("NYC", ORIGIN, 5, 5) is None
    assert incoming.lack("NYC", ORIGIN) is None
    assert incoming.lacks() == [lack]
    assert incoming.take("NYC", ORIGIN, 2, 2) == 2
    assert incoming.lacks() == []


def test_numbers_that_will_not_come_are_skipped() -> None:
    state = RelayState("SFO", "all", ["NYC", "SFO"])
    incoming = RelayedIncoming(Recorded(S), state)
    incoming.take("NYC", ORIGIN, 1, 1)
    incoming.take("NYC", ORIGIN, 5, 5)
    incoming.lack("NYC", ORIGIN)
    assert incoming.skip(Gap(1, "NYC", {ORIGIN: 4}, False)) == [(ORIGIN, 2, 4)]
    assert incoming.skip(Gap(2, "NYC", {ORIGIN: 4}, False)) == []
    assert incoming.skip(Gap(3, "NYC", {ORIGIN: 9}, True)) == [], "the beginning is no loss"
    assert state.has("NYC", ORIGIN) == 9 and incoming.lacks() == []


def test_an_origin_that_was_forgotten_goes_on_where_it_was() -> None:
    state = RelayState("SFO", "all", ["NYC", "SFO"])
    incoming = RelayedIncoming(Recorded(S), state)
    incoming.take("NYC", ORIGIN, 1, 3)
    incoming.take("NYC", ORIGIN, 5, 5)
    incoming.lack("NYC", ORIGIN)
    state.forget_remote("NYC", [ORIGIN], 0.0)
    incoming.forget("NYC", [ORIGIN])
    assert incoming.lacks() == []
    assert incoming.take("NYC", ORIGIN, 2, 4) == 4 and incoming.came_back
    assert incoming.take("NYC", ORIGIN, 5, 5) == 5 and not incoming.came_back


def test_a_relay_multicasts_only_the_next_number() -> None:
    forwarded = Forwarded()
    assert forwarded.take("NYC", ORIGIN, 2, 3) is None
    assert forwarded.take("NYC", ORIGIN, 1, 3) == 1
    assert forwarded.take("NYC", ORIGIN, 1, 3) == 4
    assert forwarded.skip("NYC", {ORIGIN: 3}) == {}
    assert forwarded.skip("NYC", {ORIGIN: 5}) == {ORIGIN: 5}
    assert forwarded.of("NYC") == {ORIGIN: 5}


def test_a_relay_goes_back_for_a_member_once_in_a_while() -> None:
    forwarded = Forwarded()
    forwarded.take("NYC", ORIGIN, 1, 9)
    assert forwarded.lack("NYC", {ORIGIN: 4}, 0.0, 1.0) == [ORIGIN]
    assert forwarded.of("NYC") == {ORIGIN: 4}
    forwarded.take("NYC", ORIGIN, 5, 9)
    assert forwarded.lack("NYC", {ORIGIN: 4}, 0.5, 1.0) == []
    assert forwarded.lack("NYC", {ORIGIN: 3}, 0.5, 1.0) == [ORIGIN], "less than before"
    forwarded.take("NYC", ORIGIN, 4, 9)
    assert forwarded.lack("NYC", {ORIGIN: 3}, 1.5, 1.0) == [ORIGIN], "it has waited long enough"
    forwarded.take("NYC", ORIGIN, 4, 9)
    forwarded.view_changed()
    assert forwarded.lack("NYC", {ORIGIN: 3}, 1.6, 1.0) == [ORIGIN], "a new view, a new question"


def test_a_member_that_stays_behind_gets_the_rest_again() -> None:
    forwarded = Forwarded()
    forwarded.take("NYC", ORIGIN, 1, 9)
    lowest = {"NYC": {ORIGIN: 4}}
    assert forwarded.behind(lowest, 0.0, 3.0, False) == ([], True)
    assert forwarded.behind(lowest, 3.0, 3.0, True) == ([], True), "nothing may be multicast"
    assert forwarded.behind(lowest, 3.0, 3.0, False) == ([("NYC", ORIGIN)], False)
    assert forwarded.of("NYC") == {ORIGIN: 4}
    forwarded.all_have({"NYC": {ORIGIN: 7, bytes(M): 2}})
    assert forwarded.of("NYC") == {ORIGIN: 7}, "it came by other ways; origins unknown here stay so"


# --- home


def test_a_trim_has_the_numbers_acknowledged_by_all_sites_since_the_last() -> None:
    trimming = Trimming()
    acknowledged = {ORIGIN: 5, bytes(M): 2}.__getitem__
    origins = [ORIGIN, bytes(M)]
    assert trimming.due(origins, {bytes(M): 2}, acknowledged) == {ORIGIN: 5}
    trimming.repeat()
    assert trimming.due(origins, {bytes(M): 2}, acknowledged) == {ORIGIN: 5, bytes(M): 2}
    trimming.told([ORIGIN], 1)
    trimming.forgets([ORIGIN], 2)
    assert trimming.due(origins, {bytes(M): 2}, acknowledged) == {}, "no trim follows a FORGET"


def test_an_origin_is_forgotten_when_its_last_trim_is_stable() -> None:
    trimming = Trimming()

    def everything(serial: int) -> bool:
        return True

    def nothing(serial: int) -> bool:
        return False

    assert not trimming.may_forget(ORIGIN, 4, 5, everything), "5 is not acknowledged"
    assert not trimming.may_forget(ORIGIN, 5, 5, everything), "no trim of it was told"
    assert trimming.trim_all, "the next one repeats all"
    trimming.told([ORIGIN], 7)
    assert not trimming.trim_all
    assert not trimming.may_forget(ORIGIN, 5, 5, nothing)
    assert trimming.may_forget(ORIGIN, 5, 5, everything)
    trimming.forgets([ORIGIN], 8)
    assert trimming.forgotten_by_all(nothing) == []
    assert trimming.forgotten_by_all(everything) == [ORIGIN]
    trimming.end([ORIGIN])
    assert trimming.forgetting == {} and trimming.trim_serials == {}


def test_forgotten_origins_are_repeated_once_after_a_merge() -> None:
    trimming = Trimming()
    assert not trimming.take_merge()
    trimming.merged()
    assert trimming.take_merge() and not trimming.take_merge()
    trimming.merged()
    trimming.step_down()
    assert not trimming.take_merge()


def test_stable_is_the_newest_number_of_ours_at_a_number_of_nakack() -> None:
    stability = Stability(3)
    for seqno, number in ((10, 1), (14, 4), (15, 5)):
        stability.mark(ORIGIN, seqno, number)
    assert not stability.on_stable(ORIGIN, 9)
    assert stability.on_stable(ORIGIN, 14) and stability.numbers == {ORIGIN: 4}
    assert not stability.on_stable(ORIGIN, 14) and not stability.on_stable(bytes(M), 99)
    for seqno in range(16, 20):
        stability.mark(ORIGIN, seqno, seqno)
    assert [mark[0] for mark in stability.marks[ORIGIN]] == [17, 18, 19], (
        "the oldest mark goes first"
    )
    stability.forget(ORIGIN)
    assert not stability.numbers and not stability.marks


def test_a_site_may_be_the_missing_members_if_they_are_as_many_as_the_present() -> None:
    out, roles = Recorded(R), roles_of(R, R, S, M, O)
    departures = Departures(out, roles, 100.0)
    old = roles.line
    out.clock = 5.0
    roles.install(view(R, S, number=2))
    departures.note_lost(old, [])
    assert departures.may_be_cut_off and out.counters.cut_off == 1
    assert list(departures.lost_at) == [M, O] and departures.shrunk_at == 5.0
    assert departures.lost_timer.deadline == 105.0
    out.clock = 105.0
    departures.forget_lost()
    assert not departures.may_be_cut_off and departures.lost_timer.deadline is None
    assert list(departures.gone_at) == [bytes(M), ORIGIN], "they are still to be forgotten"
    assert departures.gone_for(ORIGIN, 100.0) and not departures.gone_for(ORIGIN, 101.0)


def test_dead_members_are_not_missing_and_returned_ones_are_not_gone() -> None:
    out, roles = Recorded(R), roles_of(R, R, S, M)
    departures = Departures(out, roles, 100.0)
    old = roles.line
    roles.install(view(R, number=2))
    departures.note_lost(old, [S, M])
    assert not departures.lost_at and not departures.may_be_cut_off
    departures.note_departed([bytes(R), ORIGIN])
    assert list(departures.gone_at) == [bytes(S), bytes(M), ORIGIN]
    roles.install(view(R, S, number=3))
    departures.note_departed([])
    assert list(departures.gone_at) == [bytes(M), ORIGIN]


def keeping_of(
    roles: Roles, state: RelayState, out: Recorded, limit: int = 10, overflow: Any = "drop_oldest"
) -> CopyKeeping:
    config = RelayConfig(
        site="NYC", bridge="bridge", max_messages=limit, overflow=overflow, block_credits=1
    )
    buffer = RelayBuffer(limit, 100_000, 0.0)
    return CopyKeeping(config, out, roles, state, buffer)


def test_only_unacknowledged_runs_are_kept() -> None:
    out, state = Recorded(R), state_of()
    keeping = keeping_of(roles_of(R, R, S), state, out)
    state.trim_to(ORIGIN, 2)
    keeping.keep(ORIGIN, 1, run(b"1", b"2"))
    assert len(keeping.buffer) == 0 and out.woken == 0
    keeping.keep(ORIGIN, 2, run(b"2", b"3", b"4"))
    assert keeping.buffer.ranges(ORIGIN) == [(3, 4)] and out.woken == 1
    state.trim_to(ORIGIN, 3)
    keeping.trim()
    assert keeping.buffer.ranges(ORIGIN) == [(4, 4)]
    assert keeping.trim_to(ORIGIN, 4) == 1


def test_messages_beyond_the_limit_are_dropped_and_counted() -> None:
    out = Recorded(R)
    keeping = keeping_of(roles_of(R, R, S), state_of(), out, limit=3)
    keeping.keep(ORIGIN, 1, run(*[b"x"] * 5))
    assert keeping.buffer.ranges(ORIGIN) == [(3, 5)]
    assert out.counters.overflowed == 2
    assert [what for what, _ in out.traces] == ["buffer", "overflow"]


def test_a_relay_blocks_its_site_and_lets_it_go_on() -> None:
    out, state = Recorded(R), state_of()
    keeping = keeping_of(roles_of(R, R, S), state, out, overflow="block")
    keeping.keep(ORIGIN, 1, run(*[b"x"] * 10))
    assert out.said == [Block(1, True)]
    assert isinstance(keeping.on_block(True), FlowBlocked) and keeping.on_block(True) is None
    state.trim_to(ORIGIN, 9)
    keeping.trim()
    keeping.check_block()
    assert out.said[1:] == [Block(2, False)]
    assert isinstance(keeping.on_block(False), FlowOpened)
    keeping.on_block(True)
    assert keeping.view_changed() and not keeping.view_changed()


# --- holders


def test_a_round_ends_when_all_have_answered_and_nothing_is_left_to_fetch() -> None:
    out, state, buffer = Recorded(S), state_of(O=2), RelayBuffer(10, 100_000, 0.0)
    roles = roles_of(S, R, S, M)
    holding = CopyHolding(out, roles, state, buffer)
    holding.new_round()
    assert holding.ask_silent_ones() and not holding.complete
    assert out.told == [(R, CollectAsk(roles.key)), (M, CollectAsk(roles.key))]
    known = state_of(O=3).known(0, 0.0)
    assert not holding.answered(R, CollectAnswer((b"", 9), known, {})), "of another view"
    assert holding.answered(R, CollectAnswer(roles.key, known, {ORIGIN: [(1, 3)]}))
    assert holding.fetch_next() is None and holding.takes_copies_of(R)
    assert out.told[-1] == (R, Fetch(roles.key, {ORIGIN: [(1, 3)]}))
    buffer.add(ORIGIN, 1, [b"1", b"2"], 0, 0, 0.0)
    assert holding.fetched(R, Fetched(roles.key, {ORIGIN: [(3, 3)]}))
    assert holding.fetch_next() is None and out.told[-1][1] == Fetch(roles.key, {ORIGIN: [(3, 3)]})
    assert holding.fetched(R, Fetched(roles.key, {}))
    assert holding.fetch_next() is None, "M has not answered"
    assert holding.answered(M, CollectAnswer(roles.key, known, {}))
    collect = holding.fetch_next()
    assert collect is not None
    holding.collected(collect)
    assert holding.complete and holding.round is None
    assert holding.known(ORIGIN) == 3, "others have delivered it"
    holding.keep(view(S))
    assert holding.known(ORIGIN) == 2


def test_only_a_second_look_counts_as_one() -> None:
    """A relay gives up a missing number only if it has searched again since the number was missing."""
    out, buffer = Recorded(S), RelayBuffer(10, 100_000, 0.0)
    out.clock = 5.0
    holding = CopyHolding(out, roles_of(R, R, S), state_of(), buffer)
    never = holding.looked_at
    holding.new_round()
    assert not holding.looked() and holding.looked_at == never
    holding.new_round(complete=True, second_look=True)
    assert holding.looked() and holding.looked_at == 5.0
    assert not holding.looked(), "it is over"


def test_copies_are_sent_until_the_room_is_used_up() -> None:
    out, buffer = Recorded(R), RelayBuffer(10, 100_000, 0.0)
    for number in (1, 2, 4):
        buffer.add(ORIGIN, number, [b"x" * 100], 0, 0, 0.0)
    holding = CopyHolding(out, roles_of(R, R, S), state_of(O=4), buffer)
    holding.send_copies(S, Fetch((b"", 1), {ORIGIN: [(1, 4)]}), 500)
    assert out.copies == [(S, ORIGIN, 1, 1), (S, ORIGIN, 2, 1)]
    assert out.told == [(S, Fetched((b"", 1), {ORIGIN: [(3, 4)]}))]


# --- posts, relays


def test_posts_that_wait_for_a_site_have_a_limit_together() -> None:
    counters, sent = RelayCounters(), list[bytes]()
    sessions = Sessions({R: RelaySession(R)})
    posts = BridgePosts(counters, sessions, lambda session, payload: sent.append(payload), 10)
    posts.links["SFO"] = R
    assert posts.send("SFO", bytes(20)), "nothing waits"
    sessions[R].blocked = True
    assert posts.send("SFO", bytes(6)) and posts.send("SFO", bytes(4)), "just as many as may wait"
    assert not posts.send("SFO", b"x")
    assert (len(sent), sessions[R].post_bytes, counters.posts_dropped) == (1, 10, 1)


@pytest.mark.parametrize(
    ("primary", "said"),
    [
        ("all", "primary: all; this site, NYC, relays to the others"),
        ("NYC", "primary: NYC; this site relays to the others"),
        ("SFO", "primary: SFO; this site, NYC, does not relay"),
    ],
)
def test_a_member_says_which_site_relays(
    caplog: pytest.LogCaptureFixture, primary: str, said: str
) -> None:
    config = RelayConfig(site="NYC", sites=("NYC", "SFO"), primary=primary, bridge="b.xml")
    caplog.set_level("INFO")
    origins: Any = None  # none are examined
    Direction(config, Recorded(R), roles_of(R, R), state_of(), origins).say()
    (record,) = caplog.records
    assert record.getMessage().startswith(said)


# --- origins, sessions


def test_an_origin_is_sendable_as_far_as_it_is_stable() -> None:
    out, roles, state = Recorded(R), roles_of(R, R, S, O), state_of(O=5, M=3)
    buffer, stability, trimming = RelayBuffer(10, 100_000, 0.0), Stability(9), Trimming()
    departures, holding = Departures(out, roles, 9.0), CopyHolding(out, roles, state, buffer)
    names: dict[Address, str] = {O: "O"}
    args = (roles, state, holding, buffer, departures, trimming)
    received = Origins(*args, None, lambda m: names.get(m))
    stable = Origins(*args, stability, lambda m: names.get(m))
    stability.mark(ORIGIN, 1, 4)
    stability.on_stable(ORIGIN, 1)
    assert (received.sendable(ORIGIN), stable.sendable(ORIGIN)) == (5, 4)
    assert stable.sendable(bytes(M)) == 3, "the departed are relayed as far as survivors have them"
    assert list(stable.origins()) == [ORIGIN, bytes(M)]
    trimming.forgets([b"f" * 16], 1)
    assert stable.still_known() == [ORIGIN, bytes(M), bytes(R), bytes(S), b"f" * 16]
    assert stable.source(ORIGIN) is stable.source(ORIGIN)
    assert (stable.source(ORIGIN).site, stable.was_silent(b"q" * 16)) == ("NYC", True)


def session_of(peer: UUID, site: str, **acked: int) -> RelaySession:
    session = RelaySession(peer)
    session.site = site
    session.acked = {bytes(member(name)): number for name, number in acked.items()}
    return session


def test_a_forgotten_origin_of_another_site_leaves_no_state() -> None:
    """A Have for the origin that is still due would request its messages again, from the first one on."""
    sessions = Sessions()
    session = sessions[R] = session_of(R, "SFO")
    stays, goes = bytes(S), bytes(M)
    session.have["SFO"] = {stays: 5, goes: 7}
    session.told = {stays: 5, goes: 7}
    session.owes_have = {stays: None, goes: None}
    sessions.forget([goes])
    assert session.have["SFO"] == session.told == {stays: 5}
    assert session.owes_have == {stays: None}


def test_a_number_is_acknowledged_when_all_relays_of_all_sites_have_it() -> None:
    sessions = Sessions()
    for session in (
        session_of(R, "SFO", O=5),
        session_of(S, "SFO", O=3),
        session_of(M, "LON", O=4),
    ):
        sessions[session.peer] = session
    assert sessions.acknowledged(["SFO"], ORIGIN) == 3
    assert sessions.acknowledged(["LON", "SFO"], ORIGIN) == 3
    assert sessions.acknowledged(["LON", "PAR"], ORIGIN) == 0, "PAR has no relay on the bridge"
    assert (sessions.relays_of("SFO"), sessions.relays_of("LON")) == (2, 1)
    sessions[O] = RelaySession(O)
    assert sessions.relays_of("LON") == 2, "nobody knows of which site O is relay"
    sessions.forget([ORIGIN])
    assert sessions.acknowledged(["SFO"], ORIGIN) == 0


def test_messages_up_to_the_former_end_count_as_replay() -> None:
    session = session_of(R, "SFO")
    session.begin(1)
    session.answered({ORIGIN: 2}, {ORIGIN: 5})
    assert session.sent(ORIGIN, 3, 2) == 2 and session.cursor[ORIGIN] == 4
    assert session.sent(ORIGIN, 5, 3) == 1 and session.replay_to == {}
    assert session.sent(ORIGIN, 8, 1) == 0
    assert session.back_to({ORIGIN: 6}, {ORIGIN: 8}) and session.sent(ORIGIN, 7, 2) == 2


# --- site


def test_a_report_has_the_changes() -> None:
    reporting = Reporting(3)
    assert not reporting.progress(2) and reporting.progress(1)
    reporting.reset()
    assert not reporting.progress(2)
    key = (b"v", 1)
    digest = {"SFO": {ORIGIN: 2}}
    assert reporting.report(key, 1, True, digest) == Report(key, 1, True, digest)
    assert reporting.report(key, 1, True, digest) is None
    assert reporting.report(key, 2, True, digest) == Report(key, 2, True, {})
    reporting.forget("SFO", [ORIGIN])
    assert reporting.report(key, 2, True, digest) == Report(key, 2, True, digest)
    reporting.view_changed()
    assert reporting.report(key, 2, True, digest) == Report(key, 2, True, digest)


def test_only_members_of_ours_are_in_line() -> None:
    java = UUID(b"j" * 16)
    roles = roles_of(S, java, R, S, M)
    assert roles.line == (R, S, M) and roles.holders == (R, S)
    assert (roles.is_relay, roles.is_holder) == (False, True)
    roles.install(view(java, S, M, number=2))
    assert roles.is_relay and roles.other_holders == [M] and roles.others == [M]
    roles.leave()
    assert not roles.is_relay


def test_control_that_cannot_be_is_counted_and_not_applied() -> None:
    out = Recorded(R)
    control = ControlRecords(out, "NYC")

    def accepted(record: Any, dest: Address | None = None, src: Address = S) -> bool:
        return bool(list(control.records(Batch(dest, [encode(record)], {}, src))))

    ours, theirs = {ORIGIN: 3}, {bytes(M): 3}
    assert accepted(Gap(1, "SFO", theirs, False)) and accepted(Lack("SFO", theirs), R)
    assert out.counters.malformed == 0
    assert not accepted(Gap(1, "NYC", ours, False)) and not accepted(Lack("NYC", ours), R)
    assert out.counters.malformed == 2, "numbers of our own site"
    assert not accepted(Gap(1, "SFO", theirs, False), R) and not accepted(Lack("SFO", theirs))
    assert out.counters.malformed == 4, "sent the wrong way"
    assert not accepted(Lack("SFO", theirs), R, UUID(bytes(16)))
    assert out.counters.malformed == 5, "of a member that has no RELAY of ours"


def test_a_joiner_waits_in_a_queue_that_has_a_limit() -> None:
    roles = Roles(S, 2)
    joining = Joining(Recorded(S), roles, 3)
    assert joining.waits, "there is no view yet"
    roles.install(view(R, S))
    joining.join(roles.key)
    assert joining.waits
    assert joining.enqueue(run(b"1", b"2")) and not joining.enqueue(run(b"3", b"4"))
    joining.begin()
    assert not joining.waits
    assert [len(batch) for batch in joining.take_queue()] == [2] and joining.queued == 0


def test_the_beginning_of_a_view_is_remembered_until_all_have_begun() -> None:
    roles, state = roles_of(R, R, S), state_of(O=3)
    joining = Joining(Recorded(R), roles, 3)
    joining.remember_view([S], lambda: state.known(1, 0.0))
    first = roles.key
    state.delivered[ORIGIN] = 9
    roles.install(view(R, S, number=2))
    joining.remember_view([], lambda: state.known(2, 0.0))
    found = joining.snapshot(first)
    assert found is not None and found.delivered == {ORIGIN: 3}
    assert joining.all_have_begun() and not joining.all_have_begun(), "once in a view"
    joining.on_begun([bytes(S)])
    assert joining.snapshot(first) is None and not joining.fresh
