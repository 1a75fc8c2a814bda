"""A stranger sends in the name of members from its own socket, and claims that a member is at the stranger's place."""

from __future__ import annotations

from random import Random

from attack_kit import Attack, Family
from attack_scene import CLUSTER, FORGED_TEXT, Scene
from attacks_on_calls import CALL, NAKACK2, REQUEST, RPC, UNICAST3
from attacks_without_name import discovery

from jgroups_py.values.address import UUID, Address, IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.header import Header
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import PingData, ViewDigest
from jgroups_py.values.view import View, ViewId
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    FdHeader,
    FdType,
    GmsHeader,
    GmsType,
    HeartbeatHeader,
    MergeHeader,
    MergeType,
    NakAckHeader2,
    NakAckType,
    PingHeader,
    PingType,
    StableHeader,
    StableType,
    UnicastHeader3,
    UnicastType,
    VerifyHeader2,
    VerifyType,
)
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_ping_data_list, write_view_digest

NOWHERE = IpAddress("127.0.0.1", 1)
"""A place without a process. At the stranger's own place members would send discovery requests, which look like an
answer."""
UNRELIABLE = int(Flag.OOB | Flag.NO_RELIABILITY)
GMS, FD_ALL3, FD_SOCK2, VERIFY, MERGE3, STABLE = (
    PROTOCOL_IDS[name]
    for name in ("GMS", "FD_ALL3", "FD_SOCK2", "VERIFY_SUSPECT2", "MERGE3", "STABLE")
)


def as_a(
    scene: Scene,
    headers: dict[int, Header],
    payload: bytes | None = None,
    *,
    to: Address | None = None,
    flags: int = 0,
) -> None:
    """Send a packet in A's name from the stranger's socket to B."""
    s, a, b = scene.stranger, scene.a, scene.b
    s.say(s.packet(a.address, to, headers, payload, flags=flags), b.at)


def discovered(scene: Scene, src: Address, kind: PingType) -> None:
    """Send a discovery message to B that gives A another place."""
    s, a, b = scene.stranger, scene.a, scene.b
    flags = PingData.SERVER | PingData.COORDINATOR
    data = encode_whole(write_ping_data_list, [PingData(a.address, flags, "A", NOWHERE)])
    cluster = None if kind is PingType.GET_MBRS_RSP else "bank"
    headers = {discovery(scene): PingHeader(kind, cluster, False)}
    s.say(s.packet(src, b.address, headers, data), b.at)


async def moved_by_an_answer(scene: Scene) -> None:
    discovered(scene, scene.stranger.uuid, PingType.GET_MBRS_RSP)


async def moved_by_a_request(scene: Scene) -> None:
    discovered(scene, scene.stranger.uuid, PingType.GET_MBRS_REQ)


async def moved_by_its_own_word(scene: Scene) -> None:
    discovered(scene, scene.a.address, PingType.GET_MBRS_RSP)


async def moved_by_merge3(scene: Scene) -> None:
    view = scene.b.channel.view
    header = MergeHeader(MergeType.INFO, view.view_id, "A", scene.stranger.at)
    as_a(scene, {MERGE3: header})


async def heartbeat_as_member(scene: Scene) -> None:
    as_a(scene, {FD_ALL3: HeartbeatHeader()})


async def alive_as_member(scene: Scene) -> None:
    as_a(
        scene,
        {VERIFY: VerifyHeader2(VerifyType.I_AM_NOT_DEAD, scene.a.address)},
        to=scene.b.address,
    )


