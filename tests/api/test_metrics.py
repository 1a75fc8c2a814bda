"""The page of a member for Prometheus, without its port."""

from __future__ import annotations

import math
import sys

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families

from jgroups_py import Channel, ConfigError, MemoryNetwork, Message, open_channel
from jgroups_py.channel import metrics
from jgroups_py.channel.metrics import Sample, metric_name, metrics_of, page_of, samples_of


def read(page: bytes) -> dict[tuple[str, ...], float]:
    """Return name and labels with their values, as Prometheus' own parser reads them."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


async def until_read(channel: Channel) -> None:
    with trio.fail_after(30):
        async for item in channel:
            if isinstance(item, Message):
                return


async def test_a_page_has_the_view_the_channel_the_driver_and_every_protocol(
    autojump_clock: trio.testing.MockClock,
) -> None:
    network = MemoryNetwork()
    async with (
        open_channel("sim.xml", cluster="demo", name="A", transport=network) as a,
        open_channel("sim.xml", cluster="demo", name="B", transport=network) as b,
    ):
        await a.wait_view(2)
        await a.send(b"x" * 10)
        await until_read(a)
        numbers, others = read(page_of(samples_of(a))), read(page_of(samples_of(b)))
        assert numbers["jgroups_view_members", "demo", "A"] == 2
        assert numbers["jgroups_view_id", "demo", "A"] == 1
        assert numbers["jgroups_coordinator", "demo", "A"] == 1
        assert others["jgroups_coordinator", "demo", "B"] == 0
        assert numbers["jgroups_channel_sent_bytes", "demo", "A"] == 10
        assert ("jgroups_lags_total", "demo", "A") in numbers
        told = a.statistics()
        for protocol, counters in told.protocols.items():
            for name, value in counters.items():
                key = metric_name(protocol.rpartition(".")[2], name), "demo", "A"
                if not name.startswith(("bytes", "packets", "messages")):
                    assert numbers[key] == value, key


async def test_packets_that_were_turned_away_have_their_cause_as_a_label() -> None:
    async with open_channel(
        "sim.xml", cluster="demo", name="A", transport=MemoryNetwork()
    ) as channel:
        channel.turn_away("Door", "closed", causes={"closed": "it is closed"})
        numbers = read(page_of(samples_of(channel)))
        assert numbers["jgroups_turned_away", "Door.closed", "demo", "A"] == 1


async def test_the_bridge_of_relay_is_another_cluster_of_the_member(
    autojump_clock: trio.testing.MockClock,
) -> None:
    properties = {"relay.site": "NYC", "relay.bridge.hosts": "127.0.0.1[7950],127.0.0.1[7951]"}
    async with open_channel(
        "relay-udp.xml", cluster="NYC", name="A", transport=MemoryNetwork(), properties=properties
    ) as channel:
        with trio.fail_after(60):
            while not channel.stack.children:  # noqa: ASYNC110 - virtual time
                await trio.sleep(0.1)
        (bridge,) = channel.stack.children
        found = {(s.name, s.cluster, s.member) for s in samples_of(channel)}
        assert bridge.cluster != "NYC"
        assert ("jgroups_tcp_connections", bridge.cluster, "A") in found


def test_names_of_others_cannot_break_a_page() -> None:
    evil = 'A"} 1\n# HELP x\njgroups_fake 7\x1b\\'
    page = page_of([Sample("demo", evil, "jgroups_real", 1.5)])
    ((name, cluster, member),) = read(page)
    assert (name, cluster) == ("jgroups_real", "demo")
    assert member == 'A"} 1\ufffd# HELP x\ufffdjgroups_fake 7\ufffd\\'


def test_a_page_takes_no_more_samples_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SAMPLES_MAX", 3)
    page = page_of(Sample("demo", str(n), "jgroups_n", math.nan) for n in range(10))
    assert len(read(page)) == 3


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("NAKACK2", "xmit_requests"), "jgroups_nakack2_xmit_requests"),
        (("UNICAST3", "a.b-c"), "jgroups_unicast3_a_b_c"),
        (("\n{}", "é"), "jgroups_"),
    ],
)
def test_a_name_has_only_signs_that_prometheus_takes(parts: tuple[str, ...], name: str) -> None:
    assert metric_name(*parts) == name


async def test_without_prometheus_client_one_line_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'jgroups_py\[metrics\]'"):
        async with open_channel("sim.xml", cluster="demo", transport=MemoryNetwork(), metrics="0"):
            pass


def test_the_environment_names_a_port_unless_one_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert metrics_of(None) is None
    monkeypatch.setenv("JGROUPS_METRICS", "9404-9410")
    assert metrics_of(None) == "9404-9410"
    assert metrics_of(0) == 0
    for wrong in (True, 1.5, b"9404"):
        with pytest.raises(TypeError, match=r"metrics is a port or HOST:PORT, got"):
            metrics_of(wrong)  # type: ignore[arg-type]
