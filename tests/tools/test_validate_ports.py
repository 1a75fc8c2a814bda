"""``jgroups-py validate``: ports, rules for a firewall, traffic in clear, and bounds on times."""

import json
from pathlib import Path

import pytest

from jgroups_py.tools import cli

TCP = """<config>
  <TCP bind_addr="${host:127.0.0.1}" insecure="${insecure:true}" bind_port="7800" port_range="2"/>
  <TCPPING initial_hosts="10.0.0.9[7800]" port_range="1"/>
  <FD_SOCK2/>
  <FD_ALL3 timeout="4s" interval="1s"/>
  <VERIFY_SUSPECT2 timeout="500ms"/>
  <MERGE3/>
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS join_timeout="1s"/>
</config>
"""


@pytest.fixture
def stack(tmp_path: Path) -> str:
    path = tmp_path / "mine.xml"
    path.write_text(TCP)
    return str(path)


def test_json_has_ports_and_traffic(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["validate", "--json", stack, "-D", "host=10.0.0.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ports"][0] == {
        "protocol": "TCP",
        "proto": "tcp",
        "way": "in",
        "first": 7800,
        "last": 7802,
        "address": "10.0.0.5",
        "bound": "10.0.0.5",
        "multicast": False,
        "loopback_only": False,
        "carries": ["messages", "headers", "discovery"],
        "why": "from members",
        "fix_with": None,
    }
    assert found["traffic"][0] == {
        "protocol": "TCP",
        "traffic": "messages",
        "holds": "what applications and caches send",
        "protected_by": [],
        "in_clear": True,
        "loopback_only": False,
    }
    assert found["bridge"] is None


def test_the_table_is_for_people(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["validate", stack]) == 0
    out = capsys.readouterr().out
    assert "  TCP       in   tcp  7800-7802  127.0.0.1  from members\n" in out
    assert "  TCPPING   out  tcp  7800-7801  10.0.0.9   to hosts of initial_hosts" in out
    assert "  TCP       messages           in clear  loopback only\n" in out


def test_the_firewall_lets_members_in_and_out(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["validate", "--firewall", stack, "-D", "host=10.0.0.5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "# chain input",
        "ip saddr @members ip daddr 10.0.0.5 tcp dport 7800-7802 accept"
        ' comment "mine.xml TCP: from members"',
        "ip saddr @members ip daddr 10.0.0.5 tcp dport 7900-7905 accept"
        ' comment "mine.xml FD_SOCK2: from members"',
        "# chain output",
        'ip daddr @members tcp dport 7800-7802 accept comment "mine.xml TCP: to members"',
        "ip daddr 10.0.0.9 tcp dport 7800-7801 accept"
        ' comment "mine.xml TCPPING: to hosts of initial_hosts, over the transport"',
        'ip daddr @members tcp dport 7900-7905 accept comment "mine.xml FD_SOCK2: to members"',
    ]


def test_loopback_needs_no_rule(stack: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["validate", "--firewall", stack]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1] == "# loopback only, no rule needed: mine.xml TCP: from members"
    assert all(line.startswith("#") for line in out)


def test_a_multicast_group_and_any_port_have_rules(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "validate",
        "--firewall",
        "udp.xml",
        "-D",
        "jgroups.bind_addr=10.0.0.5",
        "-D",
        "jgroups.insecure=true",
    ]
    assert cli.run(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert "# any port: UDP.bind_port fixes it (udp.xml UDP: from members)" in out
    assert (
        "ip saddr @members ip daddr 239.8.8.8 udp dport 45588 accept"
        ' comment "udp.xml UDP: multicasts of members"' in out
    )
    assert 'ip protocol igmp accept comment "udp.xml UDP: joins the group"' in out


def test_ipv6_has_rules_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "validate",
        "--firewall",
        "tcp.xml",
        "-D",
        "jgroups.bind_addr=2001:db8::5",
        "-D",
        "jgroups.insecure=true",
    ]
    assert cli.run(arguments) == 0
    assert (
        "ip6 saddr @members6 ip6 daddr 2001:db8::5 tcp dport 7800-7810 accept"
        in capsys.readouterr().out
    )


RELAY = ["validate", "relay-udp.xml", "-D", "relay.site=NYC"]


def test_ports_of_the_bridge_follow_its_attributes(capsys: pytest.CaptureFixture[str]) -> None:
    attributes = "RELAY.bridge_attributes=TCP.bind_port=9000;TCP.port_range=1"
    assert cli.run([*RELAY, "--set", attributes, "--json"]) == 0
    bridge = json.loads(capsys.readouterr().out)["bridge"]
    assert bridge["stack"] == "relay-bridge-tcp.xml"
    first = bridge["ports"][0]
    assert (first["protocol"], first["first"], first["last"]) == ("TCP", 9000, 9001)


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (["detection<=6.6s"], 0, ""),
        (["detection.crash<=75ms", "take-over<=30s", "takeover.crash<=1.6s"], 0, ""),
        (
            ["detection<=6s"],
            1,
            "relay-udp.xml: detection<=6s does not hold: worst-case detection after a silent failure "
            "(a pause, a lost host) is 6.6s (lower FD_ALL3.timeout, FD_ALL3.interval or "
            "VERIFY_SUSPECT2.timeout)\n",
        ),
        (
            ["detection.crash < 75ms", "take-over.silent<=9s"],
            1,
            "relay-udp.xml: detection.crash < 75ms does not hold: worst-case detection after a crash "
            "is 75ms (lower VERIFY_SUSPECT2.gone_timeout or VERIFY_SUSPECT2.timeout)\n",
        ),
    ],
)
def test_a_required_time_is_held_or_the_sentence_says_why_not(
    wanted: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [part for text in wanted for part in ("--require", text)]
    assert cli.run([*RELAY, *arguments]) == code
    assert capsys.readouterr().err == words


def test_a_missing_value_fulfils_no_condition(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["validate", stack, "--require", "take-over<=1h"]) == 1
    assert "take-over<=1h does not hold: the stack has no RELAY" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["detection", "detection<=10", "detection>=1s", "speed<=1s", "detection.slow<=1s"]
)
def test_a_wrong_requirement_is_wrong_usage(
    text: str, stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["validate", stack, "--require", text]) == 2
    assert text in capsys.readouterr().err


def test_outputs_that_exclude_each_other_are_refused(stack: str) -> None:
    assert cli.run(["validate", stack, "--firewall", "--json"]) == 2
    assert cli.run(["validate", stack, "--as", "yaml", "--firewall"]) == 2
    assert cli.run(["validate", stack, "--as", "yaml", "--require", "detection<=1s"]) == 2


def test_payloads_are_not_in_clear_below_sym_encrypt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "00112233445566778899aabbccddeeff"
    path = tmp_path / "mine.xml"
    path.write_text(
        TCP.replace("<pbcast.NAKACK2/>", f'<SYM_ENCRYPT secret_key="{key}"/><pbcast.NAKACK2/>')
    )
    assert cli.run(["validate", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert key not in text
    messages, headers = json.loads(text)["traffic"][:2]
    assert messages["protected_by"][0].startswith("SYM_ENCRYPT (AES")
    assert not messages["in_clear"]
    assert headers["in_clear"]
