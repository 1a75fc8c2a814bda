"""GMS: the group goes on without this member, which learns of it and of its losses, and waits."""

from __future__ import annotations

from typing import Any

import pytest
from gms_member import joined, message

from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.protocols.membership.gms.wire import AGREE_ID, RoundKind, encode_has
from jgroups_py.testing import FakeStack, make_address
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Event,
    Exclude,
    Expel,
    FlowBlocked,
    FlowOpened,
    GetDelivered,
    GetSentAfter,
    GetUnacknowledged,
    ViewChange,
    WentOn,
    Withhold,
)
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import MergeView, View, ViewId
from jgroups_py.wire.headers import FragHeader, GmsType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_view_digest

A, B, C, D = (make_address(n) for n in (1, 2, 3, 4))
JAVA = UUID(bytes(range(16)))


def run_after(seqno: int) -> Batch:
    """Return a list that gets the messages sent after ``seqno``."""
    return Batch(None, (b"x",) * 3, {}, A, number=seqno + 1)


def runs_after(seqno: int) -> tuple[Batch, ...]:
    """Return the messages after ``seqno`` of twelve, in runs 1 to 3, 4 to 6, 7 to 12."""
    runs = [Batch(None, (b"x",) * n, {}, A, number=first) for first, n in ((1, 3), (4, 3), (7, 6))]
    left = [(run, max(0, seqno + 1 - run.number)) for run in runs]
    return tuple(r.slice(n, len(r.payloads)) for r, n in left if n < len(r.payloads))


RUN = run_after(0)


def view(number: int, *members: Any) -> View:
    return View(ViewId(members[0], number), members)


def says_view(src: Any, of: View) -> Batch:
    return message(src, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(of)))


def said(src: Any, kind: RoundKind, number: int, payload: bytes | None = b"") -> Batch:
    batch = Batch.of(A, AGREE_ID, FragHeader(number, kind, 0), payload=payload)
    batch.src = src
    return batch


def rounds(fake: FakeStack) -> list[tuple[Any, int, bytes]]:
    return [
        (b.dest, b.headers[AGREE_ID].index, b.payloads[0])  # type: ignore[attr-defined]
        for b in fake.take_down()
        if AGREE_ID in b.headers
    ]


def excluded(*members: Any, by: Any = B, out: View | None = None, **config: Any) -> FakeStack:
    fake = joined(*(members or (B, A, C)), **config)
    fake.answers = {GetSentAfter: lambda query: (run_after(query.seqno),)}
    fake.up(says_view(by, out or view(6, B, C)))
    return fake


def told(fake: FakeStack) -> list[Event]:
    return [e for e in fake.take_up_events() if isinstance(e, Exclude)]


def test_sending_stops_and_the_members_that_went_on_are_asked_for_their_numbers() -> None:
    fake = excluded()
    blocked = [e for e in fake.take_up_events() if isinstance(e, FlowBlocked)]
    assert [e.dest for e in blocked] == [None, B, C]
    assert Withhold() in fake.take_down_events()
    assert rounds(fake) == [(B, RoundKind.ASK, b""), (C, RoundKind.ASK, b"")]
    assert fake.protocol.statistics()["times_excluded"] == 1


def test_the_application_learns_its_losses_after_all_answers() -> None:
    fake = excluded()
    fake.up(said(B, RoundKind.HAS, 1, encode_has(9)))
    assert told(fake) == []
    fake.up(said(C, RoundKind.HAS, 1, encode_has(5)))
    (exclude,) = told(fake)
    assert exclude == Exclude(view(6, B, C), B, (RUN,), True)
    assert isinstance(exclude, Exclude)
    assert exclude.lost[0].number == 6, "after what the least of them has"
    fake.advance(5.0)
    assert told(fake) == [], "once"


