"""The parts of a node that need no network: confirmations, roles, rights of operations, messages from others."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from livebackup_group import KINDS, OPERATIONS, Queue, Session, live_work, put_all, put_both

from jgroups_py.livebackup.confirming import RULES, BackupLag, Confirming, Rule
from jgroups_py.livebackup.errors import BadOperation, OutsideOperation
from jgroups_py.livebackup.kinds import Catalogue, Stateful, only_reads
from jgroups_py.livebackup.messages import (
    MESSAGE_MAX,
    BadMessage,
    Confirm,
    Op,
    decode,
    encode,
    plain,
)
from jgroups_py.livebackup.objects import Object, Space
from jgroups_py.livebackup.roles import Decision, Election, Stand
from jgroups_py.livebackup.tickets import NAME_MAX, Counters, Ticket, write_record
from jgroups_py.livebackup.work import REST_EVERY, LiveObjects, Work

CATALOGUE = Catalogue.of(KINDS, OPERATIONS)


# --- confirmations


@pytest.mark.parametrize(("rule", "needed"), [("all", 3), ("quorum", 2), ("first", 1)])
def test_each_rule_needs_its_number_of_three_confirming_backups(rule: Rule, needed: int) -> None:
    confirming: Confirming[str] = Confirming(rule)
    for backup in "BCD":
        confirming.joined(backup, 0)
    assert confirming.sent(1, 10, 0.0) == []
    answered = [confirming.confirmed(backup, [1]) for backup in "BCD"]
    assert answered == [[1] if n == needed else [] for n in (1, 2, 3)]


def test_without_backups_an_operation_is_answered_at_once_unless_some_are_asked_for() -> None:
    assert Confirming[str]("all").sent(1, 10, 0.0) == [1]
    asking: Confirming[str] = Confirming("all", 1)
    assert asking.sent(1, 10, 0.0) == []
    assert asking.joined("B", 1) == [1], "the snapshot contains it"


def test_a_backup_that_has_left_is_not_waited_for() -> None:
    confirming: Confirming[str] = Confirming("all")
    confirming.joined("B", 0)
    confirming.joined("C", 0)
    confirming.sent(1, 10, 0.0)
    confirming.confirmed("B", [1])
    assert confirming.left("C") == [1] and confirming.left("C") == []


def test_answers_wait_until_the_last_terms_backups_have_named_their_live_node() -> None:
    confirming: Confirming[str] = Confirming("first", 0, "BC")
    assert confirming.members == ("B", "C")
    assert confirming.sent(1, 10, 0.0) == confirming.joined("B", 0) == []
    assert confirming.confirmed("B", [1]) == []
    assert confirming.left("C") == [1], "C has left, or asks for a snapshot"


def test_a_joined_backup_confirms_operations_outside_its_snapshot() -> None:
    confirming: Confirming[str] = Confirming("all", 1)
    for number in (1, 2, 3):
        confirming.sent(number, 10, 1.0)
    assert confirming.joined("B", 2) == [1, 2]
    assert confirming.lag(4.0) == BackupLag(1, 10, 3.0)
    assert confirming.confirmed("B", [3]) == [3]


def test_a_joined_backup_is_behind_by_operations_answered_while_its_snapshot_came() -> None:
    confirming: Confirming[str] = Confirming("all")
    confirming.given("B")
    assert confirming.sent(3, 10, 1.0) == [3], "nobody is asked"
    assert confirming.lag(2.0) == BackupLag(0, 0, 0.0), "it is no backup yet"
    confirming.joined("B", 2)
    assert confirming.lag(4.0) == BackupLag(1, 10, 3.0)
    assert confirming.confirmed("B", [3]) == [] and confirming.lag(4.0) == BackupLag(0, 0, 0.0)


def test_a_returning_backup_confirms_again_operations_outside_its_snapshot() -> None:
    confirming: Confirming[str] = Confirming("all")
    for backup in "BC":
        confirming.joined(backup, 0)
    confirming.sent(1, 10, 0.0)
    assert confirming.confirmed("B", [1]) == confirming.left("B") == confirming.joined("B", 0) == []
    assert confirming.confirmed("C", [1]) == []
    assert confirming.confirmed("B", [1]) == [1]


def test_a_backup_that_is_ready_once_more_and_confirms_again_counts_once() -> None:
    confirming: Confirming[str] = Confirming("quorum")
    for backup in "BCDE":
        confirming.joined(backup, 0)
    confirming.sent(1, 10, 0.0)
    confirming.confirmed("B", [1])
    confirming.joined("B", 0)
    assert confirming.confirmed("B", [1]) == [], (
        "a majority of five is two backups with the live node"
    )
    assert confirming.confirmed("C", [1]) == [1]


def test_no_more_operations_are_noted_for_a_joiner_than_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jgroups_py.livebackup.confirming.COMING_MAX", 2)
    confirming: Confirming[str] = Confirming("all")
    for member in "BC":
        confirming.given(member)
    confirming.left("C")
    for number in (1, 2, 3):
        confirming.sent(number, 10, 1.0)
    confirming.joined("B", 0)
    confirming.joined("C", 0)
    assert confirming.lag(1.0).operations == 0


def test_a_confirmation_that_comes_twice_or_from_a_stranger_changes_nothing() -> None:
    confirming: Confirming[str] = Confirming("all")
    confirming.joined("B", 0)
    confirming.joined("C", 0)
    confirming.sent(1, 10, 0.0)
    for _ in range(2):
        assert confirming.confirmed("B", [1, 7]) == confirming.confirmed("X", [1]) == []
    assert confirming.lag(5.0) == BackupLag(1, 10, 5.0), "C has not confirmed"
    assert confirming.confirmed("C", [1]) == [1] and confirming.lag(5.0) == BackupLag(0, 0, 0.0)


@settings(max_examples=60)
@given(rule=st.sampled_from(RULES), events=st.lists(st.integers(0, 5), max_size=40))
def test_lag_and_open_operations_end_when_all_have_confirmed(rule: Rule, events: list[int]) -> None:
    confirming: Confirming[str] = Confirming(rule)
    confirming.joined("B", 0)
    last, answered = 0, []
    for event in events:
        match event:
            case 0 | 1:
                last += 1
                answered += confirming.sent(last, 1, float(last))
            case 2:
                answered += confirming.joined("C", last) if "C" not in confirming.backups else []
            case 3:
                answered += confirming.left("C")
            case _:
                answered += confirming.confirmed("BC"[event - 4], range(last + 1))
    for backup in confirming.backups:
        answered += confirming.confirmed(backup, range(last + 1))
    assert sorted(answered) == list(range(1, last + 1)), "each is answered once"
    assert not len(confirming) and confirming.lag(99.0) == BackupLag(0, 0, 0.0)


# --- roles


def decided(members: str, stands: dict[str, Stand], quorum: int = 0) -> set[Decision[str] | None]:
    """Return the decision after the members' messages, which is the same in every order of them."""
    found = set()
    for order in itertools.permutations(stands):
        election = Election(members, quorum)
        results = [election.stands(member, stands[member]) for member in order]
        assert results[:-1] == [None] * (len(results) - 1)
        found.add(results[-1])
    return found


