"""Java and Python members in one group with AUTH; the group refuses other members on either side."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_parts import JavaParts
from mixed_group import mixed_group
from test_java_membership import agree, hear_each_other

from jgroups_py import JoinError
from jgroups_py.testing.authority import CertificateAuthority

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

LOCAL = (
    'auth_class="org.jgroups.auth.RegexMembership" auth_token.match_string="127[.]0[.]0[.]1:[0-9]+"'
)
LISTED = (
    'auth_class="org.jgroups.auth.FixedMembershipToken" auth_token.fixed_members_value="127.0.0.1"'
)
OTHERS = (
    'auth_class="org.jgroups.auth.RegexMembership" auth_token.match_string="[JKPQ]" '
    'auth_token.match_ip_address="false" auth_token.match_logical_name="true"'
)


CERTIFIED = (
    'auth_class="org.jgroups.auth.X509Token" auth_token.keystore_type="pkcs12" '
    'auth_token.keystore_path="{store}" auth_token.keystore_password="changeit" '
    'auth_token.cert_alias="group" auth_token.cert_password="changeit" auth_token.auth_value="{value}"'
)


def guarded(parts: JavaParts, folder: Path, attributes: str, name: str = "guarded") -> Path:
    """JGroups' own udp.xml, with AUTH below GMS."""
    text = (parts.stacks / "udp.xml").read_text()
    assert text.count("<pbcast.GMS") == 1
    file = folder / f"{name}.xml"
    file.write_text(text.replace("<pbcast.GMS", f"<AUTH {attributes}/>\n    <pbcast.GMS"))
    return file


@pytest.mark.parametrize("attributes", [LOCAL, LISTED], ids=["regex", "fixed"])
async def test_both_kinds_let_each_other_in_and_take_over(
    parts: JavaParts, tmp_path: Path, attributes: str
) -> None:
    file = guarded(parts, tmp_path, attributes)
    async with mixed_group(parts, "udp", file=file) as group:
        j = await group.java("J")
        p = await group.python_process("P")
        k = await group.java("K")
        await agree(j, p, k)
        j.kill()
        await agree(p, k)
        q = await group.python("Q")
        m = await group.java("M")
        await agree(p, k, q, m)
        assert p.members[0] == "P"
        p.kill()
        await agree(k, q, m)
        r = await group.python("R")
        await agree(k, q, m, r)
        await hear_each_other(k, q, m, r, mark="guarded")


async def test_python_refuses_a_java_member_which_is_told_why(
    parts: JavaParts, tmp_path: Path
) -> None:
    file = guarded(parts, tmp_path, OTHERS)
    async with mixed_group(parts, "udp", file=file) as group:
        p = await group.python("P")
        j = await group.java("J")
        stranger = await group.java("S", connect=False)
        with pytest.raises(AssertionError, match=r"its token or address is not admitted \(AUTH\)"):
            await stranger.tell("connect", group.cluster)
        await agree(p, j)
        assert p.channel.statistics().turned_away["AUTH.wrong_token"] > 0


async def test_java_refuses_a_python_member_which_ends_with_the_reason(
    parts: JavaParts, tmp_path: Path
) -> None:
    file = guarded(parts, tmp_path, OTHERS)
    said = ["failed to validate AuthHeader"]
    async with mixed_group(parts, "udp", file=file, allowed=said) as group:
        j = await group.java("J")
        with pytest.raises(JoinError, match="J refused: authentication failed"):
            await group.python("S")
        p = await group.python("P")
        await agree(j, p)


async def test_members_with_the_certificate_of_the_group_let_each_other_in_and_nobody_else(
    parts: JavaParts, tmp_path: Path
) -> None:
    store = CertificateAuthority(tmp_path).issue("group", rsa_bits=2048).keystore
    good, bad = (
        guarded(parts, tmp_path, CERTIFIED.format(store=store, value=value), value)
        for value in ("value", "guess")
    )
    async with mixed_group(parts, "udp", file=good, allowed=["failed to validate Auth"]) as group:
        j = await group.java("J")
        with pytest.raises(JoinError, match="J refused: authentication failed"):
            await group.python("S", stack=bad)
        p = await group.python("P")
        await agree(j, p)
        await j.tell("close")
        await agree(p)
        group.file = bad
        stranger = await group.java("T", connect=False)
        with pytest.raises(AssertionError, match=r"its token or address is not admitted \(AUTH\)"):
            await stranger.tell("connect", group.cluster)
        group.file = good
        k = await group.java("K")
        await agree(p, k)
        await hear_each_other(p, k, mark="certified")
