"""The schedules T22 to T25 of the algorithm's note: two sites. Further schedules come from seeds."""

from buddy_schedules import schedule
from buddy_script import address
from site_script import TwoScript

from jgroups_py.buddy.messages import Answer, Claim, Op, OpAck, Settle, ToSite
from jgroups_py.buddy.outputs import DroppedValue


@schedule
def t22_the_relay_dies_with_an_event_that_nobody_else_has() -> None:
    t = TwoScript()
    t.hold_wire(0)
    t.n.write("B", "x")
    assert len(t.sites.wires[0, 1]) == 1
    t.n.crash("A")
    t.held.clear()
    t.run()
    t.step("link")
    t.run()
    assert t.value(t.s, "x") == 1
    t.rest()


@schedule
def t22_the_owner_dies_before_its_event_is_with_the_relay() -> None:
    t = TwoScript(here=4)
    t.n.hold("B", "A", ToSite)
    t.n.write("B", "x")
    t.n.crash("B")
    t.n.world.channels.pop((address("B"), address("A")), None)
    t.n.free_all()
    t.run()
    assert t.n.owner("x") == "C"
    assert t.value(t.s, "x") == 1
    t.rest()


@schedule
def t22_the_remote_home_dies_before_its_buddies_have_what_it_received() -> None:
    t = TwoScript(there=4)
    relay = t.s.machine("S")
    path = next(p for p in "abcdefgh" if relay.arrivals._target((p,)) == address("T"))
    t.s.hold("T", "U", Op)
    t.n.write("B", path)
    t.run()
    assert t.s.owner(path) == "T"
    t.s.crash("T")
    t.s.world.channels.pop((address("T"), address("U")), None)
    t.s.free_all()
    t.run()  # no time passes: the loss is reported
    assert t.value(t.s, path) == 1
    t.rest()


@schedule
def t22_an_event_says_what_the_holders_at_home_have() -> None:
    t = TwoScript(here=4)
    t.n.write("B", "x")
    t.run()
    t.n.hold("B", "C", Op)
    t.n.call("B", "write", "x")
    t.run()
    assert t.value(t.s, "x") == 1
    t.n.crash("B")
    t.n.world.channels.pop((address("B"), address("C")), None)
    t.rest()
    assert t.value(t.s, "x") == t.value(t.n, "x") == 1


@schedule
def t23_the_old_primary_returns_with_higher_epochs() -> None:
    t = TwoScript(judged="merges")
    t.n.write("B", "x")
    t.run()
    t.step("cut", 0)
    t.step("promote", 1)
    t.run()
    ours = t.s.write("T", "x")
    for _ in range(3):
        t.n.join()
        t.run()
    for name in "ABCAB":
        t.n.write(name, "x")
    assert t.n.node("B", "x").epoch > t.node(t.s, "x").epoch  # type: ignore[union-attr]
    t.step("link")
    t.rest()
    assert t.value(t.n, "x") == t.value(t.s, "x") == ours
    told = [e.detail for w in (t.n.world, t.s.world) for _, e in w.events]
    assert any(isinstance(d, DroppedValue) and d.path == ("x",) for d in told)


@schedule
def t24_the_event_of_the_second_owner_arrives_first() -> None:
    t = TwoScript()
    t.n.hold("C", "A", ToSite)
    t.n.write("C", "x")
    # C's message to A waits behind its event: B takes x while A looks on.
    late = t.n.world.channels.pop((address("C"), address("A")))
    t.n.free_all()
    t.n.write("B", "x")
    t.run()
    second = t.value(t.s, "x")
    assert second == t.value(t.n, "x") != 1
    t.n.world.channels[(address("C"), address("A"))] = late
    t.run()
    assert t.value(t.s, "x") == second
    t.rest()


@schedule
def t24_a_removal_arrives_before_the_value_that_it_removed() -> None:
    t = TwoScript()
    t.n.hold("C", "A", ToSite)
    t.n.write("C", "x")
    late = t.n.world.channels.pop((address("C"), address("A")))
    t.n.free_all()
    t.n.call("B", "remove", "x")
    t.run()
    t.n.world.channels[(address("C"), address("A"))] = late
    t.run()
    assert t.value(t.s, "x") is None
    t.rest()


@schedule
def t25_a_node_moves_past_a_bootstrap() -> None:
    t = TwoScript(judged="merges")
    t.s.write("T", "x")
    t.run()
    assert t.value(t.n, "x") is not None
    t.lose()
    t.begin()
    t.run()
    t.s.hold("S", "T", Claim)
    t.s.call("U", "read", "x")
    t.run()
    t.step("bootstrap", 1)
    t.run()  # U could answer now, but T has not granted yet
    t.step("link")
    t.rest()
    assert t.s.owner("x") == "U" and t.value(t.n, "x") is not None