NOTHING, BACKUP, WAS_LIVE = Stand(0, False, False), Stand(3, True, False), Stand(3, True, True)


@pytest.mark.parametrize(
    ("stands", "live", "lost"),
    [
        ({"A": NOTHING}, "A", False),
        ({"A": NOTHING, "B": NOTHING}, "A", False),
        ({"A": NOTHING, "B": BACKUP, "C": BACKUP}, "B", False),
        ({"A": BACKUP, "B": WAS_LIVE}, "B", False),
        ({"A": WAS_LIVE, "B": Stand(4, True, False)}, "B", False),
        ({"A": Stand(3, True, False, 7), "B": Stand(3, True, False, 8)}, "B", False),
        ({"A": Stand(3, False, False, 9), "B": Stand(3, True, False, 8)}, "B", False),
        ({"A": Stand(3, True, False, 9), "B": Stand(4, True, False, 0)}, "B", False),
        ({"A": NOTHING, "B": Stand(4, False, False)}, "A", True),
    ],
)
def test_the_election_does_not_depend_on_the_order_of_the_stands(
    stands: dict[str, Stand], live: str, lost: bool
) -> None:
    (decision,) = decided("".join(stands), stands)
    newest = max(stand.term for stand in stands.values())
    assert decision is not None
    assert (decision.live, decision.term, decision.lost) == (live, newest + 1, lost)


