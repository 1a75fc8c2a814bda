"""A member that missed a view acts as in a merge, and all agree on the holders of backups."""

from buddy_script import Script, address

from jgroups_py.buddy.holders import COMPLETE, FILLING
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
    membership = s.machine("C").membership
    assert membership.number == 3 and membership.unmerged and membership.frozen
    s.rest()
    assert not membership.unmerged and s.owner("a") == "A"


def test_an_answer_to_an_earlier_assignment_does_not_count() -> None:
    s = Script(3)
    name = s.holders("A")
    buddies, holder = s.machine("A").buddies, address(name)
    first = buddies.holders[holder].turn
    assert buddies.holders[holder].state is COMPLETE
    s.hold("A", name)
    buddies.holders[holder].seen = 0  # in an earlier view
    buddies.begin_anew([(A, holder)])
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


def test_a_member_that_got_a_copy_after_it_had_said_that_it_has_none_keeps_it() -> None:
    """Another new member was dismissed because of it (crashes 50369): after a new beginning it would have no
    nodes for a while."""
    s = Script(4)
    s.write("A", "a")
    assert s.holders("A") == "B"
    s.hold("B", "A")
    s.leave("B")
    s.hold_views("A")
    s.crash("D")
    s.run()
    s.free("B", "A")  # A announces that it leaves; its further messages belong to the next view
    s.run()
    copy = s.machine("C").backups.of[A]
    assert copy.complete and s.machine("A").tag[0] == 1 and s.machine("C").tag[0] == 2
    s.free_all()
    s.run()
    assert s.machine("A").settled and s.machine("C").backups.of[A] is copy
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
