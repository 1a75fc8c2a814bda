"""The schedules T1 to T29 of the algorithm's note, as far as they concern one site.

Each plays a story in which one rule saves the data, and checks the result. Played with the rule
left out (``buddy_rules.py``) each fails.
"""

from collections.abc import Callable

from buddy_script import Script, address

from jgroups_py.buddy.messages import Adopted, Answer, Chunk, Claim, Op, Settle, TakeMine, Taken
from jgroups_py.buddy.outputs import BuddyOutcome

SCHEDULES: dict[str, Callable[[], None]] = {}


def schedule(function: Callable[[], None]) -> Callable[[], None]:
    SCHEDULES[function.__name__] = function
    return function


@schedule
def t1_two_members_put_the_same_new_path_at_the_same_time() -> None:
    s = Script(3)
    first, second = s.call("B", "write", "x"), s.call("C", "write", "x")
    s.run()
    assert s.done(first).outcome is s.done(second).outcome is BuddyOutcome.DONE
    assert len(s.owner("x")) == 1
    s.rest()


@schedule
def t2_a_search_reaches_the_new_owner_too_early_and_the_old_one_too_late() -> None:
    s = Script(4)
    s.write("B", "x")
    s.hold("A", "B", Claim)
    s.call("C", "write", "x")
    s.deliver("C", "A")
    s.call("D", "write", "x")
    s.deliver("D", "A")
    s.deliver("A", "D", 2)
    s.deliver("A", "C", 2)  # D's claim is at C before the grant
    s.deliver("A", "B")
    s.run()  # x moves from B to C, with DONE; D's claim is not at B yet
    assert "x" not in {"/".join(path) for path in s.machine("B").own}
    s.free("A", "B")
    s.run()
    assert s.owner("x") == "D"
    s.rest()


@schedule
def t3_a_claim_stays_open_until_the_last_answer() -> None:
    s = Script(5)
    s.write("B", "x")
    s.hold("A", "E", Claim)
    s.write("C", "x")  # C is done at the first grant; E has not answered yet
    s.call("E", "write", "x")
    s.run()
    assert s.owner("x") == "C"
    s.free("A", "E")
    s.run()
    assert s.owner("x") == "E"
    s.rest()


@schedule
def t4_the_former_owner_dies_after_the_grant() -> None:
    s = Script(5)
    s.write("B", "x")
    s.hold("D", "B", Taken)
    s.write("D", "x")
    s.crash("B")
    s.run()
    assert s.owner("x") == "D"
    s.rest()


@schedule
def t4_the_guardian_of_the_former_owner_dies_before_it_has_adopted() -> None:
    s = Script(6, buddies=2)
    s.write("B", "x")
    s.hold("C", "D", Op)
    s.call("C", "write", "y")  # of C's holders, E has the longer log
    s.hold("F", "B", Taken)
    s.write("F", "x")
    s.hold("A", "C", Settle)
    s.crash("B")
    s.run()  # C is guardian but does not know it
    s.crash("C")
    s.run()  # D is guardian of B, E of C
    s.join()
    s.rest()
    assert s.owner("x") == "F" and s.owner("y") == "E"


@schedule
def t4_nobody_has_what_the_former_owner_had() -> None:
    s = Script(5, judged="owners")
    s.write("B", "x")
    s.hold("D", "B", Taken)
    s.write("D", "x")
    s.crash("B", "C")
    s.rest()
    assert s.owner("x") == "D"


@schedule
def t5_the_new_owner_dies_before_its_buddies_have_the_node() -> None:
    s = Script(5)
    s.write("B", "x")
    s.hold("D", "E", Op)
    s.call("D", "read", "x")
    s.run()
    s.crash("D")
    s.run()
    s.rest()
    assert s.owner("x") == "B"


@schedule
def t6_a_removed_node_waits_for_its_former_owner() -> None:
    s = Script(5, tombstone_time=0.0)
    s.write("B", "x")
    s.hold("D", "B", Taken)
    s.call("D", "remove", "x")
    s.run()
    s.step("tick", 1.0)  # C purges everything that it may purge
    s.run()
    s.crash("D")
    s.run()
    s.rest()
    reader = s.call("C", "read", "x")
    s.run()
    assert s.done(reader).result == {}


