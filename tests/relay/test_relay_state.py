"""The first numbers of a member that joins with a state, and the messages that it gets meanwhile."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from relay_harness import Net, told
from relay_harness import five_and_five as started
from relay_member import Member

from jgroups_py.protocols.relay.wire import (
    CONTROL_FLAGS,
    CONTROL_HEADER,
    ID,
    Gap,
    StateMark,
    encode,
)
from jgroups_py.values.address import UUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import (
    Connect,
    Covered,
    GetState,
    StateFailed,
    StateReceived,
    StateRequested,
    ViewChange,
)
from jgroups_py.values.view import View, ViewId


def test_a_state_older_than_deliveries_sets_the_digests_back() -> None:
    """Messages that the state lacks must come again."""
    net = started()
    net.send("C", 3)
    net.settle(2)
    member, origin = net.members["W"], bytes(net.members["C"].id)
    older = {"NYC": {origin: 1}}
    mark = StateMark(replace(member.relay.known_here(), site_digest=older))
    member.machine.enter()
    member.stack.event_down(GetState(None, 1.0))
    member.relay.on_record(net.members["T"].id, mark)
    member.bottom.pass_event_up(StateReceived(net.members["T"].id, b"everything up to C#1"))
    member.machine.leave()
    assert member.relay.state.has("NYC", origin) == 1


def test_statements_of_the_relay_while_a_state_is_awaited_count_from_the_state_on() -> None:
    """The state has messages up to 3, and the relay reported all up to 5 as lost, so 4 and 5 are lost."""
    net = started()
    member, origin = net.members["W"], bytes(net.members["C"].id)
    gap = encode(Gap(10**6, "NYC", {origin: 5}, False))
    relay = net.members["T"].id
    mark = StateMark(replace(member.relay.known_here(), site_digest={"NYC": {origin: 3}}))
    member.machine.enter()
    member.stack.event_down(GetState(None, 1.0))
    member.relay.up(Batch(None, (gap,), {ID: CONTROL_HEADER}, relay, CONTROL_FLAGS))
    member.relay.on_record(relay, mark)
    member.bottom.pass_event_up(StateReceived(relay, b"everything up to C#3"))
    member.machine.leave()
    assert member.relay.state.has("NYC", origin) == 5
    assert member.relay.counters.skipped == 2


def gets_its_state(net: Net, joiner: Member, provider: str, state: bytes) -> None:
    """Let multicasts reach a joiner that waits for its state, and then the state."""
    net.holds = []
    net.settle(1)
    assert joiner.got == {}, "it waits for the state"
    joiner.machine.enter()
    joiner.bottom.pass_event_up(StateReceived(net.members[provider].id, state))
    joiner.machine.leave()


def test_a_joiner_with_state_begins_where_the_state_ends() -> None:
    net = started()
    net.send("C", 2)
    net.settle(2)
    net.hold("mc", dst="J")
    joiner = net.join("J", "SFO")
    joiner.relay.event_down(Connect("SFO", with_state=True))
    net.deliver()
    net.send("C", 2)
    net.settle(2)
    net.members["S"].bottom.pass_event_up(StateRequested(joiner.id, 1))
    net.send("C", 2)
    net.settle(2)
    gets_its_state(net, joiner, "S", b"everything up to C#4")
    assert joiner.got["C"] == [5, 6]
    net.settle()
    net.at_rest(lost=True)


def test_the_digests_of_a_state_are_those_of_its_provider() -> None:
    """Another member had been asked, too, and reported more (relay 1)."""
    net = started()
    joiner = net.join("J", "SFO")
    net.hold("mc", dst="J")
    joiner.relay.event_down(Connect("SFO", with_state=True))
    net.deliver()
    for name in "ST":
        net.send("C", 2)
        net.settle(2)
        net.members[name].bottom.pass_event_up(StateRequested(joiner.id, 1))
    net.settle(2)
    gets_its_state(net, joiner, "S", b"everything up to C#2")
    assert joiner.got["C"] == [3, 4]
    net.settle()
    net.at_rest(lost=True)


def test_the_first_member_of_a_site_waits_for_no_state() -> None:
    """No member can give it a state, and its request gets no answer."""
    net = started()
    net.crash(*[member.name for member in net.alive("SFO")])
    first = net.start("P", "SFO")
    first.relay.event_down(Connect("SFO", with_state=True))
    net.new_view("SFO", [first])
    net.settle()
    assert not first.relay.joining.waits
    net.send("C", 2)
    net.settle()
    assert first.got["C"][-1] == 2


def test_a_joiner_whose_state_does_not_come_begins_at_its_view() -> None:
    net = started()
    net.send("C", 2)
    net.settle(2)
    joiner = net.join("J", "SFO")
    joiner.relay.event_down(Connect("SFO", with_state=True))
    net.settle(1)
    net.send("C", 2)
    net.settle(2)
    joiner.machine.enter()
    joiner.bottom.pass_event_up(StateFailed(None, "nobody has one", 0))
    joiner.machine.leave()
    assert joiner.got["C"] == [3, 4]
    net.settle()
    net.at_rest()


def test_a_state_without_digests_leaves_the_joiner_where_its_view_began() -> None:
    """The provider is a member of ours that sent no digests of RELAY; all messages that it held back have come by
    then."""
    net = started()
    net.send("C", 2)
    net.settle(2)
    joiner = net.join("J", "SFO")
    joiner.relay.event_down(Connect("SFO", with_state=True))
    net.settle(1)
    net.send("C", 2)
    net.settle(2)
    assert joiner.got == {}
    joiner.machine.enter()
    joiner.bottom.pass_event_up(StateReceived(net.members["S"].id, b"a state"))
    joiner.machine.leave()
    assert len(told(joiner, "state without digests")) == 1
    assert joiner.got["C"] == [3, 4]


def test_only_members_of_ours_are_told_the_digests_of_a_state() -> None:
    net = started()
    provider = net.members["S"]
    java, ours = UUID(bytes(range(16))), net.members["W"].id
    asked: list[Any] = []
    provider.bottom.down = lambda batch: asked.append(batch.dest)  # type: ignore[method-assign]
    provider.relay.pass_down = provider.bottom.down
    for requester in (java, ours):
        provider.bottom.pass_event_up(StateRequested(requester, 1))
    assert asked == [ours]


def test_a_joiner_that_is_a_holder_collects_as_soon_as_it_knows_where_it_begins() -> None:
    net = started(sfo="T", buffering_members=2)
    joiner = net.join("J", "SFO")
    net.deliver()  # no time passes, so no question is repeated
    assert joiner.relay.is_holder and joiner.relay.holding.complete


def test_messages_that_wait_for_a_state_are_bounded_and_come_again() -> None:
    net = started(join_queue=3)
    joiner = net.join("J", "SFO")
    joiner.relay.event_down(Connect("SFO", with_state=True))
    net.settle(1)
    for _ in range(3):
        net.send("C", 2)
    net.settle(2)
    queued, full = joiner.relay.joining.queued, joiner.relay.counters.queue_full
    assert queued <= 3 <= full, "what is dropped is asked for, and dropped again"
    joiner.machine.enter()
    joiner.bottom.pass_event_up(StateFailed(None, "nobody has one", 0))
    joiner.machine.leave()
    net.settle(5)
    assert joiner.got["C"] == [1, 2, 3, 4, 5, 6]
    assert joiner.relay.joining.queued == 0
    net.at_rest()


def given_a_state(net: Net, name: str, provider: str) -> None:
    """Give ``name`` a state that has all messages that it lacks now."""
    member, giver = net.members[name], net.members[provider]
    giver.bottom.pass_event_up(StateRequested(member.id, 1))
    net.deliver("uc")
    member.machine.enter(net.now)
    for sender in net.alive(member.site):
        for batch in sender.log[member.positions.get(sender, 0) :]:
            batch.src = sender.id
            member.bottom.pass_event_up(Covered(batch))
        member.positions[sender] = len(sender.log)
    member.bottom.pass_event_up(StateReceived(giver.id, b"all of it"))
    member.machine.leave()
    net.release()


def test_a_member_that_was_forgotten_while_a_state_was_awaited_is_forgotten() -> None:
    """The relay's report is among the messages of the state (all 15359)."""
    net = started(gap_wait=2.0)
    net.send("C", 3)
    net.settle(2)
    net.crash("C")
    net.deliver()
    member, gone = net.members["B"].relay, bytes(net.members["C"].id)
    member.event_down(GetState(None, 1.0))
    net.hold("mc", dst="B")
    net.settle(20)
    assert net.members["E"].relay.state.is_forgotten(gone)
    assert gone in member.state.delivered and gone in member.departures.gone_at
    given_a_state(net, "B", "D")
    net.settle(5)
    assert gone not in member.state.delivered and gone not in member.departures.gone_at
    net.at_rest()


