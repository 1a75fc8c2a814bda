"""Each checker can fail: it reports its planted fault, and reports nothing without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from jgroups_py.protocols.failure.verify_suspect2 import VERIFY_SUSPECT2
from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.testing.check.bounds import Bounds
from jgroups_py.testing.check.checkers import Checker
from jgroups_py.testing.check.deaths import Deaths
from jgroups_py.testing.check.rest import waiting
from jgroups_py.testing.check.tables import leftovers
from jgroups_py.testing.sim import Member, World
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch, Credit
from jgroups_py.values.events import Suspect
from jgroups_py.values.view import MergeView, View, ViewId


class Stage:
    """A checker and invented members; the test gives their inputs."""

    def __init__(self) -> None:
        self.checker = Checker()
        self.members: dict[str, Any] = {}
        for number, name in enumerate("ABC", 1):
            self.join(name, number)

    def join(self, name: str, number: int, site: str = "NYC") -> None:
        member = SimpleNamespace(
            name=name,
            address=UUID(bytes([number] * 16)),
            incarnation=1,
            site=site,
            late_rounds=0,
            unread=[],
            world=SimpleNamespace(now=1.0),
        )
        self.members[name] = member
        self.checker.watch(member)  # type: ignore[arg-type]

    def view(self, to: str, number: int, names: str, *groups: str) -> None:
        members = tuple(self.members[n].address for n in names)
        view = View(ViewId(members[0], number), members)
        if groups:
            parts = []
            for group in groups:
                inside = tuple(self.members[n].address for n in group)
                parts.append(View(ViewId(inside[0], number - 1), inside))
            view = MergeView(view.view_id, members, tuple(parts))
        for name in to:
            self.members[name].on_view(self.members[name], view)

    def sends(self, name: str, count: int = 1, to: str = "", oob: bool = False) -> list[bytes]:
        dest = self.members[to] if to else None
        return [self.checker.payload(self.members[name], to=dest, oob=oob) for _ in range(count)]

    def gets(self, to: str, sender: str, *payloads: bytes, dest: str = "") -> None:
        target = self.members[dest].address if dest else None
        batch = Batch(target, payloads, {}, self.members[sender].address)
        for name in to:
            self.members[name].on_batch(self.members[name], batch)

    @property
    def checks(self) -> list[str]:
        return [problem.check for problem in self.checker.problems]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.view("ABC", 1, "ABC")
    return stage


def test_all_is_well(stage: Stage) -> None:
    a = stage.sends("A", 3)
    stage.gets("ABC", "A", *a)
    stage.gets("B", "A", *stage.sends("A", 2, to="B"), dest="B")
    stage.gets("BC", "A", *reversed(stage.sends("A", 2, oob=True)))
    stage.view("AB", 2, "AB")
    stage.view("AB", 3, "ABC", "AB", "C")
    stage.gets("AB", "C", stage.sends("C", 5)[4])
    assert stage.checker.problems == []
    assert stage.checker.messages.delivered == 17


def test_a_breach_of_fifo_is_a_violation(stage: Stage) -> None:
    one, two, three = stage.sends("A", 3)
    stage.gets("B", "A", one, two, three, two)
    assert stage.checks == ["fifo"]


def test_a_duplicate_is_a_violation(stage: Stage) -> None:
    (one,) = stage.sends("A")
    stage.gets("B", "A", one, one)
    (oob,) = stage.sends("A", oob=True)
    stage.gets("C", "A", oob, oob)
    assert stage.checks == ["duplicate", "duplicate"]


def test_a_gap_is_a_violation(stage: Stage) -> None:
    one, _, three = stage.sends("A", 3)
    stage.gets("B", "A", one, three)
    assert stage.checks == ["gap"]


def test_messages_multicast_in_views_without_a_member_may_be_lost_to_it(
    stage: Stage,
) -> None:
    """This also holds where the member keeps its view: it does not learn of the others' views (merge 23705)."""
    first = stage.sends("A", 2)
    stage.gets("ABC", "A", first[0])
    stage.view("AB", 2, "AB")
    stage.sends("A", 2)
    stage.view("AB", 3, "ABC", "AB", "C")
    owed = stage.sends("A", 2)
    stage.gets("C", "A", owed[0])
    assert stage.checks == []
    stage.sends("A")
    stage.gets("C", "A", *stage.sends("A"))
    assert stage.checks == ["gap"]