@schedule
def t7_a_guardian_keeps_a_spare_until_the_other_one_has_the_node() -> None:
    s = Script(6, buddies=3)
    s.write("B", "x")
    assert s.holders("B") == "CDE" and s.holders("C") == "DEF"
    s.hold("C", "D", Op)
    s.hold("C", "E", Op)
    s.call("C", "read", "x")
    s.run()  # C has x; of its buddies only F has it
    s.crash("B", "C")
    s.hold("F", "A", Op)
    s.hold("F", "D", Op)
    s.hold("F", "E", Op)
    s.run()  # D is guardian of B, F of C
    assert s.owner("x") == "F"
    s.crash("F")
    s.run()
    s.rest()
    assert s.owner("x") != ""


@schedule
def t8_the_owner_dies_in_the_middle_of_a_change_of_buddies() -> None:
    s = Script(3)
    s.write("B", "x")
    s.hold_pushes("B")
    s.leave("C")
    s.run()
    assert s.holders("B") == "AC"  # A is not filled yet, but ranks first
    s.crash("B")
    s.rest()
    assert s.owner("x") != ""


@schedule
def t9_a_guardian_dies_before_the_other_holder_knows_of_the_adoption() -> None:
    s = Script(6, buddies=2)
    s.write("B", "x")
    s.hold("B", "C", Op)
    s.call("B", "write", "x")
    s.run()  # D has the longer log
    s.crash("B")
    s.hold("D", "C", Adopted)
    s.run()
    assert s.owner("x") == "D"
    s.write("A", "x")
    assert s.owner("x") == "A"
    s.crash("D")
    s.run()
    assert s.owner("x") == "A"
    s.rest()


@schedule
def t10_orphans_are_kept_until_the_guardians_buddies_have_them() -> None:
    s = Script(6, buddies=2)
    s.write("B", "x")
    s.crash("B")
    s.hold("C", "D", Op)
    s.hold("C", "E", Op)
    s.run()
    assert s.owner("x") == "C"
    s.crash("C")
    s.run()
    s.rest()
    assert s.owner("x") == "D"


@schedule
def t10_an_adoption_that_is_not_acknowledged_keeps_orphans_over_a_join() -> None:
    s = Script(6, buddies=2)
    s.write("B", "x")
    s.crash("B")
    s.hold("C", "D", Op)
    s.hold("C", "E", Op)
    s.run()
    s.join()
    s.run()
    s.crash("C")
    s.run()
    s.rest()
    assert s.owner("x") == "D"


@schedule
def t10_half_an_adoption_does_not_count() -> None:
    s = Script(5, buddies=2)
    s.write("B", "x", "y")
    s.hold("C", "D", Op)
    s.call("C", "write", "z")
    s.run()  # of C's buddies, E has more
    s.hold("C", "E", Op)
    s.crash("B")
    s.run()  # C adopts x and y; E gets the first half of that
    assert s.waiting("C", "E")[0] == "Op" and s.waiting("C", "D")
    s.crash("C")
    s.run()
    assert len(s.owner("x")) == len(s.owner("y")) == 1
    s.rest()


@schedule
def t11_a_join_shifts_the_ring_and_the_owner_dies() -> None:
    s = Script(3)
    s.write("C", "x")
    s.hold_pushes("C")
    s.join()
    s.run()
    assert "A" in s.holders("C") and "D" in s.holders("C")
    s.crash("C")
    s.rest()
    assert s.owner("x") == "A"


@schedule
def t12_a_dismissed_holder_counts_until_it_has_answered() -> None:
    s = Script(4, judged="owners")
    s.write("B", "x")
    s.hold("B", "C")
    s.leave("C")
    s.run()
    assert s.holders("B") == "CD" and s.waiting("B", "C") == ["Dismiss"]
    s.call("A", "write", "x")
    s.run()
    assert s.owner("x") == "A"
    s.crash("B", "D")
    s.run()
    assert s.owner("x") == "A"
    s.rest()


@schedule
def t13_a_write_overtakes_nothing_on_the_way_to_a_new_buddy() -> None:
    s = Script(3)
    s.write("C", "x")
    s.hold_pushes("C")
    s.join()
    s.run()
    s.write("C", "x")
    s.hold("C", "D", Chunk)
    s.held_pushes.clear()
    s.run()
    s.write("B", "y")
    s.rest()


@schedule
def t14_a_complete_buddy_beats_one_that_is_being_filled() -> None:
    s = Script(3)
    s.write("B", "x")
    s.hold_pushes("B")
    s.leave("C")
    s.run()
    s.hold("B", "C", Op)
    s.call("B", "write", "y")
    s.run()  # A, not filled yet, has the longer log
    s.crash("B")
    s.rest()
    assert s.owner("x") != ""


