"""Java and Python members in one group with AUTH, and those that it keeps out on either side."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_parts import JavaParts
from mixed_group import mixed_group
from test_java_membership import agree, hear_each_other

from jgroups_py import JoinError

pytestmark = [pytest.mark.java, pytest.mark.timeout(90)]

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


def guarded(parts: JavaParts, folder: Path, attributes: str) -> Path:
    """JGroups' own udp.xml, with AUTH below GMS."""
    text = (parts.stacks / "udp.xml").read_text()
    assert text.count("<pbcast.GMS") == 1
    file = folder / "guarded.xml"
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
