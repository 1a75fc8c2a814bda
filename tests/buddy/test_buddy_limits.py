"""Each limit of the machine holds exactly; further work waits or is counted, and goes on when there is room."""

from __future__ import annotations

from typing import Any

from buddy_script import Script, address
from buddy_script import limit as limit_machine
from site_script import Side, TwoScript

from jgroups_py.buddy.call import BuddyCall
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.messages import Answer, FromSite, Op, Settle, ToSite
from jgroups_py.buddy.outputs import BuddyOutcome, DroppedValue, SendSite
from jgroups_py.buddy.site_messages import EventAck, Sent, SiteEvent, Sums
from jgroups_py.buddy.values import Stamp
from jgroups_py.values.view import View, ViewId

A, B, C, S = map(address, "ABCS")


def limit(script: Script | Side, **limits: Any) -> None:
    for machine in script.world.machines.values():
        limit_machine(machine, **limits)


def test_writes_beyond_log_max_unacknowledged_entries_wait() -> None:
    s = Script(3)
    limit(s, log_max=3)
    s.write("B", "x")
    s.hold("B", "C", Op)
    calls = [s.call("B", "write", "x") for _ in range(5)]
    s.run()
    assert s.machine("B").log.open == 3 and len(s.machine("B").calls.waiting) == 2
    s.deliver("B", "C")
    s.run()
    assert s.machine("B").log.open == 3 and len(s.machine("B").calls.waiting) == 1
    s.rest()
    assert all(s.done(call).outcome is BuddyOutcome.DONE for call in calls)
    assert s.node("B", "x").value == calls[-1]


def test_claims_beyond_claims_max_wait() -> None:
    s = Script(3)
    limit(s, claims_max=2)
    s.hold("A", "B")
    calls = [s.call("B", "write", path) for path in "vwxyz"]
    s.run()
    assert len(s.machine("B").claims.mine) == 2 and len(s.machine("B").calls.waiting) == 3
    assert s.machine("B").statistics["claims"] == 2
    s.rest()
    assert all(s.done(call).outcome is BuddyOutcome.DONE for call in calls)
    assert s.machine("B").statistics["claims"] == 5


def test_calls_beyond_calls_max_are_refused_until_one_is_done() -> None:
    s = Script(3)
    limit(s, calls_max=2)
    s.hold("A", "B")
    first = [s.call("B", "write", path) for path in "xyz"]
    assert [s.outcome(call) is None for call in first] == [True, True, False]
    assert s.done(first[2]).outcome is BuddyOutcome.FAILED
    s.free_all()
    s.run()
    again = s.call("B", "write", "z")
    s.run()
    assert s.done(again).outcome is BuddyOutcome.DONE


def test_messages_of_a_newer_view_are_held_up_to_the_limit_and_then_taken_in_order() -> None:
    machine = BuddyMachine(B, BuddyConfig(held_max=2))
    machine.install(View(ViewId(A, 1), (A, B)), 0.0)
    for seq in (1, 2, 3):
        machine.receive(A, (2, A), Op(seq, ()), 0.0)
    assert machine.statistics["held_overflow"] == 1
    machine.install(View(ViewId(A, 2), (A, B)), 0.0)
    assert machine.statistics["unexpected_ops"] == 2, "the two that were held"


def test_departed_members_and_dead_groups_are_remembered_up_to_the_limit() -> None:
    machine = BuddyMachine(A, BuddyConfig(departed_max=2))
    for number in range(1, 9):
        guest = b"%02d" % (50 + number)
        members = (A, type(A)(guest))
        machine.install(View(ViewId(A, number), members), 0.0)
        machine.ownership.adopted[members[1]] = (number, 0)
        machine.ownership.adopted_safely[members[1]] = None
    assert len(machine.membership._alive) == 4, "two departed, and those who are there"
    assert list(machine.membership._alive)[-2:] == [A, members[1]]
    machine.install(View(ViewId(A, 9), (A,)), 0.0)
    assert len(machine.ownership.adopted) == 2 and list(machine.ownership.adopted) == list(
        machine.ownership.adopted_safely
    )
    assert members[1] in machine.ownership.adopted, "the oldest go first"


