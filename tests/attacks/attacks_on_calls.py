"""A stranger calls methods, and speaks in the name of a member."""

from __future__ import annotations

from attack_kit import Attack, Family
from attack_scene import FORGED, FORGED_TEXT, Scene

from jgroups_py.rpc.ours import Msgpack, OurForm
from jgroups_py.values.address import SiteUUID
from jgroups_py.values.message import Flag
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    CorrelatorHeader,
    CorrelatorType,
    NakAckHeader2,
    NakAckType,
    UnicastHeader3,
    UnicastType,
)

RPC, NAKACK2, UNICAST3 = (
    PROTOCOL_IDS[name] for name in ("REQUEST_CORRELATOR", "NAKACK2", "UNICAST3")
)
CALL = OurForm(Msgpack()).write_request("note", (FORGED,)).payload
REQUEST = CorrelatorHeader(CorrelatorType.REQ, 1)
FIRST = UnicastHeader3(UnicastType.DATA, 1, 7, True)
NO_RELIABILITY = int(Flag.NO_RELIABILITY)
OOB = int(Flag.OOB)


async def call_without_number(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    s.say(s.packet(s.uuid, b.address, {RPC: REQUEST}, CALL), b.at)


async def call_as_member(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.packet(a.address, b.address, {RPC: REQUEST}, CALL), b.at)


async def call_to_the_port(scene: Scene) -> None:
    """The destination is the member's network address instead of its own."""
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.packet(a.address, b.at, {RPC: REQUEST}, CALL), b.at)


async def unreliable_call(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    s.say(s.packet(s.uuid, b.address, {RPC: REQUEST}, CALL, flags=NO_RELIABILITY), b.at)


async def numbered_call(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    s.say(s.packet(s.uuid, b.address, {UNICAST3: FIRST, RPC: REQUEST}, CALL), b.at)


async def urgent_numbered_call(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    header = UnicastHeader3(UnicastType.DATA, 1, 8, True)
    s.say(s.packet(s.uuid, b.address, {UNICAST3: header, RPC: REQUEST}, CALL, flags=OOB), b.at)


async def cast_without_number(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    header = CorrelatorHeader(CorrelatorType.REQ, 0)
    s.say(s.packet(s.uuid, None, {RPC: header}, CALL), b.at)


async def numbered_cast(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    headers = {NAKACK2: NakAckHeader2(NakAckType.MSG, 1), RPC: REQUEST}
    for _ in range(60):  # more than are kept for joiners
        s.say(s.packet(s.uuid, None, headers, CALL), b.at)


async def message_as_member(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.packet(a.address, b.address, {}, FORGED_TEXT), b.at)


async def urgent_message_as_member(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.packet(a.address, b.address, {}, FORGED_TEXT, flags=OOB), b.at)


async def multicast_as_member(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.packet(a.address, None, {}, FORGED_TEXT), b.at)


async def unreliable_multicast(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    s.say(s.packet(s.uuid, None, {}, FORGED_TEXT, flags=NO_RELIABILITY), b.at)


async def unreliable_message(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    s.say(s.packet(s.uuid, b.address, {}, FORGED_TEXT, flags=NO_RELIABILITY), b.at)


async def message_of_a_site(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    src = SiteUUID(bytes(s.uuid), "SFO", "Z")
    s.say(s.packet(src, b.address, {}, FORGED_TEXT), b.at)


FAMILY = Family(
    "calls",
    "A stranger's datagram is no call and no message of a member.",
    (
        Attack(
            "call-without-number",
            "one packet with a call under its own address, without UNICAST3's header",
            "the method runs, and the stranger gets its value",
            "UNICAST3.unnumbered",
            call_without_number,
        ),
        Attack(
            "call-as-member",
            "the packet of `call-without-number` with A's address as sender",
            "the method runs as called by A",
            "{transport}.other_place",
            call_as_member,
        ),
        Attack(
            "call-to-the-port",
            "the packet of `call-as-member` with B's network address as destination",
            "the method runs as called by A",
            "{transport}.other_place",
            call_to_the_port,
        ),
        Attack(
            "unreliable-call",
            "a call under its own address with the flag NO_RELIABILITY",
            "the method runs",
            "GMS.not_member",
            unreliable_call,
        ),
        Attack(
            "numbered-call",
            "a call under its own address on a new connection of UNICAST3",
            "the method runs, and the stranger gets its value",
            "RPC.not_member",
            numbered_call,
            silent=False,
        ),
        Attack(
            "urgent-numbered-call",
            "the call of `numbered-call` with the flag OOB",
            "the method runs, and the stranger gets its value",
            "RPC.not_member",
            urgent_numbered_call,
            silent=False,
        ),
        Attack(
            "cast-without-number",
            "a cast to all members, without NAKACK2's header",
            "the method runs",
            "NAKACK2.unnumbered",
            cast_without_number,
        ),
        Attack(
            "numbered-cast",
            "sixty casts under its own address, numbered as by NAKACK2",
            "the method runs, or the buffer for joiners' multicasts overflows unnoticed",
            "NAKACK2.non_member_dropped",
            numbered_cast,
        ),
        Attack(
            "message-as-member",
            "a message from A to B, without UNICAST3's header",
            "B's application gets the message as a message of A",
            "{transport}.other_place",
            message_as_member,
        ),
        Attack(
            "urgent-message-as-member",
            "the message of `message-as-member` with the flag OOB",
            "B's application gets the message as a message of A",
            "{transport}.other_place",
            urgent_message_as_member,
        ),
        Attack(
            "multicast-as-member",
            "a multicast of A, without NAKACK2's header",
            "B's application gets the message as a message of A",
            "{transport}.other_place",
            multicast_as_member,
        ),
        Attack(
            "unreliable-multicast",
            "a multicast under its own address with the flag NO_RELIABILITY",
            "B's application gets the message",
            "NAKACK2.non_member_dropped",
            unreliable_multicast,
        ),
        Attack(
            "unreliable-message",
            "a message under its own address with the flag NO_RELIABILITY",
            "B's application gets the message",
            "GMS.not_member",
            unreliable_message,
        ),
        Attack(
            "message-of-a-site",
            "a message in the name of a member of another site",
            "B's application gets the message as a relayed one",
            "UNICAST3.unnumbered",
            message_of_a_site,
        ),
    ),
)