@schedule
def t15_taken_comes_before_the_guardian_knows_that_it_is_one() -> None:
    s = Script(5)
    s.write("B", "x")
    s.hold("E", "B", Taken)
    s.write("E", "x")
    s.hold("A", "C", Settle)
    s.crash("B")
    s.run()  # E has C's SETTLE; B's guardian C does not have it
    assert not s.machine("C").settled and s.machine("E").settled
    s.free("A", "C")
    s.run()
    assert s.owner("x") == "E"
    s.rest()


@schedule
def t16_two_groups_go_to_one_guardian_the_older_copy_first() -> None:
    s = Script(5, buddies=2)
    s.write("C", "x")
    s.hold("B", "C", Taken)
    s.write("B", "x")
    s.crash("B", "C")
    s.run()
    s.rest()
    assert s.owner("x") == "D"


@schedule
def t17_a_thousand_writes_beat_a_copy_that_was_only_adopted() -> None:
    s = Script(4, judged="merges")
    s.write("B", "x")
    s.split("AB")
    s.run()
    assert s.owner("x") == "BC"  # C's side has adopted it
    for _ in range(1000):
        last = s.write("B", "x")
    s.merge()
    s.rest()
    assert s.owner("x") == "B" and s.node("B", "x").value == last
    assert not [e for _, e in s.world.events if e.kind == "discarded"]


@schedule
def t17_a_removal_beats_a_copy_that_was_only_adopted() -> None:
    s = Script(4, judged="merges")
    s.write("B", "x")
    s.split("AB")
    s.run()
    s.call("B", "remove", "x")
    s.run()
    s.merge()
    s.rest()
    assert s.owner("x") == "B" and s.node("B", "x").removed


@schedule
def t18_the_owner_leaves_and_its_heir_crashes() -> None:
    s = Script(3)
    s.write("B", "x")
    s.leave("B")
    s.run()
    s.go("B")
    s.run()
    assert s.owner("x") == "C"
    s.crash("C")
    s.rest()
    assert s.owner("x") == "A"


@schedule
def t18_everybody_but_one_is_leaving_and_that_one_dies() -> None:
    s = Script(3)
    s.write("B", "x")
    s.leave("B")
    s.leave("C")
    s.run()
    assert s.owner("x") == "A"
    s.crash("A")
    s.run()
    assert s.owner("x") != ""


@schedule
def t18_of_two_leavers_the_one_with_the_only_copy_goes_last() -> None:
    s = Script(3)
    s.write("A", "x")
    s.leave("B")
    s.leave("C")
    s.run()
    holder = s.holders("A")
    assert any(s._take(("go", address(name))) for name in holder + "BC")
    s.crash("A")  # two members were left: the leave was no crash
    s.rest()
    assert s.owner("x") != ""


@schedule
def t18_leavers_do_not_wait_for_each_other() -> None:
    s = Script(4, buddies=2)
    s.write("A", "x")
    s.write("C", "y")
    s.leave("B")  # next in A's line, but not in C's
    s.leave("D")
    s.run()
    s.go("B")
    s.run()
    s.go("D")
    s.rest()


@schedule
def t18_who_may_leave_hands_on_what_came_later() -> None:
    s = Script(3, buddies=2)
    s.write("B", "x")
    s.hold("B", "C", TakeMine)
    s.leave("B")
    s.leave("C")
    s.run()
    assert address("C") in s.world.may_go and s.owner("x") == "B"
    s.free("B", "C")
    s.run()
    assert s.owner("x") == "A"
    s.rest()


@schedule
def t19_adopted_of_an_earlier_death_comes_after_the_next_one() -> None:
    s = Script(6, buddies=2, judged="owners")
    s.write("B", "x")
    s.hold("B", "C", Op)
    s.call("B", "write", "x")
    s.run()
    s.split("B")
    s.free("B", "C")
    s.hold("D", "C", Adopted)
    s.run()
    assert s.owner("x") == "BD"
    s.merge()
    s.run()
    s.write("B", "y")
    assert s.holders("B") == "AC"
    s.hold("A", "C", Op)
    s.hold("A", "D", Op)
    s.crash("B")
    s.run()
    assert s.owner("y") == "A"  # its buddies do not know that yet
    s.free("D", "C")
    s.run()  # ADOPTED of B's first death
    s.crash("A")
    s.run()
    s.rest()
    assert s.owner("y") == "C"