async def leave_as_member(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    header = GmsHeader(GmsType.LEAVE_REQ, b.address)
    s.say(s.packet(b.address, a.address, {GMS: header}, flags=UNRELIABLE), a.at)


async def suspicion_as_member(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    header = FdHeader(FdType.SUSPECT, (b.address,), "bank")
    s.say(s.packet(b.address, None, {FD_SOCK2: header}), a.at)


async def numbered_call_as_member(scene: Scene) -> None:
    header = UnicastHeader3(UnicastType.DATA, 1, 99, True)
    as_a(scene, {UNICAST3: header, RPC: REQUEST}, CALL, to=scene.b.address)


async def acknowledged_as_member(scene: Scene) -> None:
    header = UnicastHeader3(UnicastType.ACK, 1_000_000, 1)
    as_a(scene, {UNICAST3: header}, to=scene.b.address)


async def multicasts_of_member(scene: Scene) -> None:
    for number in range(1, 60):
        as_a(scene, {NAKACK2: NakAckHeader2(NakAckType.MSG, number)}, FORGED_TEXT)


async def repeated_as_member(scene: Scene) -> None:
    header = NakAckHeader2(NakAckType.XMIT_RSP, 5)
    as_a(scene, {NAKACK2: header}, FORGED_TEXT, to=scene.b.address)


async def stable_as_member(scene: Scene) -> None:
    as_a(scene, {STABLE: StableHeader(StableType.STABILITY, scene.b.channel.view.view_id)})


async def view_as_member(scene: Scene) -> None:
    a = scene.a.address
    view = View(ViewId(a, scene.a.channel.view.id + 1), (a,))
    payload = encode_whole(write_view_digest, ViewDigest(view))
    as_a(scene, {GMS: GmsHeader(GmsType.VIEW)}, payload, to=scene.b.address, flags=UNRELIABLE)


async def hidden_in_a_bundle(scene: Scene) -> None:
    """Send the stranger's bundle, in which one message names A as its own sender."""
    s, a, b = scene.stranger, scene.a, scene.b
    header = NakAckHeader2(NakAckType.MSG, 1)
    genuine = Batch(None, (b"x",), {NAKACK2: header}, s.uuid)
    forged = Batch(None, (FORGED_TEXT,), {}, a.address)
    s.say(s.bundle(genuine, forged), b.at)


async def hidden_call(scene: Scene) -> None:
    """Send the same bundle with a call on a connection of UNICAST3."""
    s, a, b = scene.stranger, scene.a, scene.b
    numbered = UnicastHeader3(UnicastType.DATA, 1, 98, True)
    first = Batch(b.address, (b"x",), {}, s.uuid)
    forged = Batch(b.address, (CALL,), {UNICAST3: numbered, RPC: REQUEST}, a.address)
    s.say(s.bundle(first, forged), b.at)


async def sent_elsewhere(scene: Scene) -> None:
    """A joiner at another host sends a discovery request. Members must not connect to that host."""
    s, b = scene.stranger, scene.b
    joiner = UUID.make(Random("elsewhere"))
    data = encode_whole(write_ping_data_list, [PingData(joiner, 0, "X", scene.bait.at)])
    headers = {discovery(scene): PingHeader(PingType.GET_MBRS_REQ, CLUSTER, True)}
    s.say(s.packet(joiner, None, headers, data), b.at)


def somebody_came(scene: Scene) -> str:
    return "a member connected to another host" if scene.bait.came() else ""


async def handshake_of_member(scene: Scene) -> None:
    """The handshake gives A's place, but the connection comes from another host."""
    scene.stranger.connect_from("127.0.0.2", scene.b.at, scene.a.at)


def attack(name: str, sends: str, harm: str, strike: object, cause: str = "other_place") -> Attack:
    return Attack(name, sends, harm, f"{{transport}}.{cause}", strike)  # type: ignore[arg-type]


FAMILY = Family(
    "places",
    "A packet in a member's name must come from a member's place, and members do not move.",
    (
        attack(
            "moved-by-answer",
            "one discovery answer with another place for A",
            "B's messages to A go to another place",
            moved_by_an_answer,
            "moved",
        ),
        attack(
            "moved-by-request",
            "one discovery request with another place for A",
            "B's messages to A go to another place",
            moved_by_a_request,
            "moved",
        ),
        attack(
            "moved-by-its-own-word",
            "the answer of `moved-by-answer` in A's name",
            "B's messages to A go to another place",
            moved_by_its_own_word,
        ),
        attack(
            "moved-by-merge3",
            "an announcement of MERGE3 in A's name with the stranger's place",
            "B's messages to A go to another place",
            moved_by_merge3,
        ),
        attack(
            "heartbeat-as-member",
            "a heartbeat in A's name",
            "A stays in the view although it is stopped",
            heartbeat_as_member,
        ),
        attack(
            "alive-as-member",
            "I_AM_NOT_DEAD in A's name",
            "A stays in the view although it is dead",
            alive_as_member,
        ),
        attack(
            "leave-as-member", "a request to leave in B's name", "B is expelled", leave_as_member
        ),
        attack(
            "suspicion-as-member",
            "a SUSPECT in the name of a member",
            "a member is suspected",
            suspicion_as_member,
        ),
        attack(
            "numbered-call-as-member",
            "a call in A's name on a new connection of UNICAST3",
            "the method runs, and A's next messages are dropped",
            numbered_call_as_member,
        ),
        attack(
            "acknowledged-as-member",
            "an acknowledgement of a million messages in A's name",
            "B does not resend messages that A lacks",
            acknowledged_as_member,
        ),
        attack(
            "multicasts-of-member",
            "sixty numbered multicasts in A's name",
            "B's application gets one of them instead of A's message",
            multicasts_of_member,
        ),
        attack(
            "repeated-as-member",
            "a multicast of A, marked as the answer to a request",
            "B's application gets it instead of A's message",
            repeated_as_member,
        ),
        attack(
            "stable-as-member",
            "a STABILITY in A's name: all members have all messages",
            "B drops messages that other members still need",
            stable_as_member,
        ),
        attack(
            "view-as-member",
            "a view without B, in A's name",
            "B leaves its group",
            view_as_member,
        ),
        attack(
            "hidden-in-a-bundle",
            "a bundle under its own address, in which one message names A as sender",
            "B's application gets the message as a message of A",
            hidden_in_a_bundle,
        ),
        attack(
            "hidden-call",
            "such a bundle with a call on a connection of UNICAST3",
            "the method runs as called by A",
            hidden_call,
        ),
        Attack(
            "sent-elsewhere",
            "a discovery request for a joiner that is claimed to be on another host",
            "members connect to any host and port that a stranger names",
            "TCP.told_elsewhere",
            sent_elsewhere,
            somebody_came,
            on=("TCP",),
        ),
        Attack(
            "handshake-of-member",
            "a handshake from another host that names A's listening port",
            "B's messages to A go to the stranger",
            "TCP.member_elsewhere",
            handshake_of_member,
            on=("TCP",),
        ),
    ),
)