def test_a_blocked_member_goes_on_although_the_news_came_while_it_awaited_a_state() -> None:
    net = started(overflow="block", max_messages=10, block_credits=1)
    net.cut_wan("SFO")
    net.settle(1)
    net.send("C", 12)
    net.settle(1)
    member = net.members["B"].relay
    assert member.keeping.blocked
    member.event_down(GetState(None, 1.0))
    net.hold("mc", dst="B")
    net.heal_wan("SFO")
    net.settle(20)
    assert member.keeping.blocked and not net.members["D"].relay.keeping.blocked
    given_a_state(net, "B", "D")
    assert not member.keeping.blocked


def test_a_member_that_joins_while_the_wan_is_cut_keeps_the_other_sites_missing_messages() -> None:
    net = started(nyc="ED", sfo="TS", buffering_members=2)
    net.cut_wan("SFO")
    net.settle(5)
    net.hold("mc", dst="J")  # it gets messages to itself only
    net.join("J", "NYC")
    net.settle(2)
    for name in "ED":
        net.crash(name, reach={"J": 0})
        net.settle(2)
    net.release()
    net.send("J", 3)
    net.settle(2)
    joiner = net.members["J"]
    assert joiner.relay.is_relay and len(joiner.relay.buffer) == 3
    assert joiner.relay.state.sites, "it was told of the site by those who knew it"
    net.heal_wan("SFO")
    net.settle(20)
    assert [net.members[name].got["J"] for name in "TS"] == [[1, 2, 3]] * 2
    net.at_rest()


def test_a_member_that_has_no_relay_is_never_the_relay() -> None:
    """A Java member is in the view, even as the first one; it takes no part in RELAY."""
    net = started(nyc="ED", sfo="TS")
    java = UUID(bytes(range(16)))
    first, second = net.members["E"], net.members["D"]
    for number, order in ((91, (java, first.id, second.id)), (92, (first.id, java, second.id))):
        for member in (first, second):
            view = View(ViewId(order[0], number), order)
            net._step_in(
                member,
                lambda m=member, v=view: m.bottom.pass_event_up(ViewChange(v, m.relay.roles.view)),  # type: ignore[misc]
            )
        assert first.relay.is_relay and not second.relay.is_relay
        assert first.relay.line == second.relay.line == (first.id, second.id)
