"""Journals: an owner's writes are reported at the owner and its holders, and a dead owner's last entry at all
members."""

from buddy_script import Script, address

from jgroups_py.buddy.messages import Op, OpAck
from jgroups_py.values.address import Address

A, B, C = map(address, "ABC")


def told(script: Script, name: str, owner: str) -> dict[int, list[str]]:
    """Return the paths of a journal by entry."""
    entries = script.world.follower.journals[address(name)].entries.get(address(owner), {})
    return {seq: ["/".join(path) for path, _ in changes] for seq, changes in entries.items()}


def ends(script: Script, name: str) -> dict[Address, int]:
    return dict(script.world.follower.journals[address(name)].ends)


def test_owner_and_holders_are_told_the_same() -> None:
    s = Script(3)
    s.write("A", "a", "c")
    (seq,) = told(s, "A", "A")
    assert told(s, "A", "A") == told(s, "B", "A") == {seq: ["a", "c"]}
    assert told(s, "C", "A") == {}
    s.rest()


def test_a_large_entry_is_told_whole_when_its_last_piece_is_here() -> None:
    s = Script(3)
    s.hold("A", "B", Op)
    s.call("A", "write", "a", "a/b", "c")  # chunk_nodes is 1
    s.run()
    assert s.waiting("A", "B") == ["Op"] and told(s, "B", "A") == {}
    s.free("A", "B")
    s.run()
    assert [*told(s, "B", "A").values()] == [["a", "a/b", "c"]]
    s.rest()


def test_a_node_that_only_moves_is_not_reported() -> None:
    s = Script(3)
    s.write("A", "a")
    s.call("C", "read", "a")
    s.run()
    assert s.owner("a") == "C" and told(s, "C", "C") == {}
    before = s.node("C", "a").stamp
    s.write("C", "a")
    assert [*told(s, "C", "C").values()] == [["a"]] and s.node("C", "a").stamp > before
    s.rest()


def test_a_new_holder_knows_which_entry_was_the_last_to_write() -> None:
    s = Script(3)
    s.write("A", "a")
    (wrote,) = told(s, "A", "A")
    s.call("C", "read", "a")
    s.run()
    assert s.machine("A").log.seq > wrote == s.machine("A").log.wrote
    s.join()
    s.crash("B")
    s.run()
    holder = s.holders("A")
    assert len(holder) == 1 and s.machine(holder).backups.of[A].wrote == wrote
    s.rest()


def test_all_members_know_the_last_entry_of_a_dead_owner() -> None:
    s = Script(4)
    s.write("A", "a")
    (first,) = told(s, "A", "A")
    s.hold("A", "B")
    s.call("A", "write", "a")  # no other member hears of it
    s.run()
    s.crash("A")
    s.free("A", "B")
    s.world.channels.pop((A, B), None)
    s.run()
    assert ends(s, "B")[A] == ends(s, "C")[A] == ends(s, "D")[A] == first
    assert [seq for seq in told(s, "B", "A") if seq <= ends(s, "B")[A]] == [first]
    s.rest()


def test_the_end_is_told_when_the_adoption_is_safe_not_before() -> None:
    s = Script(4)
    s.write("A", "a")
    s.hold("B", "C", Op)  # B adopts, C is its holder
    s.crash("A")
    s.run()
    assert s.owner("a") == "B" and A not in ends(s, "B") and A not in ends(s, "D")
    s.free("B", "C")
    s.run()
    assert A in ends(s, "B") and A in ends(s, "D")
    s.rest()


def test_the_adopted_copy_decides_the_end_of_a_log_even_after_the_adopter_dies() -> None:
    """Other members have fewer of its entries (crashes 63767)."""
    s = Script(5, buddies=2)
    assert (s.holders("A"), s.holders("B")) == ("BC", "CD")
    s.hold("A", "C", Op)
    s.call("A", "write", "a")
    s.run()
    (first,) = told(s, "B", "A")
    s.hold("C", "B", OpAck)
    s.crash("A")
    s.world.channels.pop((A, C), None)
    s.run()
    assert s.owner("a") == "B" and A not in ends(s, "C")
    s.crash("B")
    s.run()
    assert s.owner("a") in ("C", "D", "E")
    assert ends(s, "C")[A] == ends(s, "D")[A] == first
    s.rest()
