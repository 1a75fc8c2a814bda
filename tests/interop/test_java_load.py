"""Java and Python members in one group: state, more bytes than credits, lost datagrams, relays."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import trio
from java_parts import JavaParts
from mixed_group import PythonMember, filler, mixed_group

from jgroups_py.driver import FaultFilter
from jgroups_py.tools.commands.mperf_ports import free_block

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]
STACKS = pytest.mark.parametrize("stack", ["udp", "tcp"])


@STACKS
@pytest.mark.parametrize("size", [0, 3_000_000])
async def test_a_state_comes_from_java(parts: JavaParts, stack: str, size: int) -> None:
    async with mixed_group(parts, stack) as group:
        java = await group.java("J")
        await java.tell("provide", size, 5)
        expected = (size, zlib.crc32(filler(0, size, 5)))
        # Members get the state when they join, and later on request, among messages.
        joined = await group.python("P", get_state=True)
        await joined.until(lambda: joined.states == [expected])
        later = await group.python("Q")
        await java.tell("send", "*", "-", "before")
        state = b"".join([part async for part in later.channel.fetch_state(timeout=30)])
        assert (len(state), zlib.crc32(state)) == expected
        await java.tell("send", "*", "-", "after")
        for member in (joined, later):
            await member.until(lambda m=member: "after" in m.texts(java))
        assert joined.texts(java) == ["before", "after"]
        assert later.texts(java)[-1] == "after"


@STACKS
@pytest.mark.parametrize("size", [8, 3_000_000])
async def test_a_state_comes_from_python(parts: JavaParts, stack: str, size: int) -> None:
    async with mixed_group(parts, stack) as group:
        python = await group.python("P")
        python.provided = filler(0, size, 6)
        expected = (size, zlib.crc32(python.provided))
        joined = await group.java("J", connect=False)
        await joined.tell("join-with-state", group.cluster, 30_000)
        await joined.until(lambda: joined.states == [expected])
        later = await group.java("K")
        await python.send("before")
        await later.tell("state", "P", 30_000)
        await later.until(lambda: later.states == [expected])
        await python.send("after")
        for member in (joined, later):
            await member.until(lambda m=member: "after" in m.texts(python))


COUNT, SIZE = 2_000, 10_000  # 20 MB: five times the bytes that udp.xml allows under way


@STACKS
@pytest.mark.parametrize("multicast", [True, False])
async def test_more_than_credits_from_java(parts: JavaParts, stack: str, multicast: bool) -> None:
    async with mixed_group(parts, stack) as group:
        java = await group.java("J")
        python = await group.python("P")
        python.reading = trio.Event()  # it reads the present messages, then stops reading
        await java.tell("quiet", "on")
        await java.start("bulk", "*" if multicast else "P", "-", COUNT, SIZE, 7)
        with trio.move_on_after(1):
            await java.finished()
            pytest.fail("the sender did not wait for a reader that does not read")
        python.reading.set()
        await java.finished()
        await python.until(lambda: len(python.from_(java, multicast=multicast)) >= COUNT)
        crcs = [m.crc for m in python.from_(java, multicast=multicast)]
        assert crcs == [zlib.crc32(filler(n, SIZE, 7)) for n in range(1, COUNT + 1)]


@STACKS
@pytest.mark.parametrize("multicast", [True, False])
async def test_more_than_credits_from_python(parts: JavaParts, stack: str, multicast: bool) -> None:
    # Bundles as large as those of our own tcp.xml. The stack comes from the jar.
    large = {"TCP.bundler.max_size": "256K"} if stack == "tcp" else {}
    async with mixed_group(parts, stack) as group:
        java = await group.java("J")
        python = await group.python("P", attributes=large)
        await java.tell("quiet", "on")
        dest = None if multicast else python.address_of(java)
        with trio.fail_after(60):
            for n in range(1, COUNT + 1):
                await python.channel.send(filler(n, SIZE, 8), dest)
        key = f"P {'*' if multicast else '1'}"
        with trio.fail_after(60):
            while (await java.counted()).get(key, [0])[0] < COUNT:  # noqa: ASYNC110
                await trio.sleep(0.1)
        messages, size, last, out_of_order, wrong = java.counts[key]
        assert (messages, size, last) == (COUNT, COUNT * SIZE, COUNT)
        assert (out_of_order, wrong) == (0, 0)


@pytest.mark.parametrize("multicast", [True, False])
async def test_a_small_buffer_of_python_does_not_make_java_wait(
    parts: JavaParts, multicast: bool
) -> None:
    """Java counts 2.4 MB before it gives credits unasked, and a sender with a small buffer has 0.2 MB under way."""
    small = dict.fromkeys(("UDP.mcast_recv_buf_size", "UDP.ucast_recv_buf_size"), "212992")
    async with mixed_group(parts, "udp") as group:
        java = await group.java("J")
        python = await group.python("P", attributes=small)
        await java.tell("quiet", "on")
        dest = None if multicast else python.address_of(java)
        began = trio.current_time()
        with trio.fail_after(60):
            for n in range(1, COUNT + 1):
                await python.channel.send(filler(n, SIZE, 8), dest)
        counters = python.channel.statistics().protocols["MFC" if multicast else "UFC"]
        assert counters["fitted_credits"] == 212_992
        assert trio.current_time() - began < 10, "it waits once, and then asks at once"
        await java.start("bulk", "*" if multicast else "P", "-", COUNT, SIZE, 7)
        await java.finished()
        await python.until(lambda: len(python.from_(java, multicast=multicast)) >= COUNT)
        crcs = [m.crc for m in python.from_(java, multicast=multicast)]
        assert crcs == [zlib.crc32(filler(n, SIZE, 7)) for n in range(1, COUNT + 1)]


async def test_lost_doubled_and_reordered_datagrams_are_survived(parts: JavaParts) -> None:
    faults = FaultFilter(seed=1)
    async with mixed_group(parts, "udp") as group:
        java = await group.java("J")
        python = await group.python("P", faults=faults)
        other = await group.python("Q")
        await java.until_view("J", "P", "Q")
        faults.loss, faults.duplicate, faults.reorder, faults.jitter = 0.2, 0.1, 0.1, 0.002
        texts = [str(n) for n in range(300)]
        for text in texts:
            await java.tell("send", "*", "-", text)  # one by one: few datagrams could all arrive
            await java.tell("send", "P", "-", text)
            await python.send(text)
            await python.send(text, java)
            await trio.sleep(0.003)
        for member, sender in ((python, java), (java, python)):
            for multicast in (True, False):
                await member.until(
                    lambda m=member, s=sender, c=multicast: len(m.from_(s, multicast=c)) >= 300
                )
                assert member.texts(sender, multicast=multicast) == texts
        await other.until(lambda: len(other.from_(java)) >= 300)
        assert faults.dropped > 20


async def test_datagrams_that_python_sends_get_lost(parts: JavaParts) -> None:
    """Java asks again for Python's messages, because every third datagram never leaves."""

    class Leaky(FaultFilter):
        def sends(self, dest: object) -> bool:
            return self.random.random() >= self.loss_out

        loss_out = 0.0

    faults = Leaky(seed=2)
    async with mixed_group(parts, "udp") as group:
        java = await group.java("J")
        python = await group.python("P", faults=faults)
        await java.until_view("J", "P")
        faults.loss_out = 0.33
        texts = [str(n) for n in range(200)]
        for text in texts:
            await python.send(text)
            await python.send(text, java)
            await trio.sleep(0.003)
        # The number of the last message is sent three times only. If all three are lost, STABLE reports it after up to
        # two minutes.
        faults.loss_out = 0.0
        for multicast in (True, False):
            await java.until(lambda c=multicast: len(java.from_(python, multicast=c)) >= 200)
            assert java.texts(python, multicast=multicast) == texts


