"""Java and Python members in one group: joining, messages of all sizes and kinds, in both directions."""

from __future__ import annotations

import zlib

import pytest
from java_parts import JavaParts
from mixed_group import filler, mixed_group

from jgroups_py import Flag

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]
STACKS = pytest.mark.parametrize("stack", ["udp", "tcp"])


@STACKS
@pytest.mark.parametrize("first", ["java", "python"])
async def test_messages_both_ways(parts: JavaParts, stack: str, first: str) -> None:
    async with mixed_group(parts, stack) as group:
        if first == "java":
            java = await group.java("J")
            python = await group.python("P")
        else:
            python = await group.python("P")
            java = await group.java("J")
        order = ("J", "P") if first == "java" else ("P", "J")
        await java.until_view("J", "P")
        await python.until_view("J", "P")
        assert python.views[-1] == java.views[-1]
        assert python.members == order

        numbers = [str(i) for i in range(100)]
        for i in numbers:
            await python.send(i)
            await java.start("send", "*", "-", i)
        await java.finished()
        for member in (java, python):
            for sender in (java, python):
                await member.until(lambda m=member, s=sender: len(m.from_(s)) >= 100)
                assert member.texts(sender) == numbers

        for i in numbers:
            await python.send(i, java)
            await java.start("send", "P", "-", i)
        await java.finished()
        await java.until(lambda: len(java.from_(python, multicast=False)) >= 100)
        await python.until(lambda: len(python.from_(java, multicast=False)) >= 100)
        assert java.texts(python, multicast=False) == numbers
        assert python.texts(java, multicast=False) == numbers


@STACKS
async def test_large_empty_and_out_of_band_messages_arrive(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack) as group:
        java = await group.java("J")
        python = await group.python("P")
        await java.until_view("J", "P")
        # Three sizes: one byte more than a fragment, an exact multiple, many fragments.
        for size in (60_001, 120_000, 1_000_000):
            await python.channel.send(filler(1, size, 3))
            await java.tell("bulk", "*", "-", 1, size, 3)
            await python.channel.send(filler(1, size, 3), python.address_of(java))
            await java.tell("bulk", "P", "-", 1, size, 3)
        await python.channel.send(b"")
        await java.tell("empty", "*", "-")
        await python.send("oob", flags=Flag.OOB)
        await python.send("oob", java, flags=Flag.OOB | Flag.DONT_BUNDLE)
        await java.tell("send", "*", "OOB", "oob")
        await java.tell("send", "P", "OOB,DONT_BUNDLE", "oob")
        for multicast in (True, False):
            expected = [(s, zlib.crc32(filler(1, s, 3))) for s in (60_001, 120_000, 1_000_000)]
            expected += [(3, zlib.crc32(b"oob"))] + ([(0, 0)] if multicast else [])
            for member, sender in ((java, python), (python, java)):
                await member.until(
                    lambda m=member, s=sender, e=expected, c=multicast: (
                        len(m.from_(s, multicast=c)) >= len(e)
                    )
                )
                got = [(m.size, m.crc) for m in member.from_(sender, multicast=multicast)]
                assert sorted(got) == sorted(expected)


@STACKS
async def test_the_sender_can_leave_itself_out(parts: JavaParts, stack: str) -> None:
    async with mixed_group(parts, stack) as group:
        java = await group.java("J")
        python = await group.python("P")
        await java.until_view("J", "P")
        await python.send("p", loopback=False)
        await java.tell("send", "*", "DONT_LOOPBACK", "j")
        await python.send("end")
        await java.tell("send", "*", "-", "end")
        for member in (java, python):
            for sender in (java, python):
                await member.until(lambda m=member, s=sender: "end" in m.texts(s))
        assert java.texts(python) == ["p", "end"] and java.texts(java) == ["end"]
        assert python.texts(java) == ["j", "end"] and python.texts(python) == ["end"]


KINDS = 8  # messages that Peer.java's "kinds" sends


@STACKS
@pytest.mark.parametrize("size", [50, 150_000])
async def test_every_class_of_message_arrives(parts: JavaParts, stack: str, size: int) -> None:
    """Python hands all of them up as bytes, in order; decoding is left to the program."""
    async with mixed_group(parts, stack) as group:
        java = await group.java("J")
        python = await group.python("P")
        await java.until_view("J", "P")
        for dest, multicast in (("*", True), ("P", False)):
            await java.tell("kinds", dest, size)
            await java.tell("send", dest, "-", "end")
            await python.until(lambda c=multicast: "end" in python.texts(java, multicast=c))
            got = python.from_(java, multicast=multicast)
            assert len(got) == KINDS + 1
            crc = zlib.crc32(filler(1, size, 9))
            assert [(m.size, m.crc) for m in got[:3]] == [(size, crc)] * 3
            assert got[3].size >= size and got[4].size >= size
            assert [m.size for m in got[7:]] == [0, 3]