@schedule
def t20_transactions_of_the_same_nodes_in_opposite_order() -> None:
    s = Script(4)
    s.write("C", "a")
    s.write("D", "b")
    calls = [s.call("A", "write", "a", "b"), s.call("B", "write", "b", "a")]
    calls += [s.call("C", "write", "b", "a"), s.call("D", "read", "a", "b")]
    s.run()
    assert all(s.outcome(call) is not None for call in calls)
    s.rest()


@schedule
def t20_a_subtree_is_taken_while_a_node_in_it_is_taken_written_and_created() -> None:
    s = Script(5)
    s.write("B", "a")
    s.write("C", "a/b")
    s.call("D", "read", "a", deep=True)
    s.call("E", "write", "a/b")
    s.call("C", "write", "a/b")
    s.call("A", "write", "a/c")
    s.call("B", "read", "a", deep=True)
    s.run()
    s.rest()


@schedule
def t21_a_merge_view_is_replaced_before_all_are_settled() -> None:
    s = Script(4, judged="merges")
    s.write("D", "x")
    s.split("AB")
    s.run()
    s.write("D", "x")
    s.write("A", "x")  # wins, as it has adopted x
    s.merge()
    s.hold("A", "C", Settle)
    s.hold("A", "D", Settle)
    s.run()
    s.join()
    s.run()  # C and D are in the next view, and the SETTLE of the merge is still on its way
    s.rest()
    assert len(s.owner("x")) == 1


@schedule
def t21_the_cluster_is_split_again_before_all_are_settled() -> None:
    s = Script(4, judged="merges")
    s.write("D", "x")
    s.split("AB")
    s.run()
    s.write("D", "x")
    s.write("A", "x")  # wins, as it has adopted x
    s.merge()
    s.hold("A", "C", Settle)
    s.hold("A", "D", Settle)
    s.run()
    s.split("AC")
    s.run()
    s.free_all()
    s.run()
    s.merge()
    s.rest()
    assert len(s.owner("x")) == 1


@schedule
def t26_an_answer_of_the_old_view_comes_after_the_new_view() -> None:
    s = Script(4)
    s.write("B", "x")
    s.hold("B", "D", Answer)
    s.call("D", "read", "x")
    s.run()
    s.hold_views("D")
    s.join()
    s.run()
    s.free("B", "D")
    s.held_views.clear()
    s.hold("B", "D")
    s.run()  # D is in the new view, and the answer of the old one is still on its way
    s.free("B", "D")
    s.run()
    s.rest()
    assert s.owner("x") in ("B", "D")


@schedule
def t27_half_of_the_members_see_two_views_before_the_others_see_one() -> None:
    s = Script(5, buddies=2)
    s.write("B", "x")
    s.hold("D", "B", Taken)
    s.write("D", "x")
    s.hold_views("C", "E")
    s.crash("B")
    s.run()
    s.join()
    s.run()
    assert (
        s.machine("A").membership.number
        == s.machine("D").membership.number
        == s.machine("C").membership.number + 2
    )
    s.rest()
    assert s.owner("x") == "D"


@schedule
def t28_a_restart_is_there_before_its_predecessor_is_known_to_be_dead() -> None:
    s = Script(3)
    s.write("B", "x")
    s.step("crash", address("B"))
    s.step("join", 0)  # the view with the new member no longer has the old one
    s.run()
    assert s.machine("D").own == {}
    claim = s.call("D", "write", "x")
    s.run()
    assert s.outcome(claim) is not None and s.owner("x") == "D"
    s.rest()


@schedule
def t29_taken_comes_twice_and_is_answered_only_when_the_holders_have_let_go() -> None:
    s = Script(4)
    s.write("B", "x")
    s.hold("B", "C", Op)
    s.write("D", "x")
    assert s.waiting("B", "C") == ["Op"]  # B has forgotten x, but C has not
    s.join()
    s.run()  # TAKEN again
    s.crash("B")
    s.run()
    assert s.owner("x") == "D"
    s.rest()


@schedule
def found_by_seed_a_stamp_of_a_purged_node_is_not_given_again() -> None:
    s = Script(3, tombstone_time=0.0)
    s.write("B", "x")
    s.call("C", "remove", "x")  # C owns x at the second epoch of the view
    s.run()
    s.step("tick", 1.0)
    s.run()
    s.write("B", "x")
    s.write("C", "x")  # once more at the epoch that follows B's
    s.rest()