@schedule
def t25_a_bootstrap_that_begins_anew_is_not_ended_by_what_the_first_one_counted() -> None:
    t = TwoScript(judged="merges")
    t.s.write("T", "x")
    t.run()
    t.step("bootstrap", 1)
    t.run()
    t.s.hold("T", "S", Answer)
    t.tick(1.0)
    assert t.s.waiting("T", "S") == ["Answer"]  # nothing is left
    t.lose()
    t.begin()
    t.run()
    t.s.hold("S", "T", Claim)
    t.step("bootstrap", 1)
    t.run()
    t.s.deliver("T", "S")
    t.step("link")
    t.rest()
    assert t.value(t.n, "x") is not None


@schedule
def t25_a_bootstrap_that_a_dead_relay_was_asked_for_is_asked_again() -> None:
    t = TwoScript(judged="merges")
    t.s.write("T", "x")
    t.run()
    t.lose()
    t.begin()
    t.run()
    t.s.hold_views("T", "U")
    t.s.crash("S")
    t.step("bootstrap", 1)  # of T: it does not know yet that S is dead
    t.s.free_all()
    t.rest()
    assert t.value(t.n, "x") is not None


@schedule
def t23_a_promotion_that_a_dead_relay_was_asked_for_is_asked_again_once() -> None:
    t = TwoScript(judged="merges")
    t.s.hold_views("T", "U")
    t.s.crash("S")
    asked = t.s.machine("U")
    asked.promote(0.0)
    t.s.world._after(asked)
    t.s.free_all()
    t.rest()
    assert t.s.machine("T").known.epoch == asked.known.epoch == 1 and not asked.sites.wanted
    t.s.crash("T")
    t.rest()
    assert asked.known.epoch == 1


@schedule
def t25_a_site_built_anew_while_the_other_has_no_relay() -> None:
    """Here no bootstrap was requested; the explorer requests one, as the builder of a site would (sites 83574)."""
    t = TwoScript()
    t.n.write("B", "x")
    t.run()
    t.s.hold_views("T", "U")
    t.s.crash("S")
    t.lose()
    t.begin()
    t.s.free_all()
    t.rest()
    assert t.value(t.n, "x") == 1


@schedule
def overflow_removals_that_could_not_be_kept_are_found_and_done() -> None:
    t = TwoScript(removed_max=0, tombstone_time=2.0)
    for path in ("a", "b", "c"):
        t.n.write("B", path)
    t.run()
    t.step("cut", 0)
    t.n.call("B", "remove", "a")
    t.n.write("C", "d")
    t.tick(1.0)
    assert t.n.machine("C").known.out_of_sync
    for _ in range(3):
        t.tick(2.0)
    assert t.n.owner("a") == "" and t.value(t.s, "a") is not None  # purged, and still there
    t.step("link")
    t.run()
    t.rest()
    assert t.value(t.s, "a") is None and t.value(t.s, "d") is not None
    assert not t.n.machine("C").known.out_of_sync


@schedule
def overflow_removals_that_are_dropped_during_a_reconciliation_are_found_by_another() -> None:
    t = TwoScript(removed_max=0, tombstone_time=2.0)
    for path in ("a", "b"):
        t.n.write("B", path)
    t.run()
    t.step("cut", 0)
    t.n.call("B", "remove", "a")
    t.tick(1.0)
    t.step("link")
    t.run()
    t.tick(1.0)
    assert t.value(t.s, "a") is None and t.n.machine("A").known.walks  # only the count differs
    t.n.hold("C", "A", Answer)
    t.n.hold("C", "B", OpAck)
    t.n.call("B", "remove", "b")
    t.tick(1.0)
    assert not t.n.node("B", "b").unsent  # dropped before it was sent; C answers later
    t.rest()
    assert t.value(t.s, "b") is None


def _missing(t: TwoScript) -> set[str]:
    """Return the nodes that the second site lacks according to the first site's report."""
    machines = t.n.world.machines.values()
    return {path[0] for machine in machines for path in machine.missing("S")}


@schedule
def unsent_names_what_is_on_its_way_to_another_owner() -> None:
    t = TwoScript(here=3)
    t.step("cut", 0)
    t.n.write("B", "x")
    t.run()
    t.n.hold("B", "C", Answer)
    t.n.call("C", "read", "x")
    t.run()
    assert _missing(t) == {"x"}
    t.n.free("B", "C")
    t.run()
    assert t.n.owner("x") == "C" and _missing(t) == {"x"}
    t.step("link")
    t.rest()
    assert _missing(t) == set()


@schedule
def unsent_names_what_nobody_has_adopted_yet() -> None:
    t = TwoScript(here=3)
    t.step("cut", 0)
    t.n.write("B", "x")
    t.run()
    t.n.hold("A", "C", Settle)
    t.n.crash("B")
    t.run()
    assert t.n.owner("x") == "" and _missing(t) == {"x"}
    t.n.free("A", "C")
    t.step("link")
    t.rest()
    assert _missing(t) == set() and t.value(t.s, "x") == 1
