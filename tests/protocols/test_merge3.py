"""MERGE3: different views are noticed and reported."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.membership.merge3 import MERGE3
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.testing.check.tables import named_in
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    FindMembers,
    FoundMember,
    GetPhysical,
    HasMulticast,
    MembersFound,
    MergeViews,
    PhysicalAddress,
    ViewChange,
    WentOn,
    Withhold,
)
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import MergeHeader, MergeType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_opt_view

A, B, C, D = (make_address(n) for n in (1, 2, 3, 4))
HERE, THERE = IpAddress("10.0.0.1", 7800), IpAddress("10.0.0.2", 7800)
ID = MERGE3.protocol_id


def view(number: int, *members: Any) -> View:
    return View(ViewId(members[0], number), members)


OWN, OTHER = view(4, A, B), view(3, C, D)


def stack(own: View = OWN, *, multicast: bool = True, **config: Any) -> FakeStack:
    settings = {"min_interval": 1.0, "max_interval": 10.0, **config}
    fake = FakeStack(
        MERGE3(**settings), address=A, answers={HasMulticast: multicast, GetPhysical: HERE}
    )
    fake.event_down(ViewChange(own, None))
    fake.take_down_events()
    return fake


def info(src: Any, of: View, physical: IpAddress | None = None) -> Batch:
    batch = Batch.of(None, ID, MergeHeader(MergeType.INFO, of.view_id, "C", physical))
    batch.src = src
    return batch


def answer(src: Any, of: View | None) -> Batch:
    payload = encode_whole(write_opt_view, of)
    batch = Batch.of(A, ID, MergeHeader(MergeType.VIEW_RSP), payload=payload)
    batch.src = src
    return batch


def sent(fake: FakeStack, kind: MergeType) -> list[Any]:
    headers = [(b.dest, b.header(ID, MergeHeader)) for b in fake.take_down()]
    return [dest for dest, header in headers if header is not None and header.type == kind]


def test_the_view_is_announced_at_random_intervals() -> None:
    fake = stack()
    fake.advance(100.0)
    out = fake.take_down()
    assert 7 <= len(out) <= 20
    assert {(b.dest, b.headers[ID]) for b in out} == {
        (None, MergeHeader(MergeType.INFO, OWN.view_id, "A", HERE))
    }


def test_without_multicast_the_announcement_goes_to_each_address_found() -> None:
    fake = stack(multicast=False)
    fake.advance(15.0)
    assert fake.take_down() == []
    search = fake.take_down_events(FindMembers)[0]
    assert (search.requester, search.initial, search.stop_at_coordinator) == (
        "MERGE3",
        False,
        False,
    )
    found = [FoundMember(m, None, p, True, False) for m, p in ((A, HERE), (C, THERE), (D, THERE))]
    fake.event_up(MembersFound("MERGE3", tuple(found)))
    assert sent(fake, MergeType.INFO) == [THERE]
    assert fake.take_up_events() == []


def test_the_search_of_another_member_is_passed_on() -> None:
    fake = stack()
    event = MembersFound("GMS", ())
    fake.event_up(event)
    assert fake.take_up_events() == [event]


def test_an_announcement_tells_where_the_member_is_once() -> None:
    fake = stack()
    fake.up(info(C, OTHER, THERE))
    fake.up(info(C, OTHER, THERE))
    assert fake.take_down_events() == [PhysicalAddress(C, THERE, "C")]
    assert fake.take_up() == []


def test_the_address_of_a_member_is_forgotten_when_it_has_been_silent_for_long() -> None:
    """The member was about to join, but left, and no view reports that (membership 1..40)."""
    fake = stack(check_interval=1.0)
    fake.up(info(C, OTHER, THERE))
    fake.advance(20.0)
    assert C in [address for _, address in named_in(fake.protocol)]
    fake.advance(20.0)
    assert C not in [address for _, address in named_in(fake.protocol)]


def test_the_address_of_a_member_is_forgotten_with_a_view_that_lacks_it() -> None:
    fake = stack(view(4, A, C), check_interval=1.0)
    fake.up(info(C, view(4, A, C), THERE))
    fake.event_down(ViewChange(view(5, A, B), None))
    assert C not in [address for _, address in named_in(fake.protocol)]


def test_different_views_are_asked_for_and_reported() -> None:
    fake = stack()
    fake.up(info(B, OWN))
    fake.up(info(C, OTHER))
    fake.up(info(D, OTHER))
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [C], "its creator only"
    fake.up(answer(C, OTHER))
    assert fake.take_up_events() == [MergeViews({C: OTHER, A: OWN})]


def test_three_views_are_one_report() -> None:
    third = view(9, D)
    fake = stack()
    fake.up(info(C, view(3, C)))
    fake.up(info(D, third))
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [C, D]
    fake.up(answer(C, view(3, C)))
    assert fake.take_up_events() == []
    fake.up(answer(D, third))
    assert fake.take_up_events() == [MergeViews({C: view(3, C), D: third, A: OWN})]


def test_a_member_that_does_not_answer_is_not_waited_for_long() -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    fake.up(info(D, view(9, D)))
    fake.advance(2.5)
    fake.up(answer(C, OTHER))
    fake.advance(1.3)
    assert fake.take_up_events() == [MergeViews({C: OTHER, A: OWN})]


@pytest.mark.parametrize("answers", [False, True])
def test_a_member_that_announces_another_view_and_never_answers_is_reported_after_long(
    answers: bool,
) -> None:
    """That member may hear nothing (all 6891)."""
    fake = stack()
    at = 0.0
    found: list[Any] = []
    while at < 60.0 and not found:
        fake.up(info(C, OTHER))
        fake.advance(1.0)
        at += 1.0
        if answers and at == 20.0:
            fake.up(answer(C, None))
        found = fake.take_up_events(MergeViews)
    assert found == [MergeViews({A: OWN}, (C,))]
    assert 30.0 < at < 40.0 if not answers else 50.0 < at < 60.0
    fake.event_down(ViewChange(view(5, A), OWN))
    fake.up(info(C, OTHER))
    fake.advance(5.0)
    assert fake.take_up_events(MergeViews) == [], "anew, and not for long yet"


def test_a_lost_question_is_repeated() -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [C]
    fake.advance(0.7)
    assert sent(fake, MergeType.VIEW_REQ) == [C]


def test_views_that_agree_begin_no_merge() -> None:
    fake = stack()
    for _ in range(10):
        fake.up(info(B, OWN))
        fake.advance(8.0)
    assert sent(fake, MergeType.VIEW_REQ) == [] and fake.take_up_events() == []


def test_a_difference_that_is_over_is_not_reported() -> None:
    """C's announcement was old: C has our view now."""
    own = view(4, A, B, C)
    fake = stack(own)
    fake.up(info(C, OTHER))
    fake.advance(2.5)
    fake.up(answer(C, own))
    assert fake.take_up_events() == []


