"""Java and Python members in one group exchange a header of a user's own protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from java_parts import JavaParts
from mixed_group import mixed_group
from stamps import STAMPS

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


async def test_headers_of_a_users_own_are_read_by_both(parts: JavaParts, tmp_path: Path) -> None:
    file = tmp_path / "stamped.xml"
    place = (parts.stacks / "udp.xml").as_posix()
    file.write_text(f'<config><include file="{place}"/><stamps.STAMPS/></config>')
    async with mixed_group(parts, "udp") as group:
        java = await group.java("J", connect=False)
        await java.tell("stamp")
        await java.tell("connect", group.cluster)
        python = await group.python("P", stack=file)
        await java.until_view("J", "P")
        await python.channel.send_many([b"%d" % n for n in range(600)])
        await java.until(lambda: len(java.called) >= 600)
        expected = [f"{n} -7 0.5 false Łódź null [97, 98, 99] []" for n in range(600)]
        assert [call["value"] for call in java.called] == expected
        assert {call["who"] for call in java.called} == {"P"}

        for text in ("a", "b"):
            await java.tell("send", "*", "-", text)
        stamps = STAMPS.opened[-1]
        own = stamps.stack.address
        await python.until(lambda: sum(one.who != own for one in stamps.found) >= 2)
        first, second = (one for one in stamps.found if one.who != own)
        assert (first.number, first.big, first.share, first.yes) == (0, 0, 0.25, True)
        assert (first.text, first.note, first.data, first.more) == ("Zürich", None, b"\1\2", None)
        assert (second.number, second.note, second.more) == (1, "n1", b"\3")
        assert first.who == python.address_of(java)