async def test_a_java_member_in_a_site_of_python_relays(parts: JavaParts) -> None:
    """Java ignores RELAY's headers: it gets its own site's multicasts, and those of the other site
    from its relay, before and after that relay has left."""
    port = free_block(4)
    bridge = {
        "relay.sites": "NYC,SFO",  # messages for a site that is named wait for its relay
        "relay.primary": "all",
        "relay.bridge.port": str(port),
        "relay.bridge.port_range": "3",
        "relay.bridge.hosts": f"127.0.0.1[{port}]",
    }
    async with mixed_group(parts, "udp") as nyc, mixed_group(parts, "udp") as sfo:
        options: dict[str, Any] = {
            "stack": "relay-udp.xml",
            "properties": {**bridge, "relay.site": "NYC"},
        }
        a = await nyc.python("A", **options)
        b = await nyc.python("B", **options)
        java = await nyc.java("J")
        await java.until_view("A", "B", "J")
        options = {"stack": "relay-udp.xml", "properties": {**bridge, "relay.site": "SFO"}}
        t = await sfo.python("T", **options)

        async def all_of(*senders: PythonMember, count: int) -> None:
            for n in range(count):
                for sender in senders:
                    await sender.send(f"{sender.name}{n}")
            for member in (a, b, java):
                for sender in senders:
                    texts = [f"{sender.name}{n}" for n in range(count)]
                    await member.until(
                        lambda m=member, texts=texts: not set(texts) - {x.text for x in m.messages}
                    )
                    got = [x.text for x in member.messages if x.text in texts]
                    assert got == texts

        await all_of(a, b, t, count=50)
        await java.tell("send", "*", "-", "from java")
        for member in (a, b, java):
            await member.until(lambda m=member: "from java" in m.texts(java))
        await a.leave()
        await java.until_view("B", "J")
        await b.send("still here")
        await t.send("there too")
        for text in ("still here", "there too"):
            await java.until(lambda x=text: x in [m.text for m in java.messages])