def test_survivors_differ_in_a_staying_members_messages(stage: Stage) -> None:
    one, two = stage.sends("A", 2)
    stage.gets("A", "A", one, two)
    stage.gets("B", "A", one)
    stage.view("AB", 2, "AB")
    assert stage.checks == ["agreement"]


def test_survivors_may_differ_in_it_when_one_could_not_be_waited_for(stage: Stage) -> None:
    one, two = stage.sends("A", 2)
    stage.gets("A", "A", one, two)
    stage.gets("B", "A", one)
    stage.members["A"].late_rounds += 1
    stage.view("AB", 2, "AB")
    assert stage.checks == []


def test_the_first_message_of_a_joiner_is_its_first(stage: Stage) -> None:
    stage.join("D", 4)
    stage.view("ABCD", 2, "ABCD")
    stage.gets("B", "D", stage.sends("D", 2)[1])
    assert stage.checks == ["gap"]


def test_unicasts_have_their_own_numbers(stage: Stage) -> None:
    one, two, three = stage.sends("A", 3, to="B")
    stage.gets("B", "A", one, three, two, dest="B")
    assert stage.checks == ["unicast", "unicast"]


def test_a_connection_ends_with_a_view_that_its_sender_has_not_read_yet(stage: Stage) -> None:
    one, _two, three = stage.sends("A", 3, to="B")
    stage.gets("B", "A", one, dest="B")
    alone = (stage.members["A"].address,)
    stage.members["A"].unread.append(View(ViewId(alone[0], 9), alone))
    stage.gets("B", "A", three, dest="B")
    assert stage.checks == []


def test_bytes_before_the_end_of_a_connection_may_be_read_after_it(stage: Stage) -> None:
    one, two, _three, four = stage.sends("A", 4, to="B")
    stage.gets("B", "A", one, dest="B")
    stage.view("A", 2, "AC")
    five, _six, seven = stage.sends("A", 3, to="B")
    stage.gets("B", "A", two, four, five, dest="B")
    assert stage.checks == []
    stage.gets("B", "A", seven, dest="B")
    assert stage.checks == ["unicast"]


def test_agreement_is_checked(stage: Stage) -> None:
    one, two = stage.sends("C", 2)
    stage.gets("A", "C", one, two)
    stage.gets("B", "C", one)
    stage.view("AB", 2, "AB")
    assert stage.checks == ["agreement"]


def test_a_damaged_message_is_survived(stage: Stage) -> None:
    (one,) = stage.sends("A")
    stage.gets("B", "A", one + b"x", b"short")
    assert stage.checks == ["content", "content"]


def test_a_breach_of_view_order_is_a_violation(stage: Stage) -> None:
    stage.view("A", 3, "AB")
    stage.view("A", 2, "ABC")
    assert stage.checks == ["view_order"]


def test_a_view_holder_is_read(stage: Stage) -> None:
    stage.view("C", 2, "AB")
    stage.view("A", 3, "ABA")
    assert stage.checks == ["view_holder", "view_holder"]


def test_a_breach_of_view_identity_is_a_violation(stage: Stage) -> None:
    stage.view("A", 2, "AB")
    stage.view("B", 2, "ABC")
    assert stage.checks == ["view_identity"]


def test_stream_begins_with_a_view() -> None:
    stage = Stage()
    stage.gets("B", "A", *stage.sends("A"))
    stage.members["B"].on_state(stage.members["B"], None)
    assert stage.checks == ["stream", "stream"]


def test_stream_has_messages_of_members_only(stage: Stage) -> None:
    one, two = stage.sends("C", 2)
    stage.gets("AB", "C", one)
    stage.view("AB", 2, "AB")
    stage.gets("A", "C", two)
    assert stage.checks == ["stream"]


def test_a_stream_names_the_sender_and_reaches_its_receivers(stage: Stage) -> None:
    stage.gets("B", "C", *stage.sends("A"))
    stage.gets("B", "A", *stage.sends("A", to="C"), dest="C")
    assert stage.checks == ["stream", "stream"]


def test_a_state_contains_its_receivers_messages(stage: Stage) -> None:
    one, two = stage.sends("A", 2)
    stage.gets("B", "A", one)
    state = stage.checker.messages.state_of(stage.members["B"])
    stage.gets("A", "A", one, two)
    stage.members["A"].on_state(stage.members["A"], state)
    assert stage.checks == ["state"]
    assert msgspec.msgpack.decode(state) == [[b"\1" * 16, 1, False, []]]


