"""The stacks of the package, and JGroups' own if they are installed."""

from pathlib import Path

import pytest

from jgroups_py import ChannelLimits
from jgroups_py.config.detection_time import detection, takeover
from jgroups_py.config.file import shipped_stacks
from jgroups_py.config.settings import (
    Ignored,
    ProtocolConfig,
    StackConfig,
    build,
    build_one,
    load_stack,
)
from jgroups_py.errors import ConfigError
from jgroups_py.protocols import registry

ROOT = Path(__file__).resolve().parents[2]
ORIGINALS = ROOT / "../shared/spec/conf"
needs_originals = pytest.mark.skipif(
    not ORIGINALS.is_dir(), reason="JGroups' own stack files are not at hand"
)

LOADED = [
    "udp",
    "udp-new",
    "udp-default",
    "fast",
    "sequencer",
    "tcp",
    "tcp-new",
    "tcp-default",
    "tcp-nio",
    "tcp-nio-new",
    "nio-default",
    "tcp-low-latency",
    "tunnel",
    "encrypt",
    "sym-encrypt",
    "asym-encrypt",
    "asym-ssl",
    "auth_X509",
    "auth_regex",
    "auth_fixedlist",
    "auth_krb5",
    "fork",
    "relay/bridge-net1-hf",
    "relay/bridge-net1-net2",
    "relay/bridge-net2-net3",
    "relay/hf",
    "relay/net1",
    "relay/net2",
    "relay/net3",
]
NOT_WELL_FORMED = ("comment-test", "jdbc-hsql", "jdbc-mysql", "jdbc-pg")
NOT_STACKS = ("fork-stacks", "relay1", "relay2", "jg-magic-map", "jg-protocol-ids")


def load(name: str | Path) -> StackConfig:
    return load_stack(name, {"relay.site": "NYC"}, environment={})


@pytest.mark.parametrize("name", shipped_stacks())
def test_a_shipped_stack_becomes_typed_settings_and_nothing_in_it_is_ignored(name: str) -> None:
    stack = load(name)
    ignored: list[Ignored] = []
    built = build(stack, ignored=ignored)
    assert len(built) == len(stack.protocols)
    assert [str(item) for item in ignored if item.attribute.key != "bundler.max_size"] == []


def test_a_turn_on_tcp_leaves_in_two_large_packets() -> None:
    """A packet of 64 KB costs more than its share: a connection loses nothing, whatever the size."""
    (_, settings), *_ = build(load("tcp.xml"))
    assert settings.bundler_max_size * 2 >= ChannelLimits().turn_bytes


@pytest.mark.parametrize("name", shipped_stacks())
def test_a_shipped_stack_opens_with_its_users_and_its_cost(name: str) -> None:
    text = (ROOT / "stacks" / name).read_text(encoding="utf-8")
    opening = (
        text.partition("-->")[0] if name.endswith(".xml") else text.partition("\nprotocols")[0]
    )
    assert opening.startswith(("<!--", "# "))
    if name.endswith("-default.xml"):
        assert "to include" in opening
    else:
        assert "For whom:" in opening and "What it costs" in opening


@pytest.mark.parametrize(
    ("name", "crash", "silent"),
    [
        ("udp.xml", "0.075 s", "49.6 s"),
        ("udp.yaml", "0.075 s", "49.6 s"),
        ("tcp.xml", "0.075 s", "46.6 s"),
        ("sim.xml", "0.075 s", "49.6 s"),
        ("relay-udp.xml", "0.075 s", "6.6 s"),
        ("relay-tcp.xml", "0.075 s", "6.6 s"),
        ("relay-bridge-tcp.xml", "0.6 s", "6.6 s"),
        ("relay-bridge-seal.xml", "0.6 s", "6.6 s"),
    ],
)
def test_the_detection_times_in_the_comment_are_those_of_the_settings(
    name: str, crash: str, silent: str
) -> None:
    text = (ROOT / "stacks" / name).read_text(encoding="utf-8")
    assert crash in text and silent in text
    stack = load(name)
    found = detection(build(stack))
    assert f"{found.crash:.3g} s" == crash
    assert f"{found.silent:.3g} s" == silent


@pytest.mark.parametrize("name", ["relay-udp.xml", "relay-tcp.xml"])
def test_relay_stacks_keep_the_default_of_three_buffering_members(name: str) -> None:
    stack = load(name)
    relay = stack.protocols[-1]
    assert relay.name == "RELAY" and relay.get("buffering_members") is None
    assert build(stack)[-1][1].buffering_members == 3


@pytest.mark.parametrize("name", ["relay-udp.xml", "relay-tcp.xml"])
def test_the_take_over_times_in_the_comment_are_those_of_the_settings(name: str) -> None:
    text = " ".join((ROOT / "stacks" / name).read_text(encoding="utf-8").split())
    assert "take-over 1.6 s after a crash, 7.6 s after the relay vanished" in text
    site, bridge = load(name), load("relay-bridge-tcp.xml")
    found = takeover(build(site), build(bridge))
    assert found.crash == pytest.approx(1.6) and found.silent == pytest.approx(7.6)


def test_shipped_stacks_bind_to_loopback_unless_told_otherwise() -> None:
    for name in shipped_stacks():
        transport = load(name).protocols[0]
        if transport.name not in ("SHARED_LOOPBACK", "SEAL"):  # seal.xml is one line of a stack
            assert transport.get("bind_addr") == "127.0.0.1", name
            told = load_stack(name, environment={"JGROUPS_BIND_ADDR": "10.1.2.3"})
            assert told.protocols[0].get("bind_addr") == "10.1.2.3", name


@needs_originals
@pytest.mark.parametrize("name", LOADED)
def test_jgroups_own_file_loads_and_its_attributes_are_understood(name: str) -> None:
    stack = load(ORIGINALS / f"{name}.xml")
    for protocol in stack:
        if not registry.is_built(protocol.name):
            refuse(protocol, "does not have yet")
        elif (protocol.get("auth_class") or "").endswith("Krb5Token"):
            refuse(protocol, "auth_class must be one of FixedMembershipToken, RegexMembership, X5")
        elif protocol.get("asym_keylength") == "512":
            refuse(protocol, "asym_keylength must be within 1024..8192, got 512")
        else:
            build_one(protocol)


def refuse(protocol: ProtocolConfig, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        build_one(protocol)
    assert caught.value.line in (protocol.line, *(a.line for a in protocol.attributes))


@needs_originals
@pytest.mark.parametrize("name", ["udp", "tcp"])
def test_jgroups_udp_and_tcp_become_whole_stacks(name: str) -> None:
    stack = load(ORIGINALS / f"{name}.xml")
    assert len(build(stack)) == len(stack.protocols)


@needs_originals
@pytest.mark.parametrize("name", NOT_WELL_FORMED)
def test_a_file_that_is_not_well_formed_is_refused_with_place_and_cure(name: str) -> None:
    with pytest.raises(ConfigError, match=r"\.xml:\d+:\d+: not well-formed XML: .*inside a tag"):
        load(ORIGINALS / f"{name}.xml")


@needs_originals
@pytest.mark.parametrize("name", NOT_STACKS)
def test_a_file_that_is_no_stack_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a stack file: its root is"):
        load(ORIGINALS / f"{name}.xml")
