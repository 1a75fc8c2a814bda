"""Costs, calls and limits of the machine."""

import pytest
from buddy_script import Script, address, limit

from jgroups_py.buddy.call import BuddyCall, NotBegun, OwnedElsewhere
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Answer, AskAll, Chunk, Claim, Filled, Merged, Op, Part, Settle
from jgroups_py.buddy.outputs import BuddyEvent, BuddyOutcome, Completed, SendMessage
from jgroups_py.buddy.values import pieces
from jgroups_py.errors import ConfigError
from jgroups_py.values.view import View, ViewId

A, B = address("A"), address("B")


@pytest.mark.seed("B1", "B2")
@pytest.mark.parametrize("buddies", [1, 2, 3])
def test_a_write_costs_as_many_messages_as_buddies_at_any_size(buddies: int) -> None:
    for members in (5, 50):
        s = Script(members, buddies)
        s.write("B", "x")
        before = sent(s)
        s.write("B", "x")
        after = sent(s)
        changed = {kind: after[kind] - before.get(kind, 0) for kind in after}
        assert {k: n for k, n in changed.items() if n} == {
            "sent_Op": buddies,
            "sent_OpAck": buddies,
        }


def sent(s: Script) -> dict[str, int]:
    total: dict[str, int] = {}
    for machine in s.world.machines.values():
        for kind, count in machine.statistics.items():
            if kind.startswith("sent_"):
                total[kind] = total.get(kind, 0) + count
    return total


@pytest.mark.seed("B6")
def test_a_synchronous_write_waits_for_the_buddy_an_asynchronous_one_does_not() -> None:
    for sync in (True, False):
        s = Script(3, sync=sync)
        s.write("B", "x")
        s.hold("B", "C", Op)
        number = s.call("B", "write", "x")
        s.run()
        assert (s.outcome(number) is None) is sync
        s.rest()
        assert s.done(number).outcome is BuddyOutcome.DONE


@pytest.mark.seed("B7", "B9", "B10", "B12")
def test_a_node_moves_when_it_is_asked_for_and_not_before() -> None:
    s = Script(5)
    s.write("A", "x")
    s.write("A", "y")
    s.crash("A")
    s.run()
    assert s.owner("x") == s.owner("y") == "B"
    assert s.machine("B").ownership.adopted_from == {("x",): A, ("y",): A}
    read = s.call("D", "read", "x")
    s.run()
    assert s.done(read).result == {("x",): 1}
    assert (s.owner("x"), s.owner("y")) == ("D", "B")
    holding = [m.me for m in s.world.machines.values() for b in m.backups.of.values() if b.nodes]
    assert set(holding) == {address("C"), address("E")}  # y for B, x for D
    s.rest()


def test_state_is_pushed_in_pieces_bounded_by_nodes_and_by_bytes() -> None:
    config = BuddyConfig(chunk_nodes=3, chunk_bytes=100)
    machine = BuddyMachine(A, config)
    machine.install(View(ViewId(A, 1), (A,)), 0)
    machine.receive(A, machine.tag, Settle(), 0)
    values = [{"k": bytes(99)}, {"k": bytes(98)}, {"k": [bytes(60), "x" * 60]}, *[{}] * 4, None]
    for number, value in enumerate(values):
        path = ("n", str(number))
        machine.submit(BuddyCall(number, ((path, False),), lambda _, p=path, v=value: {p: v}), 0)  # type: ignore[misc]
    machine.install(View(ViewId(A, 2), (A, B)), 1)
    machine.take()
    while machine.push(2):
        pass
    sent = [out.message for out in machine.take() if isinstance(out, SendMessage)]
    chunks = [[path[1] for path, _ in m.nodes] for m in sent if isinstance(m, Chunk)]
    assert chunks == [["0"], ["1", "2"], ["3", "4", "5"], ["6"]]
    assert isinstance(sent[-1], Filled)