def test_a_state_lacks_messages_that_a_merge_has_lost(stage: Stage) -> None:
    """Messages of one side of a partition are not sent again to the other one when they merge."""
    one, two, three = stage.sends("A", 3)
    stage.gets("A", "A", one, two)
    stage.gets("B", "A", one)
    stage.view("A", 2, "A")
    stage.view("BC", 2, "BC")
    stage.view("ABC", 3, "ABC", "A", "BC")
    state = stage.checker.messages.state_of(stage.members["B"])
    stage.members["A"].on_state(stage.members["A"], state)
    stage.gets("A", "A", three)
    assert stage.checks == []


def test_messages_after_a_state_continue_it(stage: Stage) -> None:
    one, two, three, four = stage.sends("A", 4)
    stage.gets("B", "A", one, two)
    state = stage.checker.messages.state_of(stage.members["B"])
    stage.members["C"].on_state(stage.members["C"], state)
    stage.gets("C", "A", three, four)
    stage.members["C"].on_state(stage.members["C"], state)
    stage.gets("C", "A", three)
    assert stage.checks == []
    stage.members["C"].on_state(stage.members["C"], state)
    stage.gets("C", "A", four)
    assert stage.checks == ["gap"]


def test_a_state_with_nothing_of_a_sender_begins_anew_with_it(stage: Stage) -> None:
    """The provider was beyond a partition during the whole time in which the sender was heard here."""
    one, two = stage.sends("A", 2)
    state = stage.checker.messages.state_of(stage.members["B"])
    stage.gets("C", "A", one, two)
    stage.members["C"].on_state(stage.members["C"], state)
    stage.gets("C", "A", one, two)
    assert stage.checks == []
    stage.gets("C", "A", one)
    assert stage.checks == ["fifo"]


@pytest.mark.parametrize("older", [True, False])
def test_out_of_band_messages_that_a_state_lacks_may_come_again(stage: Stage, older: bool) -> None:
    """Explored: state 515."""
    early = stage.sends("A", 1, oob=True)
    stage.gets("BC", "A", *early, *stage.sends("A"))
    state = stage.checker.messages.state_of(stage.members["B"])
    if older:
        state = msgspec.msgpack.encode([(b"\1" * 16, 0, False, [])])
    stage.members["C"].on_state(stage.members["C"], state)
    stage.gets("C", "A", *early)
    assert stage.checks == ([] if older else ["duplicate"])


@pytest.mark.parametrize(("held", "found"), [(2, []), (1, ["agreement"])])
def test_views_that_were_held_back_for_a_state_stand_behind_it(
    stage: Stage, held: int, found: list[str]
) -> None:
    """The state has the messages sent after them."""
    for number, name in enumerate("DE", 4):
        stage.join(name, number)
    stage.view("BC", 5, "ABCDE")
    one, two = stage.sends("A", 2)
    stage.gets("BC", "A", one)
    stage.view("B", 6, "ABCD")
    stage.view("B", 7, "ABC")
    stage.gets("B", "A", two)
    receiver = stage.members["C"]
    some = View(ViewId(receiver.address, 6), (receiver.address,))
    receiver.unread = [some] * held
    receiver.on_state(receiver, stage.checker.messages.state_of(stage.members["B"]))
    stage.view("C", 6, "ABCD")
    stage.view("C", 7, "ABC")
    assert stage.checks == found


def test_gaps_between_sites_are_for_relay_to_announce(stage: Stage) -> None:
    stage.join("T", 9, "SFO")
    one, _, three, _ = stage.sends("T", 4)
    stage.gets("A", "T", one, three)
    assert stage.checks == []
    stage.gets("A", "T", one)
    assert stage.checks == ["fifo"]


# --- checks of whole members


@pytest.fixture
def world() -> World:
    world = World(1)
    for name in "AB":
        world.start(name, "sim.xml", "demo", attributes={"STABLE.desired_avg_gossip": "1s"})
        world.run_for(1)
    world.run_for(5)
    return world


def test_bounds_of_a_protocol_are_computed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Checker()
    for member in world.everybody:
        checker.watch(member)
    bounds = Bounds(checker)
    bounds.look(world.member("A"))
    assert checker.problems == []
    monkeypatch.setattr(NAKACK2, "statistics", lambda self: {"pending": 10**9})
    bounds.look(world.member("A"))
    assert [p.check for p in checker.problems] == ["bounds"]


