"""The table of members with one name, without a transport."""

from __future__ import annotations

from jgroups_py.protocols.transport.namesakes import MAX_TOLD, Namesakes
from jgroups_py.testing import make_address
from jgroups_py.values.address import Address

A: Address = make_address(1)
B: Address = make_address(2)
C: Address = make_address(3)


def test_a_pair_is_told_once_while_it_is_in_the_view() -> None:
    table, names = Namesakes(), {A: "x", B: "x", C: "y"}
    assert table.changed((A, B, C), names)
    assert table.due((A, B, C), names) == [(A, B)]
    assert not table.changed((A, B, C), names) and table.due((A, B, C), names) == []
    assert not table.changed((A, C), names), "the pair is gone"
    assert table.changed((A, B, C), names), "it came back, and is told again"


def test_members_without_a_known_name_and_single_names_are_no_pair() -> None:
    assert not Namesakes().changed((A, B, C), {A: "x", B: "y"})


def test_further_pairs_are_not_reported() -> None:
    members: tuple[Address, ...] = tuple(make_address(n) for n in range(1, MAX_TOLD + 5))
    names = dict.fromkeys(members, "x")
    table = Namesakes()
    assert len(table.due(members, names)) == MAX_TOLD
    assert not table.changed(members, names) and table.due(members, names) == []
