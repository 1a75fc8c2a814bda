"""A member that missed a view: it acts as in a merge, and all agree on who has whose backups."""

from buddy_script import Script, address

from jgroups_py.buddy.buddies import COMPLETE, FILLING
from jgroups_py.buddy.messages import FillAck

A = address("A")


def test_a_gap_in_the_views_counts_as_a_merge() -> None:
    s = Script(3)
    s.write("A", "a")
    s.hold_views("C")
    s.join()
    s.run()
    s.join()
    s.run()
    s.step("skip", address("C"))
    assert s.machine("C").tag[0] == 3 and s.machine("C").unmerged and s.machine("C").frozen
    s.rest()
    assert not s.machine("C").unmerged and s.owner("a") == "A"


def test_an_answer_to_an_earlier_assignment_does_not_count() -> None:
    s = Script(3)
    name = s.holders("A")
    buddies, holder = s.machine("A").buddies, address(name)
    first = buddies.holders[holder].turn
    assert buddies.holders[holder].state is COMPLETE
    s.hold("A", name)
    buddies.begin_anew([holder])
    while buddies.push():
        pass
    assert buddies.holders[holder].turn > first
    buddies.on_fill_ack(holder, FillAck(first))
    assert buddies.holders[holder].state is FILLING
    buddies.on_fill_ack(holder, FillAck(buddies.holders[holder].turn))
    assert buddies.holders[holder].state is COMPLETE


def test_a_holder_that_has_dropped_its_copy_is_given_a_new_one() -> None:
    s = Script(3)
    s.write("A", "a")
    name = s.holders("A")
    del s.machine(name).backups.of[A]
    s.join()
    s.run()
    assert s.machine("A").statistics["holders_lost"] == 1
    s.rest()


def test_a_copy_that_nobody_wants_goes_with_the_next_view() -> None:
    s = Script(4)
    s.write("A", "a")
    (other,) = [n for n in "BCD" if n not in s.holders("A")][:1]
    kept = s.machine(s.holders("A")).backups.of[A]
    s.machine(other).backups.of[A] = kept
    s.join()
    s.run()
    assert A not in s.machine(other).backups.of
    s.rest()