def test_a_new_view_makes_announcements_old() -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    fake.advance(2.0)
    fake.event_down(ViewChange(view(5, A, B, C, D), OWN))
    fake.advance(30.0)
    assert sent(fake, MergeType.VIEW_REQ) == []


def test_announcements_of_former_views_are_not_looked_into_with_a_new_difference() -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    fake.event_down(ViewChange(view(5, A, B, C), OWN))
    fake.up(info(D, view(7, D)))
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [D]


def test_a_view_without_its_sender_is_not_believed() -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    fake.advance(2.5)
    fake.up(answer(C, view(3, D)))
    fake.advance(2.5)
    assert fake.take_up_events(MergeViews) == []
    assert fake.protocol.statistics()["bad_messages"] == 1


def test_a_member_that_cannot_take_part_does_not_ask() -> None:
    fake = stack(view(4, B, A))
    fake.up(info(B, view(4, B, A)))
    fake.up(info(C, OTHER))
    fake.advance(20.0)
    assert sent(fake, MergeType.VIEW_REQ) == []


def test_a_member_the_others_went_on_without_asks_and_is_asked() -> None:
    old, new = view(4, B, A), view(5, B)
    fake = stack(old)
    fake.up(info(B, new))
    fake.advance(0.25)
    assert sent(fake, MergeType.VIEW_REQ) == [B]
    fake.up(answer(B, new))
    assert fake.take_up_events() == [WentOn(B, new)]
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [B]
    fake.up(answer(B, new))
    assert fake.take_up_events() == [WentOn(B, new), MergeViews({B: new, A: old})]

    fake = stack(view(5, A))
    fake.up(info(B, view(4, A, B)))
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [B], "not A, the creator of B's view"


