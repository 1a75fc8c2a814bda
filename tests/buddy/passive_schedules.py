"""Schedules with values that have left their owner's memory."""

from buddy_schedules import schedule
from buddy_script import Script, address

from jgroups_py.buddy.outputs import BuddyOutcome


def passivated(s: Script, name: str, path: str) -> None:
    s.step("passivate", address(name), tuple(path.split("/")))
    assert s.node(name, path).passive and s.node(name, path).value is None


def wanted(s: Script, name: str) -> None:
    """The value arrives while a call waits for it."""
    asked = [event for _, event in s.world.events if event.kind == "activate"]
    assert asked and asked[-1].detail == (("x",),)
    s.step("activate", address(name))
    s.run()


@schedule
def p1_a_claim_waits_for_a_value_that_left_memory() -> None:
    s = Script(3)
    last = s.write("B", "x")
    passivated(s, "B", "x")
    read = s.call("C", "read", "x")
    s.run()
    assert s.outcome(read) is None and s.owner("x") == "B"
    wanted(s, "B")
    assert s.done(read).outcome is BuddyOutcome.DONE
    assert s.owner("x") == "C" and s.node("C", "x").value == last
    s.rest()


@schedule
def p2_a_new_buddy_waits_for_a_value_that_left_memory() -> None:
    s = Script(3)
    s.write("B", "y")
    last = s.write("B", "x")
    passivated(s, "B", "x")
    s.crash("C")
    s.run()
    assert not s.machine("B").protected
    wanted(s, "B")
    assert s.machine("B").protected
    s.crash("B")
    s.rest()
    assert s.node("A", "x").value == last


@schedule
def p3_holders_keep_the_value_when_a_merge_gives_the_owner_a_new_epoch() -> None:
    s = Script(4, judged="merges")
    s.write("B", "x")
    s.split("AB")
    s.run()
    assert s.owner("x") == "BC"  # C's side has adopted it
    s.write("B", "x")
    last = s.write("B", "x")
    passivated(s, "B", "x")
    before = s.node("B", "x").epoch
    s.merge()
    s.run()
    assert s.owner("x") == "B" and s.node("B", "x").epoch > before and s.node("B", "x").passive
    s.crash("B")  # before its new buddy has any node
    s.rest()
    assert s.node(s.owner("x"), "x").value == last


@schedule
def p4_a_write_of_what_left_memory_is_whole() -> None:
    s = Script(3)
    s.write("B", "x")
    passivated(s, "B", "x")
    last = s.write("B", "x")
    assert not s.node("B", "x").passive
    s.crash("B")
    s.rest()
    assert s.node("C", "x").value == last


@schedule
def p5_who_leaves_hands_over_what_left_its_memory() -> None:
    s = Script(3)
    last = s.write("B", "x")
    passivated(s, "B", "x")
    s.leave("B")
    s.run()
    assert s.owner("x") == "B"
    wanted(s, "B")
    s.go("B")
    s.rest()
    assert s.node(s.owner("x"), "x").value == last


@schedule
def p6_what_is_gone_stands_before_what_left_memory_in_the_push() -> None:
    """Found by seed 5066 of the profile "passive"."""
    s = Script(2)
    s.write("B", "y")
    last = s.write("B", "x")
    passivated(s, "B", "x")
    s.hold_pushes("B")
    s.join()
    s.run()
    s.write("C", "y")  # B no longer has it
    s.free_all()
    s.run()
    assert not s.machine("B").protected
    wanted(s, "B")
    s.crash("B")
    s.rest()
    assert s.node(s.owner("x"), "x").value == last