@pytest.mark.parametrize("fate", ["alive", "paused", "dead", "leaving"])
def test_a_living_member_that_is_taken_for_proved_dead_stays(world: World, fate: str) -> None:
    checker = Checker()
    a, b = world.member("A"), world.member("B")
    for member in (a, b):
        checker.watch(member)
    world.after_each_step.append(Deaths(checker).after_step)
    world.run_for(5)
    match fate:
        case "paused":
            b.pause()
        case "dead":
            b.crash()
        case "leaving":
            b.leave()
    verify = a.stack.find(VERIFY_SUSPECT2)
    assert verify is not None
    a.act(lambda: verify.event_up(Suspect((b.address,))))
    assert checker.problems == [], "silence is not judged"
    a.act(lambda: verify.event_up(Suspect((b.address,), True)))
    lives = fate in ("alive", "paused")
    assert {p.check for p in checker.problems} == ({"death"} if lives else set())


@pytest.mark.parametrize("apart", ["", "merged", "sender", "receiver"])
def test_bounds_of_a_stream_are_kept(world: World, apart: str) -> None:
    """After a merge of the two a credit may have been given twice; a member with a view without the other one, read or
    unread, does not count."""
    checker = Checker()
    a, b = world.member("A"), world.member("B")
    for member in (a, b):
        checker.watch(member)
    b.reading = False
    credit = Credit(a.address, True, 3_000_000)
    b.unread += [Batch(None, (b"x",), {}, a.address, credits=(credit,))] * 3
    if apart == "merged":
        parts = [View(ViewId(m.address, 0), (m.address,)) for m in (a, b)]
        both = (a.address, b.address)
        checker.messages.on_view(b, parts[1])
        checker.messages.on_view(b, MergeView(ViewId(a.address, 1), both, tuple(parts)))
    elif apart:
        reader = a if apart == "sender" else b
        reader.unread.append(View(ViewId(reader.address, 9), (reader.address,)))
    Bounds(checker).look(b)
    assert [p.check for p in checker.problems] == ([] if apart else ["bounds"])


@pytest.mark.parametrize(
    ("size", "count", "kept"),
    [(3_000_000, 2, True), (3_000_000, 3, False), (50_000, 80, True), (50_000, 81, False)],
)
def test_a_stream_may_hold_one_cut_message_beyond_the_credits(
    world: World, size: int, count: int, kept: bool
) -> None:
    checker = Checker()
    a, b = world.member("A"), world.member("B")
    for member in (a, b):
        checker.watch(member)
    b.reading = False
    credit = Credit(a.address, True, size)
    b.unread += [Batch(None, (b"x",), {}, a.address, credits=(credit,))] * count
    Bounds(checker).look(b)
    assert (checker.problems == []) == kept


def test_leftovers_are_a_violation(world: World) -> None:
    a, b = world.member("A"), world.member("B")
    known: dict[Address, Member] = {m.address: m for m in (a, b)}
    assert list(leftovers(a, known, [a, b])) == []
    told = list(leftovers(a, known, [a]))
    assert any("A: FD_ALL3._heard still names B#1" in line for line in told)
    b.crash()
    world.run_for(500)  # caches of SHARED_LOOPBACK and UNICAST3 forget after 360 s
    assert list(leftovers(a, known, [a])) == []
    a.stack.protocols[-1].forgotten_things = {b.address: 1}  # type: ignore[attr-defined]
    assert list(leftovers(a, known, [a])) == ["A: STATE_TRANSFER.forgotten_things still names B#1"]


def test_waiting_messages_are_reported(world: World) -> None:
    a = world.member("A")
    assert waiting(a.stack) is None
    a.send(b"one")
    world.run_for(0.1)
    assert waiting(a.stack) == "NAKACK2.unstable is 1"


def test_counters_that_raise_are_found_at_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``Stack.statistics`` leaves such counters out, and nothing would seem to wait."""
    a = world.member("A")
    monkeypatch.setattr(NAKACK2, "statistics", lambda self: {"unstable": 1 // 0})
    assert "NAKACK2" in a.stack.statistics()
    with pytest.raises(ZeroDivisionError):
        waiting(a.stack)
    with pytest.raises(ZeroDivisionError):
        a.statistics()
