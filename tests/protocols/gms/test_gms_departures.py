"""GMS: members leave, and members crash."""

from __future__ import annotations

from typing import Any

import pytest
from gms_member import JAVA, READY, A, joined, message

from jgroups_py.protocols.membership.gms.protocol import GMS
from jgroups_py.testing import FakeStack
from jgroups_py.values.events import (
    Connect,
    Disconnected,
    GetView,
    Suspect,
    ViewChange,
)
from jgroups_py.values.message import Flag
from jgroups_py.wire.headers import GmsHeader, GmsType

# --- leaving


def test_a_member_leaves(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.leave("B")
    net.run(0.1)
    assert a.view == c.view == ("A", "C")
    assert b.left and Disconnected() in b.events
    assert net.gms_messages(GmsType.LEAVE_REQ) == [("B", "A")]


def test_a_leaver_that_does_not_see_the_view_is_answered(net: Any) -> None:
    _, b, _ = net.group("ABC", leave_timeout=30.0)
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.leave("B")
    net.run(0.1)
    assert b.left


def test_the_coordinator_leaves_and_the_second_takes_over(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.leave("A")
    net.run(0.1)
    assert a.left and b.view == c.view == ("B", "C")
    assert net.gms_messages(GmsType.LEAVE_REQ) == [("A", "B")]
    assert b.gms.is_coordinator


def ended(node: Any) -> list[tuple[Any, ...]]:
    return [e.ended for e in node.events if isinstance(e, ViewChange) and e.ended]


def test_the_maker_of_the_view_knows_the_leavers(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.leave("B")
    net.run(0.1)
    assert (ended(a), ended(c)) == ([(b.address,)], [])
    net.leave("A")
    net.run(0.1)
    assert ended(c) == [(a.address,)]


@pytest.mark.parametrize("silent_first", [False, True])
def test_a_death_that_is_proved_is_told_with_the_view_and_silence_is_not(
    net: Any, silent_first: bool
) -> None:
    a, b, c, d = net.group("ABCD")
    b.dead = c.dead = True
    if silent_first:
        net.suspect("A", "B")
    net.suspect("A", "B", gone=True)
    net.suspect("A", "B", "C")
    net.run(0.5)
    assert a.view == d.view == ("A", "D")
    assert (ended(a), ended(d)) == ([(b.address,)], [])
    assert Suspect((c.address,)) in a.events
    assert Suspect((b.address,), not silent_first) in a.events


def test_two_members_and_the_coordinator_among_them_leave_at_once(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    net.leave("A")
    net.leave("B")
    net.run(0.5)
    assert a.left and b.left and c.view == d.view == ("C", "D")


def test_a_group_whose_members_all_leave_at_once_ends_in_order(net: Any) -> None:
    nodes = net.group("ABCDE")
    for node in nodes:
        net.leave(node.name)
    net.run(1.1)
    assert all(node.left for node in nodes)


def test_a_leaver_does_not_wait_longer_than_leave_timeout(net: Any) -> None:
    a, b = net.group("AB")
    a.dead = True
    net.leave("B")
    net.run(0.9)
    assert not b.left
    net.run(0.2)
    assert b.left


def test_a_leaver_tells_the_next_one_when_the_coordinator_dies(net: Any) -> None:
    a, b, c = net.group("ABC")
    a.dead = True
    net.leave("C")
    net.run(0.1)
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.2)
    assert c.left and b.view == ("B",)


def test_a_member_that_never_joined_leaves_at_once() -> None:
    fake = FakeStack(GMS(), address=A)
    fake.event_down(Connect("test"))
    fake.stack.disconnect()
    assert Disconnected() in fake.take_up_events()
    fake.event_up(READY)
    fake.advance(20)
    assert fake.stack.ask(GetView()) is None


def test_a_java_leaver_is_answered_at_once() -> None:
    fake = joined(A)
    fake.up(message(JAVA, GmsType.JOIN_REQ, member=JAVA))
    fake.advance(0.1)
    fake.take_down()
    fake.up(message(JAVA, GmsType.LEAVE_REQ, member=JAVA))
    out = fake.take_down()
    assert out[0].dest == JAVA and out[0].headers[12] == GmsHeader(GmsType.LEAVE_RSP)
    assert out[0].flags == Flag.OOB | Flag.NO_RELIABILITY


# --- crashes


def test_a_crashed_member_is_removed(net: Any) -> None:
    a, b, c = net.group("ABC")
    c.dead = True
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == b.view == ("A", "B")


def test_only_the_acting_coordinator_acts(net: Any) -> None:
    a, b, _ = net.group("ABC")
    net.suspect("B", "C")
    net.run(0.5)
    assert a.view == b.view == ("A", "B", "C")


def test_the_coordinator_crashes(net: Any) -> None:
    a, b, c = net.group("ABC")
    a.dead = True
    net.suspect("C", "A")
    net.suspect("B", "A")
    net.run(0.1)
    assert b.view == c.view == ("B", "C")
    assert b.gms.view.id == 3


def test_coordinator_and_second_crash_together_and_it_is_one_view(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    a.dead = b.dead = True
    net.suspect("C", "A", "B")
    net.suspect("D", "A", "B")
    net.run(0.1)
    assert c.view == d.view == ("C", "D")
    assert [v.id for v in c.views] == [2, 3, 4]


def test_suspicions_one_after_the_other_add_up(net: Any) -> None:
    a, b, c, d = net.group("ABCD")
    a.dead = b.dead = True
    net.suspect("C", "A")
    net.run(0.3)
    assert c.view == ("A", "B", "C", "D")
    net.suspect("C", "B")
    net.run(0.1)
    assert c.view == d.view == ("C", "D")


def test_a_member_that_turns_out_alive_stays(net: Any) -> None:
    a, b, _ = net.group("ABC")
    net.suspect("B", "A")
    net.unsuspect("B", "A")
    net.suspect("B", "C")
    net.run(0.2)
    assert b.view == a.view == ("A", "B", "C")


def test_a_crash_and_a_join_are_one_view(net: Any) -> None:
    a, b, c = net.group("ABC")
    c.dead = True
    d = net.connect("D")
    net.pump()
    net.suspect("A", "C")
    net.run(0.1)
    assert a.view == b.view == d.view == ("A", "B", "D")
    assert a.gms.view.id == 3


def test_a_view_that_only_some_got_is_overtaken(net: Any) -> None:
    """A removes D, reaches C only, and crashes."""
    a, b, c, d = net.group("ABCD")
    d.dead = True
    net.lose = lambda src, dest, batch: dest is b and net.is_view(batch)
    net.suspect("A", "D")
    net.run(0.05)
    assert c.view == ("A", "B", "C") and b.view == ("A", "B", "C", "D")
    net.lose = lambda src, dest, batch: False
    a.dead = True
    net.suspect("B", "A", "D")
    net.suspect("C", "A")
    net.run(0.1)
    assert b.view == c.view == ("B", "C")
    assert b.gms.view == c.gms.view and b.gms.view.id == 5