def test_the_live_node_awaits_backups_whose_state_equals_its_own() -> None:
    stands = {"A": NOTHING, "B": BACKUP, "C": WAS_LIVE, "D": Stand(2, True, False), "E": BACKUP}
    assert decided("ABCDE", stands) == {Decision("C", 4, False, ("B", "E"))}


def test_no_node_is_live_before_all_have_spoken_or_in_a_view_that_is_too_small() -> None:
    election = Election("AB", 0)
    assert election.stands("A", BACKUP) is None and election.stands("X", BACKUP) is None
    assert decided("AB", {"A": BACKUP, "B": BACKUP}, 3) == {None}
    assert not Election("AB", 3).possible and Election("ABC", 3).possible


# --- rights of operations


@pytest.mark.seed("P6", "P7", "P8")
async def test_a_work_collects_the_number_of_each_change() -> None:
    work = live_work(Space(CATALOGUE))
    await work.run(put_both, ("a", "b", "m", 0))
    assert write_record(work.record) == "Queue/a(1), Queue/b(1)"


@pytest.mark.seed("P5", "P6", "P7")
async def test_the_operation_of_the_seeds_example_collects_its_numbers_while_it_runs() -> None:
    last = {"Session/S1": 11, "Queue/Q1": 101, "Queue/Q2": 31, "Session/S2": 73, "Session/S3": 1037}

    async def send(work: Work) -> None:
        await work.get(Session, "S1").sent()
        for queue in ("Q1", "Q2"):
            await work.get(Queue, queue).put("m")
        for session in ("S2", "S3"):
            await work.get(Session, session).deliver("m")

    work = live_work(Space(CATALOGUE), Counters(last.items()))
    await work.run(send, ())
    numbers = write_record(work.record).replace("Session/", "").replace("Queue/", "")
    assert numbers == "S1(12), Q1(102), Q2(32), S2(74), S3(1038)"


async def test_a_handle_calls_the_methods_that_its_kind_has_when_they_are_called() -> None:
    class Lamp(Stateful):
        def __init__(self) -> None:
            self.is_on = False

        def switch(self) -> str:
            return "first"

    work = live_work(Space(Catalogue.of([Lamp], [])))

    async def switch(work: Work) -> list[Any]:
        lamp = work.get(Lamp, "a")
        return [await lamp.switch(), await lamp.switch(), await getattr(lamp, name)()]

    name = "switch"
    assert await work.run(switch, ()) == ["first"] * 3
    Lamp.switch = lambda self: "second"  # type: ignore[method-assign]
    Lamp.dim = lambda self: "dimmed"  # type: ignore[attr-defined]
    name = "dim"
    assert await work.run(switch, ()) == ["second", "second", "dimmed"]
    for name in ("save", "is_on", "blink"):
        with pytest.raises(BadOperation, match=f"Lamp/a has no public method {name}"):
            await work.run(switch, ())
    name = "_private"
    with pytest.raises(AttributeError, match="_private"):
        await work.run(switch, ())


@pytest.mark.parametrize("exists", [True, False])
async def test_a_method_that_changes_another_object_is_refused(exists: bool) -> None:
    work = live_work(Space(CATALOGUE))

    class Meddling(Queue):
        async def put_elsewhere(self) -> None:
            await work.get(Queue, "b").put(1)

    async def operation(work: Work) -> None:
        await work.get(Meddling, "a").put_elsewhere()

    objects = work._objects
    space = Space(Catalogue.of([Meddling, Queue], []))
    work._objects = LiveObjects(space, objects.counters, objects.locks)
    if exists:
        space.object("Queue/b")
    with pytest.raises(BadOperation, match="one change after the other"):
        await work.run(operation, ())


