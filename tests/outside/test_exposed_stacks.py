"""No group is opened to the network by accident: a stack whose messages would leave the machine unencrypted is
refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import MemoryNetwork, open_channel
from jgroups_py.channel.open import configure
from jgroups_py.config.file import load_stack, shipped_stacks
from jgroups_py.errors import ConfigError
from jgroups_py.tools import cli

WIDE = "203.0.113.7"
"""An address for documentation: no machine uses it."""
STACK = """<config>
  <TCP bind_addr="{host}" bind_port="7800"{more}/>
  <TCPPING initial_hosts="203.0.113.8[7800]"/>
  <FD_SOCK2/><FD_ALL3/><VERIFY_SUSPECT2/><MERGE3/>
  {door}
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS/>
  {relay}
</config>"""
ENCRYPT = '<SYM_ENCRYPT secret_key="00112233445566778899aabbccddeeff"/>'
RELAY = (
    '<RELAY site="A" bridge="relay-bridge-tcp.xml" bridge_properties="relay.bridge.bind_addr={}"/>'
)


def stack(folder: Path, host: str = WIDE, more: str = "", door: str = "", relay: str = "") -> str:
    file = folder / "mine.xml"
    file.write_text(STACK.format(host=host, more=more, door=door, relay=relay))
    return str(file)


def test_clear_messages_that_leave_the_machine_are_refused_with_advice(tmp_path: Path) -> None:
    file = stack(tmp_path)

    async def run() -> None:
        async with open_channel(file, cluster="shop"):
            pytest.fail("it opened")

    with pytest.raises(ConfigError) as caught:
        trio.run(run)
    assert str(caught.value) == (
        f"{file}:2:8: TCP.bind_addr: others could read and forge what members send from {WIDE}, because "
        'nothing encrypts it: add SEAL or SYM_ENCRYPT to the stack, or insecure="true" to TCP if everybody in that '
        "network is trusted (JGROUPS_INSECURE=true does it in shipped stacks)"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"more": ' insecure="true"'},
        {"door": ENCRYPT},
        {"host": "127.0.0.1"},
        {"host": "loopback"},
        {"host": "::1"},
    ],
    ids=["insecure", "encrypted", "loopback", "word", "ipv6"],
)
def test_a_stack_that_says_so_or_encrypts_or_stays_here_is_taken(
    tmp_path: Path, given: dict[str, str]
) -> None:
    config, _ = configure(stack(tmp_path, **given))
    assert config.protocols[0].short_name == "TCP"


def test_an_address_that_is_given_at_the_call_counts_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing encrypts it"):
        configure(stack(tmp_path, host="127.0.0.1"), bind_addr=WIDE)


def test_the_bridge_of_relay_is_looked_at_too(tmp_path: Path) -> None:
    configure(stack(tmp_path, "127.0.0.1", relay=RELAY.format("127.0.0.1")))
    wide = stack(tmp_path, "127.0.0.1", door=ENCRYPT, relay=RELAY.format(WIDE))
    with pytest.raises(ConfigError, match=r"relay-bridge-tcp\.xml:.*nothing encrypts it"):
        configure(wide)
    said = RELAY.format(f"{WIDE};relay.bridge.insecure=true")
    configure(stack(tmp_path, "127.0.0.1", relay=said))


def test_a_network_in_memory_needs_nothing(tmp_path: Path) -> None:
    file = stack(tmp_path)

    async def run() -> None:
        async with open_channel(file, cluster="shop", transport=MemoryNetwork()) as channel:
            assert len(channel.view) == 1

    trio.run(run, clock=MockClock(autojump_threshold=0))


NEEDED = {
    "RELAY_SITE": "A",
    "JGROUPS_FILE_LOCATION": "members",
    "JGROUPS_GOSSIP_HOSTS": "router[12001]",
    "JGROUPS_DNS_QUERY": "members",
    "JGROUPS_JDBC_URL": "jdbc:sqlite:members",
}
"""Variables that some of the shipped stacks need."""
SHIPPED = [
    name
    for name in shipped_stacks()
    if load_stack(name, environment={}).protocols[0].short_name in ("UDP", "TCP")
    and not any(p.short_name == "SEAL" for p in load_stack(name, environment={}).protocols)
    and "-default" not in name
]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_stack_is_opened_wide_only_if_the_environment_says_so(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, text in NEEDED.items():
        monkeypatch.setenv(variable, text)
    monkeypatch.setenv("JGROUPS_BIND_ADDR", WIDE)
    with pytest.raises(ConfigError, match="nothing encrypts it"):
        configure(name)
    monkeypatch.setenv("JGROUPS_INSECURE", "true")
    configure(name)
    monkeypatch.delenv("JGROUPS_INSECURE")
    monkeypatch.delenv("JGROUPS_BIND_ADDR")
    configure(name)


def test_validate_ends_with_1_and_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["validate", stack(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "in clear" in shown.out
    assert "no channel opens with it: " in shown.err
    assert 'insecure="true" to TCP' in shown.err
    assert cli.run(["validate", stack(tmp_path, door=ENCRYPT)]) == 0