def test_a_member_that_hears_nothing_of_its_coordinator_asks_and_asks_that_one_too() -> None:
    """The coordinator died, and the member that should replace it has another view (all 3786)."""
    own, other = view(4, B, A, C), view(5, D, C)
    fake = stack(own, max_interval=4.0)
    fake.up(info(B, own))
    for _ in range(3):
        fake.advance(3.9)
        fake.up(info(C, other))
        assert sent(fake, MergeType.VIEW_REQ) in ([], [C]), "C may know that we are out"
    fake.advance(0.25)
    assert sent(fake, MergeType.VIEW_REQ) == [C]
    fake.advance(3.0)
    assert sent(fake, MergeType.VIEW_REQ)[:3] == [D, C, B]


def test_a_coordinator_is_not_silent_that_was_in_our_view_for_a_short_time_only() -> None:
    fake = stack(view(4, B, A, C), max_interval=4.0)
    fake.up(info(C, OTHER))
    fake.advance(11.9)
    assert sent(fake, MergeType.VIEW_REQ) == []


def test_a_creator_that_was_not_heard_is_asked_too() -> None:
    fake = stack()
    fake.up(info(D, OTHER))
    fake.advance(2.5)
    assert sent(fake, MergeType.VIEW_REQ) == [C, D]


def test_a_difference_makes_a_coordinator_speak_up() -> None:
    fake = stack(min_interval=1.0, max_interval=100.0)
    fake.up(info(C, OTHER))
    fake.advance(1.0)
    assert sent(fake, MergeType.INFO) == [None]
    other = stack(view(4, B, A), min_interval=1.0, max_interval=100.0)
    other.up(info(C, OTHER))
    other.advance(1.0)
    assert sent(other, MergeType.INFO) == []


def test_a_member_that_is_asked_checks_soon_as_well() -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    request = Batch.of(A, ID, MergeHeader(MergeType.VIEW_REQ))
    request.src = C
    fake.up(request)
    fake.take_down()
    fake.advance(0.5)
    assert sent(fake, MergeType.VIEW_REQ) == [C]


def test_announcements_are_remembered_beyond_a_check_but_not_for_ever() -> None:
    fake = stack(check_interval=1.0)
    fake.up(info(C, OTHER))
    fake.advance(29.9)
    assert sent(fake, MergeType.VIEW_REQ)
    fake.advance(10.0)
    fake.take_down()
    fake.advance(20.0)
    assert not sent(fake, MergeType.VIEW_REQ)


def test_a_member_that_asks_gets_our_view() -> None:
    fake = stack()
    request = Batch.of(A, ID, MergeHeader(MergeType.VIEW_REQ))
    request.src = C
    fake.up(request)
    (response,) = fake.take_down()
    assert response.dest == C and response.payloads == (encode_whole(write_opt_view, OWN),)


@pytest.mark.parametrize("payload", [None, b"", b"\x01\xff", b"\x07" * 30])
def test_garbage_is_counted(payload: bytes | None) -> None:
    fake = stack()
    fake.up(info(C, OTHER))
    fake.advance(2.5)
    bad = Batch.of(A, ID, MergeHeader(MergeType.VIEW_RSP), payload=payload, type=0)
    bad.src = C
    fake.up(bad)
    nameless = Batch.of(None, ID, MergeHeader(MergeType.INFO))
    nameless.src = C
    fake.up(nameless)
    fake.advance(6.0)
    assert fake.take_up_events() == []
    assert fake.stack.protocols[1].bad_messages == 2  # type: ignore[attr-defined]


def test_unasked_answers_are_ignored() -> None:
    fake = stack()
    fake.up(answer(C, OTHER))
    fake.advance(5.0)
    assert fake.take_up_events() == []


def test_announcements_are_bounded() -> None:
    fake = stack(max_announcements=3)
    for number in range(10, 20):
        fake.up(info(make_address(number), OTHER))
    merge3 = fake.stack.protocols[1]
    assert merge3.statistics()["announcements_dropped"] == 7