def test_members_that_went_on_in_another_group_are_asked_too_and_their_losses_are_reported() -> (
    None
):
    """Seed 929 of ``sealed``: a cut made two groups, each without this member, which was stopped."""
    fake = excluded(B, A, C, D, out=view(6, B, C))
    fake.answers = {GetSentAfter: lambda query: runs_after(query.seqno)}
    for member in (B, C):
        fake.up(said(member, RoundKind.HAS, 1, encode_has(9)))
    assert [e.lost[0].number for e in told(fake)] == [10]  # type: ignore[attr-defined]
    fake.take_down()
    fake.up(says_view(D, view(7, D)))
    (blocked,) = [e for e in fake.take_up_events() if isinstance(e, FlowBlocked)]
    assert blocked.dest == D
    assert rounds(fake) == [(D, RoundKind.ASK, b"")], "B and C have answered"
    fake.up(said(D, RoundKind.HAS, 1, encode_has(5)))
    (exclude,) = told(fake)
    assert isinstance(exclude, Exclude) and exclude.certain
    assert (exclude.view, exclude.by) == (view(7, D), D)
    named = [(run.number, len(run.payloads)) for run in exclude.lost]
    assert named == [(6, 1), (7, 3)], "10 to 12 were told before"
    assert fake.protocol.statistics()["times_excluded"] == 1
    fake.up(says_view(D, view(8, D)))
    fake.advance(5.0)
    assert rounds(fake) == [] and told(fake) == []


def test_others_that_went_on_too_and_lack_no_more_than_was_told_are_no_news() -> None:
    fake = excluded(B, A, C, D, out=view(6, B, C))
    fake.up(said(B, RoundKind.HAS, 1, encode_has(5)))
    fake.up(said(C, RoundKind.HAS, 1, encode_has(9)))
    assert len(told(fake)) == 1
    fake.up(says_view(D, view(7, D)))
    fake.up(said(D, RoundKind.HAS, 1, encode_has(5)))
    assert told(fake) == []


def test_a_member_that_does_not_answer_makes_it_uncertain() -> None:
    fake = excluded()
    fake.up(said(C, RoundKind.HAS, 1, encode_has(5)))
    fake.advance(1.9)
    assert told(fake) == []
    fake.advance(0.2)
    (exclude,) = told(fake)
    assert exclude == Exclude(view(6, B, C), B, (RUN,), False)
    assert isinstance(exclude, Exclude) and exclude.lost[0].number == 1


def test_members_that_are_none_of_ours_are_not_asked() -> None:
    fake = excluded(B, A, JAVA, out=view(6, B, JAVA))
    assert rounds(fake) == [(B, RoundKind.ASK, b"")]
    fake.up(said(B, RoundKind.HAS, 1, encode_has(9)))
    (exclude,) = told(fake)
    assert isinstance(exclude, Exclude) and not exclude.certain


@pytest.mark.parametrize("garbage", [None, b"", b"\x01", encode_has(5)[:-1] + b"\xff\xff"])
def test_an_answer_that_cannot_be_is_counted(garbage: bytes | None) -> None:
    fake = excluded()
    fake.up(said(B, RoundKind.HAS, 1, garbage))
    assert fake.protocol.statistics()["bad_messages"] == 1


def test_answers_to_nobody_are_dropped() -> None:
    fake = excluded()
    fake.up(said(B, RoundKind.HAS, 2, encode_has(9)))  # of an earlier question
    fake.up(said(D, RoundKind.HAS, 1, encode_has(9)))  # D was not asked
    fake.up(said(C, RoundKind.HAS, 1, encode_has(9)))
    assert told(fake) == []


def test_a_merge_view_reopens_after_a_report_of_untold_losses() -> None:
    fake = excluded()
    fake.take_up_events()
    merged = MergeView(ViewId(B, 7), (B, C, A), (view(6, B, C), View(ViewId(B, 5), (A,))))
    fake.up(says_view(B, merged))
    events = [e for e in fake.take_up_events() if not isinstance(e, Withhold)]
    assert [type(e) for e in events] == [Exclude, ViewChange, *[FlowOpened] * 3]
    assert {e.dest for e in events[2:] if isinstance(e, FlowOpened)} == {None, B, C}


def test_a_merge_view_may_be_the_first_that_is_heard_of_it() -> None:
    fake = joined(B, A, C)
    fake.answers = {GetSentAfter: lambda query: (run_after(query.seqno),)}
    merged = MergeView(ViewId(B, 7), (B, C, A), (view(6, B, C), View(ViewId(B, 5), (A,))))
    fake.up(says_view(B, merged))
    events = fake.take_up_events()
    kinds = [type(e) for e in events if isinstance(e, (Exclude, ViewChange))]
    assert kinds == [Exclude, ViewChange]
    exclude = next(e for e in events if isinstance(e, Exclude))
    assert exclude.lost == (RUN,) and not exclude.certain
    assert sum(isinstance(e, FlowOpened) for e in events) == 3