def test_an_answer_for_diagnosis_names_a_limited_number_of_paths() -> None:
    s = Script(3)
    limit(s, look_max=3)
    s.write("B", *(f"n/{number}" for number in range(5)))
    s.hold("B", "A", Answer)
    s.hold("C", "A", Answer)
    s.call("A", "read", "n", deep=True, mode="look")
    s.run()
    found = {}
    for name in "BC":
        (answer,) = [m for _, m in s.world.channels[address(name), A]]
        assert isinstance(answer, Answer) and not answer.grants
        found[name] = (len(answer.owned), len(answer.backs_up))
    assert found == {"B": (3, 0), "C": (0, 3)}


# --- two sites


def sent_to_relay(t: TwoScript, name: str = "B") -> int:
    return t.n.machine(name).statistics.get("events_sent", 0)


def test_events_beyond_events_max_to_a_site_wait() -> None:
    t = TwoScript()
    limit(t.n, events_max=2)
    t.hold_wire(0)
    for number in range(5):
        t.n.write("B", f"{number}")
    t.run()
    box = t.n.machine("B").events._outboxes["S"]
    assert (len(box.flying), len(box.todo), sent_to_relay(t)) == (2, 3, 2)
    t.rest()
    assert not box.flying and not box.todo and sent_to_relay(t) == 5
    assert [t.value(t.s, f"{number}") for number in range(5)] == [1, 2, 3, 4, 5]


def test_events_are_sent_again_when_nobody_acknowledged_for_the_time_set_and_not_before() -> None:
    t = TwoScript()  # event_timeout is 3 s
    t.hold_wire(0)
    t.n.write("B", "x")
    t.run()
    t.tick(3.0)
    assert "events_again" not in t.n.machine("B").statistics and sent_to_relay(t) == 1
    t.tick(0.5)
    assert t.n.machine("B").statistics["events_again"] == 1 and sent_to_relay(t) == 2
    t.tick(3.0)
    assert sent_to_relay(t) == 2, "the time begins anew with each that is sent"
    t.rest()


def test_removals_are_kept_for_a_site_up_to_the_limit() -> None:
    for removed, in_sync in ((2, True), (3, False)):
        t = TwoScript(removed_max=2)
        paths = [f"{number}" for number in range(removed)]
        t.n.write("B", *paths)
        t.run()
        t.step("cut", 0)
        for path in paths:
            t.n.call("B", "remove", path)
        t.tick(1.0)
        assert ("site_overflows" not in t.n.machine("B").statistics) is in_sync
        assert ("S" not in t.n.machine("A").known.out_of_sync) is in_sync
        assert len(t.n.machine("B").missing("S")) == (removed if in_sync else 0)


def relay(**limits: Any) -> BuddyMachine:
    """Return a member alone at its site, with a link to site N."""
    machine = BuddyMachine(S, BuddyConfig(site="S", sites=("N",), **limits))
    machine.install(View(ViewId(S, 1), (S,)), 0.0)
    machine.link("N", True, 0.0)
    machine.take()
    return machine


def event(n: int, path: str, version: int = 1) -> SiteEvent:
    stamp = Stamp(0, (1, 0), version, B)
    return SiteEvent(B, n, (Sent((path,), n, stamp, False, ()),))


def test_the_relay_remembers_a_limited_number_of_latest_owners() -> None:
    arrivals = relay(hints_max=2).arrivals
    for number, path in enumerate("abca"):
        arrivals.learn(S, EventAck(B, number, ((path,),)))
    assert list(arrivals.hints) == [("c",), ("a",)]


