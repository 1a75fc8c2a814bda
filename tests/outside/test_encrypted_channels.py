"""A stranger without the key, with real sockets, can neither join nor read, and its packets are counted."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from jgroups_py import Message, TurnedAway, open_channel
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = pytest.mark.sockets
STACK = """<config>
  <UDP mcast_port="{port}"/><PING/>
  {door}
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS join_timeout="{wait}" max_join_attempts="2"/>
  <UFC/><MFC/><FRAG2/>
</config>"""
KEY, OTHER = "00112233445566778899aabbccddeeff", "ffeeddccbbaa99887766554433221100"


@pytest.mark.parametrize(
    ("door", "cause"),
    [
        ("", "unencrypted"),
        (f'<SYM_ENCRYPT secret_key="{OTHER}"/>', "unknown_key"),
    ],
    ids=["no-door", "another-key"],
)
async def test_a_stranger_does_not_join_and_is_counted(
    tmp_path: Path, door: str, cause: str
) -> None:
    port = free_block(1)
    ours, theirs = tmp_path / "ours.xml", tmp_path / "theirs.xml"
    # B must find A, also when a busy machine does not run this process for a second.
    ours.write_text(STACK.format(port=port, door=f'<SYM_ENCRYPT secret_key="{KEY}"/>', wait="20s"))
    theirs.write_text(STACK.format(port=port, door=door, wait="500ms"))
    told: list[TurnedAway] = []
    got: list[bytes] = []
    with trio.fail_after(60):
        async with (
            open_channel(ours, cluster="locked", name="A", turned_away=told.append) as a,
            open_channel(ours, cluster="locked", name="B") as b,
            open_channel(theirs, cluster="locked", name="S") as stranger,
        ):
            await a.wait_members(["A", "B"])
            assert len(stranger.view.members) == 1
            await stranger.send(b"forged")
            await b.send(b"genuine")
            async for item in a:
                if isinstance(item, Message):
                    got.append(item.payload)
                    break
            assert got == [b"genuine"]
            while not a.statistics().turned_away.get(f"SYM_ENCRYPT.{cause}"):  # noqa: ASYNC110
                await trio.sleep(0.02)  # the genuine message may overtake the forged one
            assert a.view.members == b.view.members
    assert told[0].cause == cause and told[0].by == "SYM_ENCRYPT"