@pytest.mark.parametrize("exists", [True, False])
async def test_an_operation_that_is_over_changes_nothing(exists: bool) -> None:
    space = Space(CATALOGUE)
    work = live_work(space)
    if exists:
        space.object("Queue/a")

    async def leak(work: Work) -> Any:
        return work.get(Queue, "a")

    handle = await work.run(leak, ())
    with pytest.raises(OutsideOperation, match="operation test is over"):
        await handle.put(1)
    assert work.record == []


async def test_an_operation_with_many_changes_lets_other_tasks_run() -> None:
    space = Space(CATALOGUE)
    space.object("Queue/a")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        await trio.lowlevel.checkpoint()
        before = turns
        await live_work(space).run(put_all, ("a", 4 * REST_EVERY))
        assert turns - before in (3, 4, 5)
        nursery.cancel_scope.cancel()


async def test_a_name_that_other_nodes_refuse_is_refused() -> None:
    longest = "q" * (NAME_MAX - len("Queue/"))
    work = live_work(Space(CATALOGUE))
    assert repr(work.get(Queue, longest)) == f"<Queue/{longest}>"
    for name in (f"{longest}q", f"{longest}\xe4"):
        with pytest.raises(BadOperation, match=f"at most {NAME_MAX} characters"):
            work.get(Queue, name)
    assert repr(work.get(Queue, "\xe4")) == "<Queue/\xe4>"


@pytest.mark.parametrize("name", ["_restore", "save", "load", "messages", "nothing"])
async def test_a_change_by_a_name_that_is_no_public_method_is_refused(name: str) -> None:
    work = live_work(Space(CATALOGUE))

    async def operation(work: Work) -> None:
        await work.change("Queue/a", name, ())

    with pytest.raises(BadOperation, match=f"Queue/a has no public method {name}"):
        await work.run(operation, ())
    assert work.record == []


class Deep(Stateful):
    """An object that reports each copy made of it."""

    def __init__(self) -> None:
        self.items: list[int] = NeverCopied([1, 2])
        self.same: list[int] = self.items
        self.name = ""

    @only_reads
    def first(self) -> int:
        return int(self.items[0])

    @only_reads
    def missing(self) -> int:
        return int(self.items[9])

    def change(self) -> None:
        self.items.append(3)


class NeverCopied(list[int]):
    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("it was copied")


async def test_undo_restores_a_copy_with_the_same_parts() -> None:
    deep = Deep()
    deep.items = deep.same = [1]
    deep.name = "x"
    found = Object("Deep/d", deep)
    _, undo = await found.call_undoable("change", ())
    deep.name = "y"
    assert deep.items == [1, 3]
    undo()
    assert deep.items == [1] and deep.same is deep.items and deep.name == "x"
    assert list(vars(deep)) == ["items", "same", "name"]


async def test_a_method_that_only_reads_copies_nothing() -> None:
    found = Object("Deep/d", Deep())
    outcome, undo = await found.call_undoable("first", (), keep=lambda state: None)
    assert outcome.value == 1 and undo() is None
    outcome, undo = await found.call_undoable("missing", ())
    assert isinstance(outcome.error, IndexError)
    with pytest.raises(AssertionError, match="it was copied"):
        await found.call_undoable("change", ())


# --- messages from others


def test_a_message_is_the_same_after_its_journey() -> None:
    op = Op(1, 2, "put", ["q", {"a": [1, b"x", None]}], 1.5, 7, [Ticket("Queue/q", 1)], "")
    assert decode(encode(op)) == op
    assert decode(encode(Confirm(1, [3, 2]))) == Confirm(1, [3, 2])
    assert plain((1, ("a", b"b"))) == [1, ["a", b"b"]]


@given(st.binary(max_size=60))
def test_random_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        encode(["o", 1]),
        encode(["c", -1, []]),
        encode(["c", 1, [2**63]]),
        encode(["o", 1, 1, "", [], 0.0, 1, None, ""]),
        encode(["o", 1, 1, "x", [], 0.0, 1, [["", 1]], ""]),
        encode(["z", 1]),
        b"\x91" * 100_000,
        bytes(MESSAGE_MAX + 1),
    ],
)
def test_bytes_that_are_no_message_of_livebackup_are_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(data)
