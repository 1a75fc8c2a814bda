"""The locator chooses buddies; its impossible answers are handled."""

from collections.abc import Mapping, Sequence

import pytest
from buddy_script import Script, address

from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.locator import BuddyLocator, MemberFacts, NextMemberBuddyLocator
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Leaving, Pool
from jgroups_py.buddy.outputs import BuddyEvent, SendMessage
from jgroups_py.errors import ConfigError
from jgroups_py.values.address import Address
from jgroups_py.values.view import View, ViewId

A, B, C, D, E = (address(name) for name in "ABCDE")


def located(members: Sequence[MemberFacts], **properties: str) -> list[Address]:
    locator = NextMemberBuddyLocator()
    locator.init(properties)
    return locator.get_buddies(members)


@pytest.mark.seed("B32")
def test_next_in_line_as_many_as_there_are() -> None:
    line = [MemberFacts(A), MemberFacts(B), MemberFacts(C)]
    assert located(line) == [B]
    assert located(line, numBuddies=" 2 ") == [B, C]
    assert located(line, numBuddies="5") == [B, C]
    assert located(line[:1]) == []


@pytest.mark.seed("B33")
def test_another_host_is_preferred_by_all_of_its_interfaces() -> None:
    line = [
        MemberFacts(A, hosts=("10.0.0.1", "fe80::1")),
        MemberFacts(B, hosts=("10.0.0.7", "fe80::1")),
        MemberFacts(C, hosts=("10.0.0.2",)),
    ]
    assert located(line) == [C]
    assert located(line, ignoreColocatedBuddies="false") == [B]


@pytest.mark.seed("B34", "B35")
def test_hints_are_broken_one_by_one() -> None:
    own = MemberFacts(A, pool="p", zone="z", hosts=("1",))
    others = [
        MemberFacts(B, pool="q", zone="y", hosts=("2",)),
        MemberFacts(C, pool="p", zone="z", hosts=("1",)),
        MemberFacts(D, pool="p", zone="z", hosts=("3",)),
        MemberFacts(E, pool="p", zone="y", hosts=("4",)),
    ]
    assert located([own, *others], numBuddies="4") == [E, D, C, B]
    locator = NextMemberBuddyLocator()
    locator.init({"numBuddies": "3"})
    locator.get_buddies([own, *others])
    assert locator.hints_broken == 2


def test_a_member_that_leaves_comes_last() -> None:
    assert located(
        [MemberFacts(A), MemberFacts(B, leaving=True), MemberFacts(C)], numBuddies="2"
    ) == [C, B]


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1000"])
def test_a_number_of_buddies_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="numBuddies must be"):
        BuddyMachine(A, BuddyConfig(locator_properties={"numBuddies": text}))


def test_a_truth_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="must be true or false"):
        located([MemberFacts(A)], ignoreColocatedBuddies="yes")


class Saying(BuddyLocator):
    def __init__(self, answer: Sequence[Address] | Exception) -> None:
        self.answer = answer
        self.asked = 0

    def init(self, properties: Mapping[str, str]) -> None:
        pass

    def get_buddies(self, members: Sequence[MemberFacts]) -> Sequence[Address]:
        self.asked += 1
        assert members[0].address == B
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


STRANGER = Address(b"xx")


@pytest.mark.seed("B31")
@pytest.mark.parametrize(
    ("answer", "buddies", "complaints"),
    [
        ([D, A], [D, A], 0),
        ([STRANGER, D], [D, C], 1),
        ([B, C], [C, D], 1),
        ([D, D], [D, C], 1),
        ([A, C, D], [A, C], 1),
        ([A], [A, C], 1),
        (ValueError("no"), [C, D], 1),
        ([B] * 50 + [STRANGER, D], [D, C], 1),
    ],
)
def test_answers_are_checked(
    answer: Sequence[Address] | Exception, buddies: list[Address], complaints: int
) -> None:
    config = BuddyConfig(locator_properties={"numBuddies": "2"})
    machine = BuddyMachine(B, config, locator=Saying(answer))
    machine.install(View(ViewId(A, 1), (A, B, C, D)), 0.0)
    assert machine.buddies.wanted == buddies
    told = [
        out for out in machine.take() if isinstance(out, BuddyEvent) and out.kind == "complaint"
    ]
    assert len(told) == complaints


def test_a_complaint_is_one_line_however_much_was_wrong() -> None:
    machine = BuddyMachine(B, locator=Saying([B] * 50 + [Address(bytes([n])) for n in range(9)]))
    machine.install(View(ViewId(A, 1), (A, B)), 0.0)
    (told,) = [
        out for out in machine.take() if isinstance(out, BuddyEvent) and out.kind == "complaint"
    ]
    assert "the owner itself (50 times); a stranger" in told.detail
    assert told.detail.endswith("; and 7 more") and machine.buddies.wanted == [A]


def test_a_member_that_leaves_is_nobodys_buddy_whatever_a_locator_says() -> None:
    for answer, wrong in (([C], 0), (ValueError("no"), 1)):
        machine = BuddyMachine(B, locator=Saying(answer))
        machine.install(View(ViewId(A, 1), (A, B, C)), 0.0)
        assert machine.buddies.wanted == [C]
        machine._on_leaving(C, Leaving())
        assert machine.buddies.wanted == [A]
        machine._on_leaving(A, Leaving())
        assert machine.buddies.wanted == [C]  # the best of impossible choices
        told = [out for out in machine.take() if isinstance(out, BuddyEvent)]
        assert bool([event for event in told if event.kind == "complaint"]) == wrong


@pytest.mark.seed("B24")
def test_the_locator_is_asked_when_the_membership_changes_and_never_otherwise() -> None:
    s = Script(4)
    machine = s.machine("B")
    asked = machine.statistics["locator_calls"]
    for _ in range(5):
        s.write("B", "x")
        s.write("C", "x")
    assert machine.statistics["locator_calls"] == asked
    s.crash("D")
    s.run()
    assert machine.statistics["locator_calls"] == asked + 1


@pytest.mark.seed("B27")
def test_pools_are_announced_at_every_view_if_there_is_one_and_late_ones_count() -> None:
    def announced(config: BuddyConfig) -> list[Pool]:
        machine = BuddyMachine(A, config)
        machine.install(View(ViewId(A, 1), (A, B, C)), 0.0)
        machine.install(View(ViewId(A, 2), (A, B, C, D)), 0.0)
        outs = [out for out in machine.take() if isinstance(out, SendMessage)]
        return [out.message for out in outs if isinstance(out.message, Pool)]

    assert announced(BuddyConfig()) == []
    assert announced(BuddyConfig(pool="p")) == [Pool(A, "p", "", ())] * 2
    machine = BuddyMachine(A, BuddyConfig(pool="p"))
    machine.install(View(ViewId(A, 1), (A, B, C)), 0.0)
    assert machine.buddies.wanted == [B]
    machine.receive(C, (1, A), Pool(C, "p", "", ()), 0.0)
    assert machine.buddies.wanted == [C]


@pytest.mark.seed("B5", "B8")
def test_each_member_backs_up_one_other_and_the_ring_closes() -> None:
    s = Script(5)
    assert {name: s.holders(name) for name in "ABCDE"} == {
        "A": "B",
        "B": "C",
        "C": "D",
        "D": "E",
        "E": "A",
    }
    s.crash("A")
    s.rest()
    assert s.holders("E") == "B"