def test_a_merge_with_strangers_excludes_nobody() -> None:
    fake = joined(B, A, C)
    merged = MergeView(ViewId(D, 7), (B, A, C, D), (view(6, D), View(ViewId(B, 5), (B, A, C))))
    fake.up(says_view(B, merged))
    assert told(fake) == []


def test_fewer_than_half_that_go_on_are_not_the_group() -> None:
    """C hears no member, and has a view of its own: the other members are the group."""
    fake = excluded(B, A, C, by=C, out=view(6, C))
    assert fake.take_up_events() == [] and rounds(fake) == []
    fake = excluded(B, A, out=view(6, B))
    assert fake.take_up_events() != [], "half of it is"


def test_members_with_views_of_their_own_count_together() -> None:
    fake = joined(B, A, C, D)
    fake.up(says_view(C, view(6, C)))
    assert rounds(fake) == []
    fake.up(says_view(B, view(6, B)))
    assert rounds(fake) == [(B, RoundKind.ASK, b""), (C, RoundKind.ASK, b"")]
    fake = joined(B, A, C, D)
    alone = [View(ViewId(m, 6), (m,)) for m in (B, C, D)]
    merged = MergeView(ViewId(B, 7), (B, C, D, A), (*alone, View(ViewId(B, 5), (A,))))
    fake.up(says_view(B, merged))
    assert len(told(fake)) == 1


def test_a_view_that_merge3_found_counts_as_if_it_had_come() -> None:
    fake = joined(B, A, C)
    fake.event_up(WentOn(C, view(6, B, C)))
    assert len(rounds(fake)) == 2
    for member, theirs in [(D, view(7, B, C)), (C, view(5, C)), (C, view(8, C, A))]:
        fake = joined(B, A, C)
        fake.event_up(WentOn(member, theirs))
        assert rounds(fake) == []
    fake.event_up(WentOn(C, View(ViewId(C, 2**50), (C,))))
    assert rounds(fake) == [] and fake.protocol.statistics()["bad_messages"] == 1


def test_unicasts_that_are_dropped_with_a_view_of_our_own_are_named() -> None:
    fake = excluded()
    unicast = Batch(B, (b"x",), {}, A, number=3)
    fake.up(said(B, RoundKind.HAS, 1, encode_has(9)))
    fake.up(said(C, RoundKind.HAS, 1, encode_has(9)))
    told(fake)
    fake.answers = {GetUnacknowledged: (unicast,)}
    gms = fake.protocol
    assert isinstance(gms, GMS)
    gms.install(view(7, A))
    events = fake.take_up_events()
    assert events[0] == Exclude(view(6, B, C), B, (unicast,), False)
    assert isinstance(events[1], ViewChange)


def test_a_member_that_ends_meanwhile_waits_for_no_answer() -> None:
    fake = excluded()
    fake.stack.close()
    fake.protocol.check()
    assert told(fake) == []


def test_a_member_that_is_to_be_expelled_ends_and_names_possible_losses() -> None:
    fake = excluded(excluded="expel")
    events = fake.take_up_events()
    assert [type(e) for e in events] == [Expel]
    assert isinstance(events[0], Expel) and events[0].lost == (RUN,)


# --- the others


def test_a_member_that_asks_after_it_has_gone_is_told_how_far_it_was() -> None:
    fake = joined(B, A)
    fake.answers = {GetDelivered: 12}
    fake.up(said(C, RoundKind.ASK, 4))
    assert rounds(fake) == [(C, RoundKind.HAS, encode_has(12))]
    fake.answers = {}
    fake.up(said(C, RoundKind.ASK, 5))
    assert rounds(fake) == [], "nothing is remembered of it"


def test_a_member_that_asks_before_we_know_that_it_is_out_is_told_then() -> None:
    fake = joined(B, A, C)
    fake.answers = {GetDelivered: 12}
    fake.up(said(C, RoundKind.ASK, 4))
    assert rounds(fake) == []
    gms = fake.protocol
    assert isinstance(gms, GMS)
    gms.install(view(6, B, A))
    assert rounds(fake) == [(C, RoundKind.HAS, encode_has(12))]
    gms.install(view(7, B, A))
    assert rounds(fake) == []
