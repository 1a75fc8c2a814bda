"""Names of members, sites and clusters are texts of others: they end no line of a log and send no control sequences to
a terminal."""

from __future__ import annotations

import logging

import pytest

from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.relay.config import RelayConfig
from jgroups_py.protocols.relay.wire import Have, decode_bridged, encode
from jgroups_py.testing.sim import World
from jgroups_py.values.address import SiteUUID

EVIL = "B\x1b[2J\x1b[31mroot\n2026-01-01 ERROR all is lost\u202e"


def test_a_member_with_a_name_of_control_characters_writes_no_line_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    world = World(1)
    a = world.start("A", "udp.xml", "demo")
    b = world.start(EVIL, "udp.xml", "demo")
    assert world.run_until(lambda: world.views_agree([a, b]), limit=30)
    b.crash()
    world.run_for(60)
    told = a.stack.name_of(b.address)
    assert told.startswith("B\N{REPLACEMENT CHARACTER}[2J") and told.isprintable()
    at_a = [record.getMessage() for record in caplog.records if record.getMessage().startswith("A")]
    assert not any("\n" in line or "\x1b" in line or "\u202e" in line for line in at_a)


def test_the_address_of_another_sites_member_is_shown_in_one_line() -> None:
    assert str(SiteUUID(bytes(16), "M\nall", "NYC\x1b[2J")).isprintable()


def test_a_record_of_the_bridge_with_a_site_of_control_characters_is_refused() -> None:
    good = Have(1, "NYC é", (0, "NYC"), {})
    assert decode_bridged(encode(good)) == good
    with pytest.raises(RemoteProtocolError):
        decode_bridged(encode(Have(1, EVIL, (0, "NYC"), {})))


def test_a_site_of_control_characters_is_refused_in_the_stack_file() -> None:
    with pytest.raises(ConfigError, match="site must be printable text"):
        RelayConfig(site="NYC\n", bridge="bridge.xml")
