"""The relay of an unlisted site can neither read nor send, and blocks no sender when it dies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from relay_harness import Net, got

from jgroups_py.protocols.relay.posts import POST_HEADER
from jgroups_py.protocols.relay.wire import (
    CONTROL_HEADER,
    ID,
    SOURCE_ID,
    Ask,
    BridgeGap,
    MessageKind,
    encode,
)
from jgroups_py.values.address import Address, SiteUUID
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import FlowBlocked
from jgroups_py.wire.headers import FragHeader, RelayHeader, RelayType

LISTED = ("NYC", "SFO")


def three_sites(overflow: str = "drop_oldest") -> Net:
    """NYC and SFO list each other. LON lists all three and comes to their bridge."""
    net = Net(
        NYC="EDC",
        SFO="TS",
        config={
            "sites": LISTED,
            "primary": "all",
            "overflow": overflow,
            "max_messages": 10,
            "block_credits": 1,
        },
    )
    net.settle(3)
    net.start("L", "LON", sites=(*LISTED, "LON"))
    net.start("M", "LON", sites=(*LISTED, "LON"))
    net.new_view("LON", [net.members[name] for name in "LM"])
    net.settle(3)
    return net


def refused(net: Net, name: str) -> int:
    return int(net.members[name].relay.statistics()["turned_away_unlisted_site"])


def test_a_site_that_is_not_listed_reads_nothing_and_brings_nothing() -> None:
    net = three_sites()
    net.send("C", 3)
    net.send("M", 4)
    net.settle(3)
    assert got(net, "C", *"EDCTS") == [[1, 2, 3]] * 5
    assert got(net, "C", *"LM") == [[], []]
    assert got(net, "M", *"EDCTS") == [[]] * 5
    assert refused(net, "E") > 0 and refused(net, "T") > 0


def test_senders_do_not_wait_for_a_site_that_is_not_listed_and_has_died() -> None:
    net = three_sites("block")
    net.crash("L", "M")
    for _ in range(6):
        net.send("C", 5)
        net.settle(1)
    assert got(net, "C", *"TS") == [list(range(1, 31))] * 2
    assert not any(isinstance(event, FlowBlocked) for event in net.members["C"].events)
    assert "LON" not in net.members["E"].relay.state.sites


def test_a_listed_site_is_asked_back_while_an_unlisted_one_is_on_the_bridge() -> None:
    net = three_sites()
    net.cut_wan("SFO")
    net.settle(1)
    net.send("C", 5)
    net.settle(1)
    net.heal_wan("SFO")
    net.settle(5)
    assert got(net, "C", *"TS") == [[1, 2, 3, 4, 5]] * 2
    assert net.members["T"].relay.bridge.is_sole("NYC")


@pytest.mark.parametrize("sites", [(), (*LISTED, "LON")])
def test_a_site_takes_part_where_none_or_all_are_listed(sites: tuple[str, ...]) -> None:
    net = Net(NYC="EC", LON="LM", config={"sites": sites, "primary": "all"})
    net.settle(3)
    net.send("M", 4)
    net.settle(3)
    assert got(net, "M", *"EC") == [[1, 2, 3, 4]] * 2


class Links:
    """A block that notes the news of its links."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bool]] = []
        self.posts: list[bytes] = []

    def site_link(self, site: str, up: bool) -> None:
        self.heard.append((site, up))

    def site_post(self, site: str, payload: bytes) -> None:
        self.posts.append(payload)

    def site_epoch(self, number: int, site: str) -> None:
        pass


def from_relay(net: Net, name: str, peer: Address, *batches: Batch) -> None:
    """Let batches of a relay of another site reach the relay ``name``."""
    member = net.members[name]
    (stack,) = member.stack.children
    for batch in batches:
        member.machine.enter(net.now)
        stack.protocols[0].pass_up(replace(batch, src=peer))
        member.machine.leave()


def test_a_relay_that_was_accepted_and_then_says_an_unlisted_site_is_heard_no_more() -> None:
    net = Net(NYC="EC", SFO="TS", config={"sites": LISTED, "primary": "all"})
    net.settle(3)
    relay = net.members["E"].relay
    links = relay.bridge.posts.listener = Links()
    (session,) = relay.bridge.sessions.values()
    assert session.site == "SFO" and session.ready
    relay.bridge.block("waits in the inbox")
    sender = SiteUUID(bytes(net.members["T"].id), "SFO", "T")
    source = RelayHeader(RelayType.DATA, original_sender=sender)
    run = Batch(None, [b"T#1"], {ID: FragHeader(1, MessageKind.RELAYED, 0), SOURCE_ID: source})
    other = Ask(session.peer_token + 1, "LON", (0, "NYC"), [], {}, False)
    records = Batch(None, [encode(other)], {ID: CONTROL_HEADER})
    post = Batch(None, [b"post"], {ID: POST_HEADER})
    from_relay(net, "E", session.peer, run, records, run, post)
    relay.bridge.unblock("waits in the inbox")
    relay.bridge.drain()
    net.settle(1)
    (session,) = relay.bridge.sessions.values()
    assert (session.site, session.ready, session.refused) == ("", False, True)
    assert session.token > 1 and not session.inbox
    assert links.heard == [("SFO", False)] and links.posts == []
    assert got(net, "T", *"EC") == [[], []]
    assert relay.bridge.forwarded.of("SFO") == {}


def test_a_relay_that_says_a_listed_site_once_more_is_heard_again() -> None:
    net = Net(NYC="EC", SFO="TS", config={"sites": LISTED, "primary": "all"})
    net.settle(3)
    relay = net.members["E"].relay
    (session,) = relay.bridge.sessions.values()
    other = Ask(session.peer_token + 1, "LON", (0, "NYC"), [], {}, False)
    gap = BridgeGap({bytes(16): 7}, False)
    records = Batch(None, [encode(other), encode(gap)], {ID: CONTROL_HEADER})
    from_relay(net, "E", session.peer, records)
    assert (relay.counters.malformed, relay.counters.gaps_put_off) == (1, 0)
    net.send("C", 3)
    net.settle(1)
    assert got(net, "C", *"TS") == [[], []]
    ours = Ask(other.token + 1, "SFO", (0, "NYC"), [], {}, False)
    from_relay(net, "E", session.peer, Batch(None, [encode(ours)], {ID: CONTROL_HEADER}))
    net.send("T", 2)
    net.settle(3)
    assert got(net, "C", *"TS") == [[1, 2, 3]] * 2
    assert got(net, "T", *"EC") == [[1, 2]] * 2