def test_moving_nodes_go_in_pieces_and_the_claim_ends_with_the_last_one() -> None:
    s = Script(3)
    for machine in s.world.machines.values():
        limit(machine, chunk_nodes=3)
    s.write("B", *(f"n/{number}" for number in range(7)))
    s.hold("B", "C", Answer)
    read = s.call("C", "read", "n", deep=True)
    s.run()
    waiting = [m for _, m in s.world.channels[address("B"), address("C")]]
    answers = [(len(m.grants), m.more) for m in waiting if isinstance(m, Answer)]
    assert answers == [(3, True), (3, True), (1, False)]
    s.deliver("B", "C", len(waiting) - 1)
    s.held.clear()
    s.hold("B", "C", Answer)
    s.run()
    assert s.outcome(read) is None and s.owner("n/5") == "C"
    s.free_all()
    s.run()
    assert len(s.done(read).result) == 7 and s.owner("n/6") == "C"
    s.rest()


def test_a_view_between_two_pieces_leaves_each_node_with_one_owner() -> None:
    s = Script(3)
    for machine in s.world.machines.values():
        limit(machine, chunk_nodes=1)
    s.write("B", *(f"n/{number}" for number in range(4)))
    s.hold("B", "C", Answer)
    read = s.call("C", "read", "n", deep=True)
    s.run()
    s.deliver("B", "C", 2)
    s.join()
    s.free_all()
    s.run()
    assert len(s.done(read).result) == 4
    assert {s.owner(f"n/{number}") for number in range(4)} == {"C"}
    s.rest()


def test_pieces_are_bounded_by_nodes_and_by_bytes() -> None:
    sizes = [100, 99, 121, 1, 1, 1, 1]
    items = [(n, bytes(size)) for n, size in enumerate(sizes)]
    found = pieces(items, lambda item: item[1], nodes=3, size=100)
    assert [[n for n, _ in piece] for piece in found] == [[0], [1, 2], [3, 4, 5], [6]]
    assert pieces([], lambda item: item, nodes=3, size=100) == [[]]


@pytest.mark.seed("B14")
def test_an_adoption_goes_to_buddies_in_pieces_that_take_effect_as_one() -> None:
    s = Script(4)
    for machine in s.world.machines.values():
        limit(machine, chunk_nodes=3)
    s.write("B", *(f"n/{number}" for number in range(7)))
    s.hold("C", "D", Part)
    s.crash("B")
    s.run()
    waiting = [m for _, m in s.world.channels[address("C"), address("D")]]
    sizes = [len(m.changes) for m in waiting if isinstance(m, Part | Op)]
    assert sizes == [3, 3, 1] and isinstance(waiting[2], Op) and waiting[2].adopted
    backup = s.machine("D").backups.of[address("C")]
    s.deliver("C", "D", 2)
    assert not backup.nodes and not backup.adopted
    s.deliver("C", "D")
    assert len(backup.nodes) == 7 and address("B") in backup.adopted and not backup.parts
    s.rest()


def test_half_an_entry_of_an_owner_that_dies_is_nothing() -> None:
    s = Script(3)
    x = s.write("B", "x", "y")
    s.hold("B", "C", Op)
    s.call("B", "write", "x", "y")
    s.run()
    assert s.waiting("B", "C") == ["Op"] and s.machine("C").backups.of[address("B")].parts
    s.crash("B")
    s.run()
    s.rest()
    assert {s.node(s.owner(path), path).value for path in "xy"} == {x}


def test_a_member_that_may_not_take_a_node_learns_its_owner() -> None:
    s = Script(3)
    s.write("B", "x")
    refused = s.call("C", "write", "x", mode="create")
    created = s.call("C", "write", "y", mode="create")
    s.run()
    assert s.done(refused).outcome is BuddyOutcome.FAILED
    assert isinstance(s.done(refused).error, OwnedElsewhere)
    assert s.done(created).outcome is BuddyOutcome.DONE
    assert (s.owner("x"), s.owner("y")) == ("B", "C")
    s.rest()


def test_a_call_that_is_given_up_says_whether_it_may_have_been_done() -> None:
    s = Script(3)
    s.write("B", "x")
    s.hold("B", "C", Op)
    written = s.call("B", "write", "x")
    s.hold("B", "A")
    claimed = s.call("A", "write", "x")
    s.run()
    s.step("cancel", B, written)
    s.step("cancel", A, claimed)
    assert s.done(written).outcome is BuddyOutcome.UNKNOWN
    assert s.done(claimed).outcome is BuddyOutcome.FAILED
    s.rest()
    assert s.owner("x") == "A" and s.node("A", "x").value == written


