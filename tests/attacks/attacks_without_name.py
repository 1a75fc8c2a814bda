"""A stranger does not even know the name of the cluster."""

from __future__ import annotations

from attack_kit import Attack, Family
from attack_scene import FORGED_TEXT, Scene
from attacks_on_calls import CALL, FIRST, REQUEST, RPC, UNICAST3

from jgroups_py.values.payloads import PingData
from jgroups_py.wire.headers import PROTOCOL_IDS, GmsHeader, GmsType, PingHeader, PingType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_ping_data_list


def discovery(scene: Scene) -> int:
    return PROTOCOL_IDS["PING" if scene.transport == "UDP" else "TCPPING"]


async def nameless_call(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    s.say(s.nameless(s.uuid, b.address, {UNICAST3: FIRST, RPC: REQUEST}, CALL), b.at)


async def nameless_message(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.nameless(a.address, b.address, {}, FORGED_TEXT), b.at)


async def nameless_discovery(scene: Scene) -> None:
    s, a = scene.stranger, scene.a
    data = encode_whole(write_ping_data_list, [PingData(s.uuid, 0, "S", s.at)])
    header = PingHeader(PingType.GET_MBRS_REQ, None, True)
    s.say(s.nameless(s.uuid, None, {discovery(scene): header}, data), a.at)


async def nameless_join(scene: Scene) -> None:
    s, a = scene.stranger, scene.a
    headers = {UNICAST3: FIRST, PROTOCOL_IDS["GMS"]: GmsHeader(GmsType.JOIN_REQ, s.uuid)}
    s.say(s.nameless(s.uuid, a.address, headers), a.at)


async def empty_name(scene: Scene) -> None:
    s, b = scene.stranger, scene.b
    headers = {UNICAST3: FIRST, RPC: REQUEST}
    s.say(s.packet(s.uuid, b.address, headers, CALL, cluster=""), b.at)


FAMILY = Family(
    "nameless",
    "A packet without the cluster's name is refused.",
    (
        Attack(
            "nameless-call",
            "a call on a connection of UNICAST3, without the transport's header",
            "the method runs",
            "{transport}.no_cluster",
            nameless_call,
        ),
        Attack(
            "nameless-message",
            "a message from A, without the transport's header",
            "B's application gets the message as a message of A",
            "{transport}.no_cluster",
            nameless_message,
        ),
        Attack(
            "nameless-discovery",
            "a discovery request, without the transport's header",
            "the answer contains the members' addresses and places",
            "{transport}.no_cluster",
            nameless_discovery,
        ),
        Attack(
            "nameless-join",
            "a request to join, without the transport's header",
            "the stranger becomes a member",
            "{transport}.no_cluster",
            nameless_join,
        ),
        Attack(
            "empty-name",
            "a call in a packet with an empty cluster name",
            "the method runs",
            "{transport}.dropped_cluster",
            empty_name,
        ),
    ),
)