def test_arrivals_beyond_arrivals_max_are_counted_and_dropped() -> None:
    machine = relay(arrivals_max=2)
    machine.install(View(ViewId(S, 2), (S, C)), 0.0)  # not settled: arrivals wait
    for number, path in enumerate("abc", 1):
        machine._on_from_site(S, FromSite("N", event(number, path)))
    assert machine.calls.inner == 2 and machine.statistics["events_dropped"] == 1
    assert machine.calls.waiting
    machine.submit(BuddyCall(1, ((("z",), False),)), 0.0)
    assert len(machine.calls.open) == 3, "they take no room from calls"


def test_an_event_that_comes_again_late_is_acknowledged_and_nothing_is_lost_by_it() -> None:
    machine = relay()
    for n, version in ((1, 1), (2, 2), (1, 1)):
        machine.receive_site("N", event(n, "x", version), 0.0)
    said = [out.message for out in machine.take() if isinstance(out, SendSite)]
    assert [ack.n for ack in said if isinstance(ack, EventAck)] == [1, 2, 1]
    assert machine.own[("x",)].value == 2 and machine.own[("x",)].came == "N"
    assert machine.statistics["events_old"] == 1 and machine.statistics["events_applied"] == 2
    assert "site_discarded" not in machine.statistics, "the later one came after it"


def test_values_written_at_both_sites_are_listed_once_at_the_site_that_loses_them() -> None:
    t = TwoScript(judged="merges")
    t.n.write("B", "x")
    t.run()
    t.step("cut", 0)
    t.n.write("B", "x")
    t.s.write("T", "x")
    t.step("promote", 1)
    t.run()
    t.s.write("T", "x")
    t.step("link")
    t.rest()
    lost = [e.detail for w in (t.n.world, t.s.world) for _, e in w.events]
    lost = [d for d in lost if isinstance(d, DroppedValue)]
    assert {d.path for d in lost} == {("x",)}
    assert t.value(t.n, "x") == t.value(t.s, "x") is not None


def test_a_leaving_member_hands_on_arriving_events_and_owns_nothing_new() -> None:
    t = TwoScript(there=3)
    home = t.s.machine("S").arrivals
    path = next(p for p in "abcdefgh" if home._target((p,)) == address("T"))
    t.s.hold("S", "T", FromSite)
    t.n.write("B", path)
    t.run()
    t.s.leave("T")
    t.s.free_all()
    t.run()
    assert t.s.owner(path) not in ("", "T") and t.value(t.s, path) == 1
    assert "claims" not in t.s.machine("T").statistics, "it did not even ask for it"
    t.rest()


def test_an_event_for_a_dead_owner_goes_to_its_adopter() -> None:
    t = TwoScript(here=3, there=4)
    t.n.write("B", "x")
    t.run()
    owner = t.s.owner("x")
    t.n.hold("B", "A", ToSite)
    last = t.n.call("B", "write", "x")
    t.n.run()
    t.s.crash(owner)
    t.n.free_all()
    t.run()
    assert t.s.owner("x") not in ("", owner) and t.value(t.s, "x") == last
    t.rest()


def test_a_settled_view_says_which_adoptions_their_holders_have() -> None:
    s = Script(4)
    s.write("B", "x")
    s.hold("C", "D", Op)
    s.crash("B")
    s.run()
    guardian = s.machine("C").ownership
    assert B in guardian.adopted and B not in guardian.adopted_safely, "D has it not yet"
    s.free_all()
    s.run()
    assert B in guardian.adopted_safely
    s.hold("A", "D", Settle)
    s.join()
    s.run()
    settles = [m for _, m in s.world.channels[A, address("D")] if isinstance(m, Settle)]
    assert [settle.safe for settle in settles] == [(B,)]
    s.rest()


def test_sums_of_another_number_of_buckets_are_counted_and_not_compared() -> None:
    machine = relay()
    machine.take()
    for count in (0, 1, 10_000):
        machine.receive_site("N", Sums(1, (0,) * count), 0.0)
    assert machine.statistics["bad_messages"] == 3
    assert [out for out in machine.take() if isinstance(out, SendSite)] == []