def test_creating_a_vouched_path_costs_no_claim() -> None:
    machine = alone_with_buddy()
    machine.submit(BuddyCall(1, ((("s",), False),), lambda old: {("s",): 1}, new=True), 0.0)
    assert "claims" not in machine.statistics
    assert machine.own[("s",)].value == 1


def alone_with_buddy(config: BuddyConfig | None = None) -> BuddyMachine:
    machine = BuddyMachine(B, config)
    machine.install(View(ViewId(A, 1), (A, B)), 0.0)
    machine.take()
    return machine


def completed(machine: BuddyMachine) -> list[Completed]:
    return [out for out in machine.take() if isinstance(out, Completed)]


def test_more_calls_than_may_wait_are_refused() -> None:
    machine = alone_with_buddy(BuddyConfig(calls_max=2))
    for number in range(3):
        machine.submit(BuddyCall(number, ((("x",), False),)), 0.0)
    (only,) = completed(machine)
    assert (only.call, only.outcome) == (2, BuddyOutcome.FAILED) and isinstance(
        only.error, NotBegun
    )


@pytest.mark.parametrize("writes", [{("y",): 1}, None])
def test_a_change_that_raises_or_strays_changes_nothing(writes: object) -> None:
    machine = alone_with_buddy()

    def change(old: object) -> object:
        if writes is None:
            raise KeyError("x")
        return writes

    machine.submit(BuddyCall(1, ((("x",), False),), change, new=True), 0.0)  # type: ignore[arg-type]
    (only,) = completed(machine)
    assert only.outcome is BuddyOutcome.FAILED and only.error is not None
    assert machine.own == {} and machine.log.seq == 0


def test_messages_of_newer_views_are_held_up_to_a_limit() -> None:
    machine = alone_with_buddy(BuddyConfig(held_max=3))
    for seq in range(5):
        machine.receive(A, (9, A), Op(seq, ()), 0.0)
    told = [out for out in machine.take() if isinstance(out, BuddyEvent)]
    assert [event.kind for event in told] == ["complaint"] * 2
    assert machine.statistics["held_overflow"] == 2


def test_a_member_without_inventory_is_suspected() -> None:
    machine = BuddyMachine(A, BuddyConfig(communication_timeout=5.0))
    machine.install(View(ViewId(A, 1), (A, B)), 0.0)
    machine.advance(5.0)
    assert not [e for e in machine.take() if isinstance(e, BuddyEvent) and e.kind == "suspect"]
    machine.advance(5.1)
    assert BuddyEvent("suspect", B) in machine.take()


def test_a_leave_that_takes_too_long_says_that_it_is_a_crash() -> None:
    machine = BuddyMachine(B, BuddyConfig(leave_timeout=5.0))
    machine.install(View(ViewId(A, 1), (A, B)), 0.0)
    machine.leave(1.0)
    machine.advance(7.0)
    assert BuddyEvent("leave_timed_out") in machine.take()
    machine.submit(BuddyCall(1, ((("x",), False),)), 7.0)
    assert completed(machine)[0].outcome is BuddyOutcome.FAILED


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls_max": 0},
        {"chunk_bytes": 0},
        {"leave_timeout": 0.0},
        {"tombstone_time": -1.0},
        {"partition": "half"},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        BuddyConfig(**wrong)  # type: ignore[arg-type]


def test_with_majority_the_smaller_side_neither_adopts_nor_claims_nor_acknowledges() -> None:
    s = Script(5, judged="merges", majority=True)
    s.write("B", "x")
    s.write("C", "y")
    s.hold("B", "C", Op)
    doubtful = s.call("B", "write", "x")
    s.split("AB")
    s.run()
    assert s.machine("A").minority and not s.machine("A").settled
    assert s.done(doubtful).outcome is BuddyOutcome.UNKNOWN
    waiting = s.call("B", "write", "x")
    s.run()
    assert s.outcome(waiting) is None
    s.write("D", "x")  # the larger side has adopted it
    assert s.owner("x") == "BD"
    s.merge()
    s.rest()
    assert s.done(waiting).outcome is BuddyOutcome.DONE and s.owner("x") == "B"
    listed = [e.detail for _, e in s.world.events if e.kind == "discarded"]
    assert {d.stamp.version for d in listed} == {2}  # the write in doubt


