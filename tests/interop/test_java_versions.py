"""Members of the minor version of JGroups before ours: every packet has their version number, and there are few other
differences."""

from __future__ import annotations

from typing import Any

import pytest
from java_parts import JavaParts
from mixed_group import Group, filler, mixed_group

# Python's own stack files: tcp.xml of 5.4 has NON_BLOCKING_SENDS, which is not built.

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

REFUSED = "JGRP000010|different version|version mismatch"
"""The line that a Java member logs at the first packets of another version."""


async def talk(group: Group, **options: Any) -> None:
    java = await group.java("J")
    python = await group.python("P", stack=f"{group.stack}.xml", **options)
    other = await group.java("K")
    for member in (java, python, other):
        await member.until_view("J", "P", "K")
    await python.send("from P")
    await java.tell("send", "*", "-", "from J")
    await python.send("to J", java)
    await other.tell("send", "P", "-", "to P")
    await java.until(lambda: "from P" in java.texts(python))
    await java.until(lambda: "to J" in java.texts(python, multicast=False))
    await python.until(lambda: "from J" in python.texts(java))
    await python.until(lambda: "to P" in python.texts(other, multicast=False))
    size = 200_000
    await java.tell("provide", size, 1)
    state = b"".join([part async for part in python.channel.fetch_state(timeout=30)])
    assert state == filler(0, size, 1)
    java.kill()
    await python.until_view("P", "K")
    await other.until_view("P", "K")
    assert python.members[0] == "P"


@pytest.mark.parametrize("stack", ["udp", "tcp"])
async def test_the_version_is_reported(older_parts: JavaParts, stack: str) -> None:
    async with mixed_group(
        older_parts, stack, allowed=["failed sending graceful close", "JGRP000010"]
    ) as group:
        await talk(group, attributes={f"{stack.upper()}.version": "5.4"})


@pytest.mark.parametrize("stack", ["udp", "tcp"])
async def test_the_version_is_learnt(older_parts: JavaParts, stack: str) -> None:
    quick = {"MERGE3.min_interval": "200", "MERGE3.max_interval": "400"}
    async with mixed_group(older_parts, stack, quick, allowed=[REFUSED]) as group:
        await talk(group)