@pytest.mark.parametrize("wrong", [{"min_interval": 0}, {"max_interval": 0.5}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        MERGE3(**wrong)


def test_an_announcement_before_the_first_view_waits_for_the_next_time() -> None:
    fake = FakeStack(
        MERGE3(min_interval=1.0, max_interval=10.0),
        address=A,
        answers={HasMulticast: True, GetPhysical: HERE},
    )
    fake.up(info(C, OTHER))
    fake.event_down(ViewChange(OWN, None))
    fake.advance(5.0)
    assert sent(fake, MergeType.VIEW_REQ) == []
    fake.up(info(C, OTHER))
    fake.advance(20.0)
    assert C in sent(fake, MergeType.VIEW_REQ)


def test_announcements_that_go_on_do_not_put_the_look_at_them_off() -> None:
    fake = stack(check_interval=2.0)
    for _ in range(3):
        fake.up(info(C, OTHER))
        fake.advance(1.0)
    assert C in sent(fake, MergeType.VIEW_REQ)


def test_a_check_ends_with_the_view_it_began_in() -> None:
    """The answers are about a group that has changed meanwhile."""
    fake = stack(check_interval=2.0)
    fake.up(info(C, OTHER))
    while not sent(fake, MergeType.VIEW_REQ):
        fake.advance(0.1)
    fake.event_down(ViewChange(view(5, A, B), OWN))
    fake.up(answer(C, OTHER))
    fake.advance(20.0)
    assert fake.take_up_events() == [], "nobody has announced another view since"
    assert sent(fake, MergeType.VIEW_REQ) == []


# --- expelled members learn of it soon


def heartbeat(src: Any) -> Batch:
    """Return a multicast of another protocol."""
    return Batch(None, (b"",), {}, src)


def told(fake: FakeStack) -> list[Any]:
    """Return the members to which INFO was sent alone."""
    return [dest for dest in sent(fake, MergeType.INFO) if dest is not None]


def test_a_member_that_multicasts_as_a_member_and_is_none_is_told_of_the_view_once() -> None:
    fake = stack()
    for _ in range(3):
        fake.up(heartbeat(C))
    fake.advance(0.2)
    assert told(fake) == [], "its view may be on its way to us"
    fake.advance(0.1)
    assert told(fake) == [C]
    fake.up(heartbeat(C))
    fake.advance(0.7)
    assert told(fake) == [], "once within min_interval"
    fake.advance(0.3)
    fake.up(heartbeat(C))
    fake.advance(0.25)
    assert told(fake) == [C]
    assert fake.protocol.statistics()["strangers_told"] == 2
    fake.advance(3.0)
    assert C not in [address for _, address in named_in(fake.protocol)]


def test_a_member_that_joins_meanwhile_is_told_nothing() -> None:
    fake = stack()
    fake.up(heartbeat(C))
    fake.event_down(ViewChange(view(5, A, B, C), OWN))
    fake.up(heartbeat(B))
    fake.advance(0.5)
    assert told(fake) == []


def test_only_the_first_of_a_view_tell_strangers() -> None:
    fake = stack(view(4, B, C, D, A))
    fake.up(heartbeat(make_address(9)))
    fake.advance(0.5)
    assert told(fake) == []


def test_strangers_are_limited() -> None:
    fake = stack(max_strangers=2)
    for number in range(10, 15):
        fake.up(heartbeat(make_address(number)))
    fake.advance(0.5)
    assert told(fake) == [make_address(10), make_address(11)]
    assert fake.protocol.statistics()["strangers_dropped"] == 3


def test_a_newer_view_that_comes_in_time_is_not_asked_for() -> None:
    fake = stack(view(4, B, A))
    fake.up(info(B, view(5, B, A, C)))
    fake.event_down(ViewChange(view(5, B, A, C), view(4, B, A)))
    fake.advance(0.5)
    assert sent(fake, MergeType.VIEW_REQ) == []


@pytest.mark.parametrize(
    ("who", "theirs"), [(B, view(5, B, A)), (C, view(5, C, D)), (B, view(3, B)), (B, None)]
)
def test_a_view_that_says_nothing_of_us_being_out_is_not_passed_on(who: Any, theirs: Any) -> None:
    fake = stack(view(4, B, A))
    fake.up(answer(who, theirs))
    assert fake.take_up_events(WentOn) == []


def test_a_member_that_is_excluded_announces_its_view_within_speak_up_time() -> None:
    fake = stack(view(4, B, A), max_interval=60.0, min_interval=30.0)
    fake.event_down(Withhold())
    fake.advance(1.0)
    assert sent(fake, MergeType.INFO) == [None]