@pytest.mark.parametrize("majority", [False, True])
def test_a_merge_that_drops_a_write_under_way_does_not_acknowledge_it(majority: bool) -> None:
    """The owner was stopped, and the others went on: its former holders do not know the write."""
    s = Script(5, judged="merges", majority=majority)
    s.write("C", "x")
    s.stop("C")
    s.run()
    s.write("D", "x")
    doubtful = s.call("C", "write", "x")
    s.wake("C")
    s.rest()
    assert s.done(doubtful).outcome is BuddyOutcome.UNKNOWN
    assert s.owner("x") == "D"


def test_a_write_under_way_that_a_merge_keeps_is_acknowledged_when_that_is_decided() -> None:
    s = Script(5, judged="merges", majority=True)
    s.write("C", "x")
    s.stop("C")
    s.run()
    kept = s.call("C", "write", "x")
    s.hold("A", "C", Settle)
    s.wake("C")
    s.run()
    assert s.machine("C").membership.frozen and s.outcome(kept) is None
    s.free("A", "C")
    s.rest()
    assert s.done(kept).outcome is BuddyOutcome.DONE
    assert s.owner("x") == "C" and s.node("C", "x").stamp.version == 2


def test_a_write_under_way_is_in_doubt_when_its_member_ends_on_the_smaller_side() -> None:
    s = Script(5, judged="merges", majority=True)
    s.write("C", "x")
    s.stop("C")
    s.run()
    doubtful = s.call("C", "write", "x")
    s.hold("A", "C", Settle)
    s.wake("C")
    s.run()
    assert s.outcome(doubtful) is None
    s.split("C")
    s.run()
    assert s.machine("C").minority
    assert s.done(doubtful).outcome is BuddyOutcome.UNKNOWN
    s.merge()
    s.rest()


def test_with_majority_a_member_that_left_on_purpose_is_not_missed() -> None:
    s = Script(2, majority=True)
    s.write("B", "x")
    s.leave("B")
    s.run()
    s.go("B")
    s.rest()
    assert s.owner("x") == "A"


def test_a_leave_that_leaves_too_few_members_is_reported() -> None:
    s = Script(3)
    s.leave("B")
    assert "leaves_below" not in s.machine("B").statistics
    s.run()
    s.leave("C")
    assert s.machine("C").statistics["leaves_below"] == 1


@pytest.mark.parametrize("nodes", [0, 2])
def test_the_last_member_learns_which_nodes_end_with_it(nodes: int) -> None:
    s = Script(1)
    for number in range(nodes):
        s.write("A", f"{number}")
    s.leave("A")
    told = [e.detail for _, e in s.world.events if e.kind == "complaint"]
    assert told == (["nobody stays to take over 2 nodes"] if nodes else [])


def test_an_input_that_no_member_can_send_is_refused() -> None:
    s = Script(3)
    s.write("B", "x")
    machine = s.machine("B")
    before = dict(machine.own)
    for message in (Settle(), Merged(), AskAll(), Claim((A, 9), (((), True),), "take")):
        machine.receive(address("C"), machine.tag, message, 0.0)
    assert machine.statistics["bad_messages"] == 4
    machine.receive(A, machine.tag, Op(99, ((("x",), None),)), 0.0)
    machine.receive(address("C"), machine.tag, Op(99, ()), 0.0)
    assert machine.statistics["unexpected_ops"] == 2
    assert machine.own == before
    s.rest()


def test_a_guardian_without_the_backup_says_so() -> None:
    machine = BuddyMachine(B)
    machine.install(View(ViewId(A, 1), (A, B)), 0.0)
    machine.receive(A, (1, A), Settle(guardians=((address("C"), B),)), 0.0)
    assert machine.settled and machine.statistics["bad_messages"] == 1
