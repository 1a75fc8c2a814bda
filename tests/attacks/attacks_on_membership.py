"""A stranger says under its own address that others leave, are dead, or are alive."""

from __future__ import annotations

from attack_kit import Attack, Family
from attack_scene import CLUSTER, Scene

from jgroups_py.values.message import Flag
from jgroups_py.wire.headers import PROTOCOL_IDS, FdHeader, FdType, GmsHeader, GmsType

GMS, FD_SOCK2 = (PROTOCOL_IDS[name] for name in ("GMS", "FD_SOCK2"))
UNRELIABLE = int(Flag.OOB | Flag.NO_RELIABILITY)


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
    "What a stranger says of members is worth nothing.",
    (
        Attack(
            "foreign-leave",
            "one datagram: a request to let B go, under its own address",
            "B is expelled",
            "GMS.foreign_leave",
            foreign_leave,
        ),
        Attack(
            "foreign-suspicion",
            "one SUSPECT of B, under its own address",
            "B must answer in time, or is expelled",
            "FD_SOCK2.not_member",
            foreign_suspicion,
            somebody_is_suspected,
        ),
        Attack(
            "foreign-proof",
            "the same with the cluster's name, which tells that B's ports refuse",
            "A searches B's ports",
            "FD_SOCK2.not_member",
            foreign_proof,
            somebody_is_suspected,
        ),
        Attack(
            "foreign-suspicions",
            "two hundred of them",
            "memory grows with their number",
            "FD_SOCK2.not_member",
            foreign_suspicions,
            somebody_is_suspected,
        ),
        Attack(
            "foreign-comfort",
            "one UNSUSPECT of B, under its own address",
            "B stays in the view although it is dead",
            "FD_SOCK2.not_member",
            foreign_comfort,
        ),
    ),
)
