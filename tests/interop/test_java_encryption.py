"""Java and Python members in one group with SYM_ENCRYPT, with one keystore that keytool made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
from java_parts import JavaParts, Unavailable, with_bouncy_castle
from mixed_group import HASTY, eventually, mixed_group
from test_java_membership import agree, hear_each_other

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

KEYSTORES = Path(__file__).parents[1] / "security" / "keystores.json"


def encrypted(parts: JavaParts, folder: Path, kind: str, algorithm: str, iv: int) -> Path:
    """JGroups' own udp.xml, with SYM_ENCRYPT below NAKACK2, and the keystore beside it."""
    keystore = folder / f"{kind}.keystore"
    keystore.write_bytes(bytes.fromhex(json.loads(KEYSTORES.read_text())[kind]["file"]))
    protocol = (
        f'<SYM_ENCRYPT keystore_name="{keystore}" keystore_type="{kind}" store_password="changeit" '
        f'alias="mykey" sym_algorithm="{algorithm}" sym_iv_length="{iv}"/>'
    )
    text = (parts.stacks / "udp.xml").read_text()
    assert text.count("<pbcast.NAKACK2") == 1
    file = folder / "encrypted.xml"
    file.write_text(text.replace("<pbcast.NAKACK2", f"{protocol}\n    <pbcast.NAKACK2"))
    return file


@pytest.mark.parametrize(
    ("kind", "algorithm", "iv"),
    [
        ("PKCS12", "AES/CBC/PKCS5Padding", 16),
        ("JCEKS", "AES", 0),
        ("PKCS12", "AES/CTR/NoPadding", 16),
    ],
    ids=["cbc", "ecb", "ctr"],
)
async def test_both_kinds_join_and_take_over_from_a_killed_coordinator(
    parts: JavaParts, tmp_path: Path, kind: str, algorithm: str, iv: int
) -> None:
    file = encrypted(parts, tmp_path, kind, algorithm, iv)
    async with mixed_group(parts, "udp", file=file) as group:
        j = await group.java("J")
        p = await group.python_process("P")
        k = await group.java("K")
        await agree(j, p, k)
        assert list(k.members) == ["J", "P", "K"]
        await j.tell("send", "*", "-", "from Java")
        await p.start("from Python")  # it sends each line
        for member in (j, p, k):
            await member.until(lambda m=member: all(m.texts(sender) for sender in (j, p)))  # type: ignore[misc]
            assert (member.texts(j), member.texts(p)) == (["from Java"], ["from Python"])
        j.kill()
        await agree(p, k)
        assert list(k.members) == ["P", "K"]
        await k.tell("send", "*", "-", "without J")
        await p.until(lambda: p.texts(k) == ["without J"])
        p.kill()
        await k.until_view("K")
        q = await group.python("Q")
        await agree(k, q)
        await hear_each_other(k, q, mark="again")


async def test_with_gcm_java_reads_runs_of_python_and_the_other_way_round(
    parts: JavaParts, tmp_path: Path
) -> None:
    """The IVs of a Python member's run are consecutive, and each message of Java has its own IV."""
    try:
        parts = with_bouncy_castle(parts)
    except Unavailable as problem:
        pytest.skip(str(problem))
    file = encrypted(parts, tmp_path, "PKCS12", "AES/GCM/NoPadding", 12)
    file.write_text(file.read_text().replace("<SYM_ENCRYPT ", '<SYM_ENCRYPT provider="BC" '))
    async with mixed_group(parts, "udp", file=file) as group:
        j = await group.java("J")
        p = await group.python("P")
        await agree(j, p)
        await hear_each_other(j, p, mark="gcm")
        for number in range(1000):
            await p.channel.send(b"run %d" % number)
        await j.tell("bulk", "*", "-", 500, 100, 3)
        expected = [f"run {number}" for number in range(1000)]
        await j.until(lambda: j.texts(p)[-1000:] == expected)
        await p.until(lambda: len(p.from_(j)) >= 500)
        assert p.channel.statistics().turned_away == {}


async def test_a_python_member_without_the_key_neither_joins_nor_reads(
    parts: JavaParts, tmp_path: Path
) -> None:
    file = encrypted(parts, tmp_path, "PKCS12", "AES/CBC/PKCS5Padding", 16)
    said = ["received message without encrypt header from S"]
    async with mixed_group(parts, "udp", file=file, allowed=said) as group:
        j = await group.java("J")
        p = await group.python("P")
        await agree(j, p)
        stranger = await group.python(
            "S", stack=parts.stacks / "udp.xml", attributes={**HASTY, "GMS.max_join_attempts": "2"}
        )
        assert stranger.members == ("S",)
        await hear_each_other(j, p, mark="secret")
        await stranger.send("let me in")
        refused = p.channel.statistics
        await eventually(lambda: refused().turned_away.get("SYM_ENCRYPT.unencrypted"))
        await trio.sleep(1)
        assert sorted(p.members) == sorted(j.members) == ["J", "P"]
        assert not stranger.texts(p) and not p.texts(stranger) and not j.texts(stranger)
