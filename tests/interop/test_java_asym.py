"""Java and Python members in one group with ASYM_ENCRYPT: the key passes between them, and a refused member does
not get it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from java_parts import JavaParts
from mixed_group import mixed_group
from test_java_membership import FAST, agree, alone_with, hear_each_other

from jgroups_py import UUID, JoinError

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

AUTH = (
    '<AUTH auth_class="org.jgroups.auth.RegexMembership" auth_token.match_string="[JKPQ]" '
    'auth_token.match_ip_address="false" auth_token.match_logical_name="true"/>'
)
OVERTAKEN = [
    "received message without encrypt header",
    "rejected decryption of",
    "dropped multicast message from non-member",
]


def encrypted(
    parts: JavaParts, folder: Path, algorithm: str, iv: int, *, more: str = "", auth: str = ""
) -> Path:
    """JGroups' own udp.xml, with ASYM_ENCRYPT below NAKACK2."""
    protocol = (
        f'<ASYM_ENCRYPT sym_algorithm="{algorithm}" sym_iv_length="{iv}" '
        f'change_key_on_leave="true" {more}/>'
    )
    text = (parts.stacks / "udp.xml").read_text()
    assert text.count("<pbcast.NAKACK2") == 1
    file = folder / "encrypted.xml"
    text = text.replace("<pbcast.NAKACK2", f"{protocol}\n    <pbcast.NAKACK2")
    file.write_text(text.replace("<pbcast.GMS", f"{auth}\n    <pbcast.GMS"))
    return file


@pytest.mark.parametrize(
    ("algorithm", "iv", "more"),
    [
        ("AES/CBC/PKCS5Padding", 16, ""),
        ("AES", 0, 'asym_algorithm="RSA/ECB/OAEPWithSHA-256AndMGF1Padding"'),
    ],
    ids=["cbc", "ecb-oaep"],
)
async def test_both_kinds_hand_the_key_on_when_a_coordinator_is_killed(
    parts: JavaParts, tmp_path: Path, algorithm: str, iv: int, more: str
) -> None:
    file = encrypted(parts, tmp_path, algorithm, iv, more=more)
    async with mixed_group(parts, "udp", file=file, allowed=OVERTAKEN) as group:
        j = await group.java("J")
        p = await group.python_process("P")
        k = await group.java("K")
        await agree(j, p, k)
        await j.tell("send", "*", "-", "from Java")
        await p.start("from Python")  # it sends each line
        for member in (j, p, k):
            await member.until(lambda m=member: all(m.texts(sender) for sender in (j, p)))  # type: ignore[misc]
        j.kill()
        await agree(p, k)
        assert list(k.members) == ["P", "K"]
        await k.tell("send", "*", "-", "without J")
        await p.until(lambda: p.texts(k) == ["without J"])
        q = await group.python("Q")
        await agree(p, k, q)
        p.kill()
        await agree(k, q)
        assert list(q.members) == ["K", "Q"]
        await hear_each_other(k, q, mark="without P")
        m = await group.java("M")
        await agree(k, q, m)
        await k.tell("close")
        await agree(q, m)
        assert list(m.members) == ["Q", "M"]
        await hear_each_other(q, m, mark="without K")
        assert q.channel.statistics().protocols["ASYM_ENCRYPT"]["keys_made"] == 1


async def test_python_hands_a_refused_java_member_the_reason_and_no_key(
    parts: JavaParts, tmp_path: Path
) -> None:
    file = encrypted(parts, tmp_path, "AES/CBC/PKCS5Padding", 16, auth=AUTH)
    async with mixed_group(parts, "udp", file=file) as group:
        p = await group.python("P")
        j = await group.java("J")
        stranger = await group.java("S", connect=False)
        with pytest.raises(AssertionError, match=r"its token or address is not admitted \(AUTH\)"):
            await stranger.tell("connect", group.cluster)
        await agree(p, j)
        await hear_each_other(p, j, mark="secret")


async def test_java_refuses_a_python_member_and_the_group_goes_on(
    parts: JavaParts, tmp_path: Path
) -> None:
    file = encrypted(parts, tmp_path, "AES/CBC/PKCS5Padding", 16, auth=AUTH)
    said = ["failed to validate AuthHeader", *OVERTAKEN]
    async with mixed_group(parts, "udp", file=file, allowed=said) as group:
        j = await group.java("J")
        with pytest.raises(JoinError, match="J refused: authentication failed"):
            await group.python("S")
        p = await group.python("P")
        await agree(j, p)
        await hear_each_other(p, j, mark="secret")


@pytest.mark.parametrize("leader", ["java", "python"])
async def test_groups_of_both_kinds_merge_under_a_new_key(
    parts: JavaParts, tmp_path: Path, leader: str
) -> None:
    file = encrypted(parts, tmp_path, "AES/CBC/PKCS5Padding", 16)
    async with mixed_group(parts, "udp", FAST, file=file, allowed=OVERTAKEN) as group:
        j, k = await group.java("J"), await group.java("K")
        await agree(j, k)
        theirs = UUID(bytes.fromhex(j.views[-1].ids[0])).order_key
        p = await alone_with(group, lambda ours: (ours.order_key < theirs) is (leader == "python"))
        p.faults.is_cut = None
        await agree(j, k, p)
        assert (p.members[0] == "P") is (leader == "python")
        await hear_each_other(j, k, p, mark="one")
        if leader == "python":
            await j.tell("close")
            await agree(k, p)
            await hear_each_other(k, p, mark="two")


async def test_a_java_member_that_missed_the_view_gets_the_key(
    parts: JavaParts, tmp_path: Path
) -> None:
    file = encrypted(parts, tmp_path, "AES/CBC/PKCS5Padding", 16)
    async with mixed_group(parts, "udp", FAST, file=file, allowed=OVERTAKEN) as group:
        p = await group.python("P")
        j = await group.java("J")
        q = await group.python_process("Q")
        await agree(p, j, q)
        j.kill(signal.SIGSTOP)  # shorter than the time that the others wait
        q.kill()
        await p.until_view("J", "P")
        j.kill(signal.SIGCONT)
        await agree(p, j)
        await hear_each_other(p, j, mark="without Q")
