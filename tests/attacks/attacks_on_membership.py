"""A stranger invents joiners, and reports under its own address that others leave, are dead, or are alive."""

from __future__ import annotations

from random import Random

import trio
from attack_kit import Attack, Family
from attack_scene import CLUSTER, Scene
from attacks_without_name import discovery

from jgroups_py.values.address import UUID
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import PingData
from jgroups_py.wire.headers import (
    PROTOCOL_IDS,
    FdHeader,
    FdType,
    GmsHeader,
    GmsType,
    PingHeader,
    PingType,
)
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_ping_data_list

GMS, FD_SOCK2 = (PROTOCOL_IDS[name] for name in ("GMS", "FD_SOCK2"))
UNRELIABLE = int(Flag.OOB | Flag.NO_RELIABILITY)


async def ghosts_join(scene: Scene) -> None:
    """More than the coordinator remembers, so that some are turned away at once."""
    s, a = scene.stranger, scene.a
    for number in range(1100):
        ghost = UUID.make(Random(f"ghost {number}"))
        header = GmsHeader(GmsType.JOIN_REQ, ghost)
        s.say(s.packet(ghost, a.address, {GMS: header}, flags=UNRELIABLE), a.at)
        if number % 100 == 99:
            await trio.sleep(0.01)


async def ghost_at_a_place_joins(scene: Scene) -> None:
    """The invented joiner's place is the stranger's socket, which does not answer."""
    s, a = scene.stranger, scene.a
    data = encode_whole(write_ping_data_list, [PingData(s.uuid, 0, "S", s.at)])
    header = PingHeader(PingType.GET_MBRS_REQ, CLUSTER, True)
    s.say(s.packet(s.uuid, None, {discovery(scene): header}, data), a.at)
    join = GmsHeader(GmsType.JOIN_REQ, s.uuid)
    s.say(s.packet(s.uuid, a.address, {GMS: join}, flags=UNRELIABLE), a.at)


async def foreign_leave(scene: Scene) -> None:
    s, a, b = scene.stranger, scene.a, scene.b
    header = GmsHeader(GmsType.LEAVE_REQ, b.address)
    s.say(s.packet(s.uuid, a.address, {GMS: header}, flags=UNRELIABLE), a.at)


async def foreign_suspicion(scene: Scene) -> None:
    _report(scene, FdHeader(FdType.SUSPECT, (scene.b.address,)))


async def foreign_proof(scene: Scene) -> None:
    _report(scene, FdHeader(FdType.SUSPECT, (scene.b.address,), CLUSTER))


async def foreign_suspicions(scene: Scene) -> None:
    for _ in range(200):
        _report(scene, FdHeader(FdType.SUSPECT, (scene.b.address,)))


async def foreign_comfort(scene: Scene) -> None:
    _report(scene, FdHeader(FdType.UNSUSPECT, (scene.b.address,)))


def _report(scene: Scene, header: FdHeader) -> None:
    s, a = scene.stranger, scene.a
    s.say(s.packet(s.uuid, None, {FD_SOCK2: header}), a.at)


def somebody_is_suspected(scene: Scene) -> str:
    suspected = [m.channel.name for m in scene.members if m.count("VERIFY_SUSPECT2.suspected")]
    return f"a suspicion counted at {suspected}" if suspected else ""


FAMILY = Family(
    "membership",
    "A stranger's reports about members are ignored.",
    (
        Attack(
            "ghosts-join",
            "1,100 requests to join, each in the name of a different ghost",
            "the view is full of ghosts, and their silence blocks multicasts for 45 s",
            "GMS.unproved",
            ghosts_join,
            silent=False,
        ),
        Attack(
            "foreign-leave",
            "one datagram under its own address, with a request to remove B",
            "B is expelled",
            "GMS.foreign_leave",
            foreign_leave,
        ),
        Attack(
            "foreign-suspicion",
            "one SUSPECT under its own address, which names B",
            "B must answer in time, or is expelled",
            "FD_SOCK2.not_member",
            foreign_suspicion,
            somebody_is_suspected,
        ),
        Attack(
            "foreign-proof",
            "a SUSPECT with the cluster's name, which claims that B's ports refuse",
            "A probes B's ports",
            "FD_SOCK2.not_member",
            foreign_proof,
            somebody_is_suspected,
        ),
        Attack(
            "foreign-suspicions",
            "two hundred SUSPECTs",
            "memory grows with their number",
            "FD_SOCK2.not_member",
            foreign_suspicions,
            somebody_is_suspected,
        ),
        Attack(
            "foreign-comfort",
            "one UNSUSPECT under its own address, which names B",
            "B stays in the view although it is dead",
            "FD_SOCK2.not_member",
            foreign_comfort,
        ),
        Attack(
            "ghost-joins",
            "a discovery request and a request to join, from a place that never answers",
            "the group waits for a member that does not exist",
            "GMS.unproved",
            ghost_at_a_place_joins,
            silent=False,
        ),
    ),
)
