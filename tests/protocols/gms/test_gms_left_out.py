"""GMS: a view without this member, or a view that continues without its makers."""

from __future__ import annotations

from typing import Any

import pytest
from gms_member import A, B, C, joined, kinds, message
from gms_rounds import rounds

from jgroups_py.protocols.membership.gms.excluded import WHY
from jgroups_py.protocols.membership.gms.wire import RoundKind
from jgroups_py.values.address import UUID
from jgroups_py.values.events import (
    Expel,
    FlowBlocked,
    GetView,
    IsCoordinator,
    Suspect,
)
from jgroups_py.values.payloads import ViewDigest
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import GmsType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import (
    write_view_digest,
)


def test_a_view_without_us_is_ignored_and_we_do_not_act() -> None:
    fake = joined(B, A, C, me=A)
    view = View(ViewId(B, 6), (B, C))
    fake.up(message(B, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    blocked = [FlowBlocked("GMS", dest, (B, C), WHY) for dest in (None, B, C)]
    assert fake.take_up_events() == blocked and fake.stack.ask(GetView()).id == 5
    assert kinds(fake) == []
    assert fake.protocol.excluding == view  # type: ignore[attr-defined]


def test_a_member_that_is_excluded_in_the_middle_of_its_round_releases_the_members_it_asked(
    net: Any,
) -> None:
    a, b, _c = net.group("ABC")
    b.deaf = True  # A's round waits for it
    net.suspect("A", "C")
    net.pump()
    assert ("A", "B", RoundKind.FREEZE) in rounds(net)
    view = View(ViewId(b.address, a.gms.view.id + 1), (b.address,))
    a.fake.up(message(b.address, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    net.pump()
    assert ("A", "B", RoundKind.THAW) in rounds(net)


def test_a_coordinator_that_was_excluded_lets_nobody_in(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    assert b.view == c.view == ("B", "C") and a.view == ("A", "B", "C")
    assert a.fake.stack.ask(IsCoordinator()) is False
    d = net.connect("D")
    net.run(0.3)
    assert d.view == b.view == ("B", "C", "D")


def test_a_member_that_was_excluded_makes_no_view_while_the_others_may_be_alive(net: Any) -> None:
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    net.suspect("A", "B")
    net.run(5)
    assert a.view == ("A", "B", "C") and b.view == c.view == ("B", "C")
    net.suspect("A", "C")
    net.run(5)
    assert a.view == ("A",), "nobody is left of those who went on without it"


def test_a_member_that_was_excluded_makes_no_view_with_java_members_that_may_have_gone_on(
    net: Any,
) -> None:
    """Java members cannot be asked for their view."""
    a, b, c = net.group("ABC")
    plain = UUID(c.address[:12] + bytes(4))
    a.gms.group.view = View(a.gms.view.view_id, (a.address, b.address, plain))
    b.dead = c.dead = True
    last = View(ViewId(b.address, a.gms.view.id + 1), (b.address, plain))
    a.fake.up(message(b.address, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(last))))
    assert a.gms.excluding == last
    net.suspect("A", "B")
    net.run(5)
    assert len(a.gms.view) == 3
    a.fake.event_up(Suspect((plain,)))
    net.run(5)
    assert a.view == ("A",)


@pytest.mark.parametrize("paused", [False, True])
def test_a_member_that_was_excluded_goes_on_with_members_that_did_not_go(
    net: Any, paused: bool
) -> None:
    """C went on with D, which did not learn of that, and died (all 4695). D may be slow to answer."""
    a, b, c, d = net.group("ABCD")
    net.lose = lambda src, dest, batch: src is c and dest is d
    net.suspect("C", "A", "B")
    net.run(2.1)
    assert c.view == ("C", "D") and a.gms.excluding is not None is not b.gms.excluding
    c.dead = True
    d.deaf = paused
    for name in "ABD":
        net.suspect(name, "C")
    net.run(2.1)
    assert a.view == (("A", "B", "C", "D") if paused else ("A", "B", "D"))
    d.deaf = False
    net.run(2.1)
    assert a.view == b.view == d.view == ("A", "B", "D")


def test_a_member_that_hears_late_that_a_dead_member_excluded_it_begins_its_round_again(
    net: Any,
) -> None:
    """A and B agree already on a view without C when C's last view comes (membership 20066)."""
    a, b, c = net.group("ABC")
    c.dead = b.deaf = True
    net.suspect("A", "C")
    net.suspect("B", "C")
    net.run(0.1)
    last = View(ViewId(c.address, a.gms.view.id + 1), (c.address,))
    payload = encode_whole(write_view_digest, ViewDigest(last))
    a.fake.up(message(c.address, GmsType.VIEW, payload))
    assert a.gms.excluding == last
    b.deaf = False
    net.run(5)
    assert a.view == b.view == ("A", "B")


def test_a_member_that_was_excluded_does_not_go_on_with_members_that_went(net: Any) -> None:
    """D has C's view and does not know that C died."""
    a, b, c, d = net.group("ABCD")
    net.suspect("C", "A", "B")
    net.run(0.1)
    assert c.view == d.view == ("C", "D")
    c.dead = True
    net.suspect("A", "C")
    net.suspect("B", "C")
    net.run(10.0)
    assert a.view == b.view == ("A", "B", "C", "D")
    net.lose = lambda src, dest, batch: net.is_view(batch) and dest is a
    net.suspect("D", "C")
    net.run(0.1)
    assert a.gms.excluding.id < d.gms.view.id, "a merge is what is left"
    net.lose = lambda src, dest, batch: False
    net.merge("A", "D")
    net.run(5.0)
    assert a.gms.view == b.gms.view == d.gms.view and len(a.view) == 3


def test_a_member_that_was_excluded_does_not_wait_for_members_it_has_never_known(net: Any) -> None:
    """D joined B and C after they had gone on without A; now all three are dead."""
    a, b, c = net.group("ABC")
    net.suspect("B", "A")
    net.suspect("C", "A")
    net.run(0.1)
    d = net.connect("D")
    net.run(0.3)
    assert a.gms.excluding is not None and d.address in b.gms.view
    a.gms.group.excluding = b.gms.view
    for node in (b, c, d):
        node.dead = True
    net.suspect("A", "B", "C")
    net.run(5)
    assert a.view == ("A",)


def test_excluded_may_mean_expelled() -> None:
    fake = joined(B, A, C, me=A, excluded="expel")
    view = View(ViewId(B, 6), (B, C))
    fake.up(message(B, GmsType.VIEW, encode_whole(write_view_digest, ViewDigest(view))))
    (expel,) = fake.take_up_events(Expel)
    assert expel.view == view
