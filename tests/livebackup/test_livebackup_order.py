"""The order of the backup: the seed's example, the pair that waits for each other, random graphs, and all orders
of small ones."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ordering_world import Graph, World, explore, play, small_graphs

from jgroups_py.livebackup.applier import Applier, Reversal, Step
from jgroups_py.livebackup.errors import BadOperation, LagFull
from jgroups_py.livebackup.ledger import Ledger
from jgroups_py.livebackup.tickets import Counters, Ticket, read_record, write_record

GOLDEN = "S1(12), Q1(102), Q2(32), S2(74), S3(1038)"
CIRCLE: Graph = (("S1", "Q1"), ("Q1", "S1"))


@pytest.mark.seed("P5", "P6", "P7")
def test_an_operation_gets_the_numbers_of_the_seeds_example() -> None:
    counters = Counters({"S1": 11, "Q1": 101, "Q2": 31, "S2": 73, "S3": 1037}.items())
    record = [counters.next(name) for name in ("S1", "Q1", "Q2", "S2", "S3")]
    assert write_record(record) == GOLDEN
    assert read_record(GOLDEN) == tuple(record)


@pytest.mark.seed("P11")
def test_change_102_of_a_queue_at_100_waits_for_101() -> None:
    backup = Applier({"Q1": 100})
    assert backup.add(1, [Ticket("Q1", 102)]) == []
    assert backup.waits() == [Step(1, 0, Ticket("Q1", 102))]
    [step] = backup.add(2, [Ticket("Q1", 101)]) or []
    assert backup.done(step) == [Step(1, 0, Ticket("Q1", 102))]
    assert backup.waits() == []


def test_a_step_waits_for_the_steps_of_its_operation_before_it() -> None:
    backup = Applier()
    [first] = backup.add(1, read_record("S1(1), Q1(1)")) or []
    assert first == Step(1, 0, Ticket("S1", 1)) and backup.next_ticket(1) == first.ticket
    assert backup.done(first) == [Step(1, 1, Ticket("Q1", 1))]
    assert backup.is_ready(1)


@pytest.mark.seed("P12")
def test_operations_on_different_objects_are_ready_at_once() -> None:
    backup = Applier()
    ready = [backup.add(n, [Ticket(f"Q{n}", 1)]) for n in range(1, 9)]
    assert ready == [[Step(n, 0, Ticket(f"Q{n}", 1))] for n in range(1, 9)]


@pytest.mark.seed("P2", "P9")
def test_the_pair_in_a_circle_ends_and_is_confirmed_together() -> None:
    backup = Applier({"S1": 11, "Q1": 100})
    [a] = backup.add(1, read_record("S1(12), Q1(102)")) or []
    [b] = backup.add(2, read_record("Q1(101), S1(13)")) or []
    assert backup.done(a) == []
    ready = backup.done(b)
    assert ready == [Step(2, 1, Ticket("S1", 13)), Step(1, 1, Ticket("Q1", 102))]
    backup.done(ready[1])
    assert backup.ended(1) == {}, "it depends on the other one, which is not complete"
    backup.done(ready[0])
    assert list(backup.ended(2)) == [1, 2]
    assert len(backup) == 0


@pytest.mark.seed("P13")
def test_half_an_operation_is_reversed_with_its_dependents() -> None:
    backup = Applier({"Q1": 100, "S1": 11})
    made: list[Step] = []

    def make(steps: list[Step] | None) -> list[Step]:
        found = [*(steps or [])]
        for step in found:
            made.append(step)
            found += backup.done(step, f"undo {step.ticket}")
        return found

    make(backup.add(1, read_record("Q1(101), S1(13)")))  # S1(12) never comes
    make(backup.add(2, read_record("Q1(102)")))
    make(backup.add(3, read_record("S2(1)")))
    assert backup.ended(2) == {}, "it has seen what operation 1 did"
    assert list(backup.ended(3)) == [3]
    assert backup.abandon() == [
        Reversal(Step(2, 0, Ticket("Q1", 102)), "undo Q1(102)"),
        Reversal(Step(1, 0, Ticket("Q1", 101)), "undo Q1(101)"),
    ]
    assert backup.vector() == {"Q1": 100, "S1": 11, "S2": 1}
    assert len(backup) == 0 and backup.waits() == []


def test_an_operation_waits_for_an_incomplete_one_that_another_one_depends_on() -> None:
    ledger = Ledger()
    for number, text in enumerate(("A(1)", "A(2), B(1)", "B(2), C(1)", "C(2)"), start=1):
        ledger.add(number, read_record(text))
    assert [list(ledger.completed(number)) for number in (2, 3, 4)] == [[], [], []]
    ledger.check()
    assert list(ledger.completed(1)) == [1, 2, 3, 4]
    assert len(ledger) == 0


def test_an_operation_that_waited_for_two_is_confirmed_after_the_second_one() -> None:
    ledger = Ledger()
    for number, text in enumerate(("A(1)", "B(1)", "A(2), B(2)"), start=1):
        ledger.add(number, read_record(text))
    assert list(ledger.completed(3)) == []
    assert list(ledger.completed(1)) == [1]
    assert list(ledger.completed(2)) == [2, 3]


def test_an_object_that_was_never_changed_takes_no_room() -> None:
    counters = Counters()
    counters.back(counters.next("Q1"))
    assert counters.vector() == {} and counters["Q1"] == 0


def test_a_snapshot_contains_operations_that_come_after_it() -> None:
    backup = Applier({"Q1": 5, "S1": 2}, 7)
    assert backup.add(7, read_record("Q1(5), S1(2)")) is None
    assert len(backup) == 0
    assert backup.add(8, read_record("Q1(6)")) == [Step(8, 0, Ticket("Q1", 6))]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ([Ticket("Q1", 0)], "numbers of an object grow"),
        ([Ticket("Q1", 7), Ticket("Q1", 7)], "numbers of an object grow"),
        ([Ticket("Q1", 2**63)], "numbers of an object grow"),
        ([Ticket("Q1", 6)], "belongs to operation 1"),
        ([Ticket("Q1", 5)], "is over, Q1 is at 5"),
        ([Ticket("Q1", 5), Ticket("S1", 1)], "is over, Q1 is at 5"),
        ([Ticket("S1", n) for n in range(1, 12)], "at most 10 are taken"),
    ],
)
def test_a_record_that_no_live_node_makes_is_refused_and_changes_nothing(
    record: list[Ticket], problem: str
) -> None:
    backup = Applier({"Q1": 5}, record_max=10)
    backup.add(1, [Ticket("Q1", 6)])
    before = backup.vector()
    with pytest.raises(BadOperation, match=problem):
        backup.add(2, record)
    for again in ([], [Ticket("S1", 1)]):
        with pytest.raises(BadOperation, match="comes after operation 1"):
            backup.add(1, again)
    backup.check()
    assert backup.vector() == before and len(backup) == 1


def test_a_backup_holds_no_more_operations_than_it_may() -> None:
    backup = Applier(operations_max=2)
    backup.add(1, [Ticket("Q1", 2)])
    backup.add(2, [Ticket("Q1", 3)])
    with pytest.raises(LagFull, match="2 operations"):
        backup.add(3, [Ticket("Q1", 1)])
    backup.check()


@pytest.mark.parametrize("text", ["S1", "S1()", "S1(1) S2(2)", "S1(1),,S2(2)", "(1)", "S1(-1)"])
def test_a_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(BadOperation, match="is no ticket"):
        read_record(text)


def test_an_empty_record_is_written_and_read() -> None:
    assert write_record(()) == "" and read_record("  ") == ()


NAMES = st.sampled_from(["S1", "Q1", "Q2", "S1-", "Q1-"])
GRAPHS = st.lists(st.lists(NAMES, max_size=4).map(tuple), min_size=1, max_size=8).map(tuple)


@pytest.mark.seed("P1", "P2")
@settings(max_examples=150)
@given(graph=GRAPHS, chance=st.randoms(use_true_random=False))
def test_random_graphs_never_hang_and_end_as_one_change_at_a_time(
    graph: Graph, chance: random.Random
) -> None:
    world = play(graph, chance)
    alone = World(graph, crashes=False, rejoin=False)
    for op in world.order:  # one thread, in the live order
        alone.act(("live", op))
    assert world.copies == alone.objects


@pytest.mark.seed("P9", "P13")
@settings(max_examples=150)
@given(
    graph=GRAPHS,
    chance=st.randoms(use_true_random=False),
    lost=st.sampled_from(["live", "backup", "both"]),
    differs=st.booleans(),
)
def test_all_confirmed_operations_and_no_others_survive_the_loss_of_either_node(
    graph: Graph, chance: random.Random, lost: str, differs: bool
) -> None:
    play(graph, chance, lost=lost, differs=differs)


@pytest.mark.seed("P2", "P9", "P13")
def test_all_orders_of_the_pair_in_a_circle() -> None:
    assert explore(CIRCLE) > 300


def test_all_orders_of_three_operations_in_a_circle() -> None:
    assert explore((("A", "B"), ("B", "C"), ("C", "A")), rejoin=False) > 1_000


def test_all_orders_of_all_graphs_of_two_operations_with_two_steps() -> None:
    graphs = list(small_graphs(2, 2, ("A", "B")))
    assert len(graphs) == 8
    assert sum(explore(graph) for graph in graphs) > 3_000


REUSED: Graph = (("A",), ("A-",), ("B",), ("A", "B"))
"""An object is removed, forgotten and made anew."""


@pytest.mark.seed("P2", "P9", "P13")
def test_all_orders_of_an_object_that_is_removed_and_made_anew_when_the_live_node_is_lost() -> None:
    assert explore(REUSED, rejoin=False) > 7_000


def test_all_orders_of_it_when_a_backup_takes_its_objects_anew() -> None:
    assert explore((("A",), ("A-",), ("A",)), crashes=False, rejoin=False, differs=True) > 500


@pytest.mark.slow
def test_all_orders_of_it_with_a_name_that_begins_anew() -> None:
    for options in ({"rejoin": True}, {"rejoin": False, "differs": True}):
        assert explore(REUSED, crashes=False, **options) > 15_000


@pytest.mark.slow
def test_all_orders_of_all_graphs_of_two_operations_with_two_steps_that_may_remove() -> None:
    graphs = list(small_graphs(2, 2, ("A", "B"), removals=True))
    assert len(graphs) == 128
    assert sum(explore(graph) for graph in graphs) > 60_000
    for graph in graphs:
        explore(graph, rejoin=False, differs=True)


@pytest.mark.slow
def test_all_orders_of_all_graphs_of_two_operations_with_three_steps() -> None:
    for graph in small_graphs(2, 3, ("A", "B", "C")):
        explore(graph)


@pytest.mark.slow
def test_all_orders_of_all_graphs_of_three_operations_with_two_steps() -> None:
    for graph in small_graphs(3, 2, ("A", "B")):
        explore(graph)


def test_a_fault_of_the_order_is_seen_by_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: Applier, op: int) -> list[Step]:
        running = self.running[op]
        if running.made == len(running.record):
            return []
        running.ready = True
        return [Step(op, running.made, running.record[running.made])]

    monkeypatch.setattr(Applier, "_go_on", at_once)
    with pytest.raises(AssertionError):
        explore(CIRCLE)
