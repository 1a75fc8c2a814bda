"""Requests for another view, and the knowledge of the group, without a GMS."""

from __future__ import annotations

from typing import Any

import pytest

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.membership.gms.change import PendingChanges
from jgroups_py.protocols.membership.gms.group import (
    FIRST_REACH,
    MERGE_REACH,
    VIEW_REACH,
    Group,
)
from jgroups_py.protocols.membership.gms.wire import is_refusal
from jgroups_py.testing import make_address
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.payloads import JoinRsp
from jgroups_py.values.view import Digest, MergeView, View, ViewId
from jgroups_py.wire.primitives import Writer
from jgroups_py.wire.values import write_join_rsp

A: Address = make_address(1)
B: Address = make_address(2)
C: Address = make_address(3)
D: Address = make_address(4)
JAVA = UUID(bytes(range(16)))


def view(number: int, *members: Address) -> View:
    return View(ViewId(members[0], number), members)


def group(*members: Address, me: Address = A) -> Group:
    known = Group(me)
    known.install(view(5, *members))
    return known


def test_the_first_member_that_stays_acts() -> None:
    changes = PendingChanges(group(A, B, C, me=B), 10)
    assert changes.first_that_stays == A and not changes.acting
    changes.suspect((A,), False)
    assert changes.acting and changes.departing == (A,)
    assert changes.unsuspect((A, C)) and not changes.acting
    assert not changes.unsuspect((A,)), "it is not suspected any more"
    assert changes.add_leaver(A) and not changes.add_leaver(A)
    assert changes.acting and changes.acting_without_us() == C


def test_a_member_that_leaves_or_has_left_does_not_act() -> None:
    known = group(A, B)
    changes = PendingChanges(known, 10)
    assert changes.acting
    known.leave(True)
    assert not changes.acting and changes.acting_without_us() == B
    known.leave(False)
    known.end()
    assert not changes.acting


def test_an_excluded_member_acts_when_the_others_leader_is_suspected() -> None:
    known = group(A, B, C, JAVA)
    changes = PendingChanges(known, 10)
    known.went_on(view(6, B, C))
    assert not changes.acting
    changes.suspect((B,), False)
    assert changes.acting, "a round asks C"
    known.went_on(view(6, B, JAVA))
    assert not changes.acting, "Java members cannot be asked"
    changes.suspect((JAVA,), False)
    assert changes.acting


def test_a_leaver_is_alive_until_it_is_suspected() -> None:
    changes = PendingChanges(group(A, B, C), 10)
    changes.add_leaver(B)
    assert changes.is_leaving(B) and changes.departs(B)
    changes.suspect((B,), False)
    assert not changes.is_leaving(B) and changes.is_suspected(B)


def test_a_view_tells_who_left_and_whose_death_is_proved() -> None:
    changes = PendingChanges(group(A, B, C, D), 10)
    changes.add_leaver(B)
    changes.suspect((C,), True)
    changes.suspect((C, D), False)
    assert changes.ended(view(6, A)) == (B, C), "D is only silent"


def test_joiners_are_counted_and_forgotten_by_members_that_do_not_act() -> None:
    known = group(A, B)
    changes = PendingChanges(known, 1)
    assert changes.add_joiner(C) is True and changes.add_joiner(C) is False
    assert changes.add_joiner(D) is None, "one is the limit"
    assert list(changes.joiners) == [C]
    known.install(view(6, B, A))
    changes.view_installed(view(6, B, A))
    assert not changes.joiners, "B acts now, and is asked"


def test_a_view_ends_the_knowledge_of_former_members() -> None:
    known = group(A, B, C)
    changes = PendingChanges(known, 10)
    changes.suspect((B,), True)
    changes.add_leaver(C)
    known.install(view(6, A))
    changes.view_installed(view(6, A))
    changes.check()
    assert not changes.departs(B) and not changes.departs(C)


def test_no_view_number_is_believed_that_no_group_can_have_come_to() -> None:
    known = Group(A)
    known.believe(FIRST_REACH)
    with pytest.raises(RemoteProtocolError):
        known.believe(FIRST_REACH + 1)
    known = group(A, B)
    known.saw(8)
    assert known.next_id == 9
    known.believe(8 + VIEW_REACH)
    known.believe(8 + MERGE_REACH, merging=True)
    for number, merging in ((8 + VIEW_REACH + 1, False), (8 + MERGE_REACH + 1, True), (-1, True)):
        with pytest.raises(RemoteProtocolError):
            known.believe(number, merging=merging)


def test_a_merge_view_continues_the_view_here_if_it_counts_us_in_it() -> None:
    known = group(A, B)
    ours, others = view(5, A, B), view(7, C, A)
    assert known.is_merged_by(MergeView(ViewId(A, 9), (A, B, C), (ours, others)))
    assert not known.is_merged_by(MergeView(ViewId(A, 9), (A, C), (others,)))


def test_an_excluded_member_is_no_coordinator() -> None:
    known = group(A, B)
    assert known.is_coordinator and known.is_working
    known.went_on(view(6, B))
    assert not known.is_coordinator
    known.install(view(7, A, B))
    assert known.is_coordinator, "a view with this member ends it"


def answer(**parts: Any) -> bytes:
    w = Writer()
    write_join_rsp(w, JoinRsp(**parts))
    return w.done()


def test_an_answer_lets_nobody_in_only_if_it_has_a_reason_and_no_view() -> None:
    """AUTH lets such answers pass without a token, so none may carry a view that GMS would install."""
    joined, digest = view(6, A, B), Digest({A: (0, 0), B: (0, 0)})
    assert is_refusal(answer(fail_reason="no room"))
    assert not is_refusal(answer(view=joined, digest=digest, fail_reason="no room"))
    assert not is_refusal(answer(view=joined, digest=digest))
    assert not is_refusal(b"garbage") and not is_refusal(None)
