"""``jgroups-py doctor``: its checks, their judgement, and the reasons why a member meets no other."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from jgroups_py import MemoryNetwork, open_channel
from jgroups_py.channel.open import configure
from jgroups_py.driver import probes
from jgroups_py.driver.probes import Buffer, ClockProbe, Device, EchoProbe, Ports
from jgroups_py.stack.exposure import PortUse
from jgroups_py.stack.services import build_whole
from jgroups_py.tools import cli
from jgroups_py.tools.commands import doctor_checks as checks
from jgroups_py.tools.commands.doctor_join import try_to_join

STACK = """<config>
  {transport}<MERGE3 min_interval="10s" max_interval="30s"/><FD_ALL3 timeout="40s" interval="8s"/>
  {door}
  <pbcast.NAKACK2/><UNICAST3/><pbcast.STABLE/><pbcast.GMS join_timeout="1s"/>
  <UFC/><MFC/><FRAG2/>
</config>"""
UDP = "<UDP/><PING/>"
TCP = '<TCP bind_port="7800"/><TCPPING initial_hosts="127.0.0.1[7800]"/>'
KEY = '<SYM_ENCRYPT secret_key="00112233445566778899aabbccddeeff"/>'
OTHER = '<SYM_ENCRYPT secret_key="ffeeddccbbaa99887766554433221100"/>'
USE = PortUse("tcp", "in", 7800, 7802, "127.0.0.1", "127.0.0.1", (), "from members", "", "", "TCP")


# --- reasons why a member meets no other one, in virtual time


def diagnose(
    folder: Path,
    theirs: str,
    ours: str,
    cluster: str = "shop",
    version: str | None = None,
    listening: tuple[str, ...] = (),
) -> checks.DoctorFinding:
    """Two members have a group with the stack ``theirs``; the doctor joins with ``ours``."""
    there, here = folder / "theirs.xml", folder / "ours.xml"
    there.write_text(theirs)
    here.write_text(ours)
    old = {} if version is None else {"UDP.version": version, "UDP.max_version_changes": "0"}
    network = MemoryNetwork()
    fresh = {} if version is None else {"UDP.max_version_changes": "0"}

    async def run() -> checks.DoctorFinding:
        async with (
            open_channel(there, cluster="shop", name="A", transport=network, attributes=old) as a,
            open_channel(there, cluster="shop", name="B", transport=network, attributes=old),
        ):
            await a.wait_members(["A", "B"])
            built = build_whole(configure(here)[0])
            found = await try_to_join(
                str(here),
                built,
                cluster,
                "doctor",
                15,
                transport=network,
                attributes=fresh,
                listening=listening,
            )
            await a.wait_members(["A", "B"])
            return found

    return trio.run(run, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("transport", [UDP, TCP], ids=["udp", "tcp"])
def test_a_member_that_can_join_does_and_leaves(tmp_path: Path, transport: str) -> None:
    stack = STACK.format(transport=transport, door=KEY)
    found = diagnose(tmp_path, stack, stack)
    assert found.state == "ok"
    assert found.facts["members"] == ["A", "B", "doctor"]
    assert "met A, B" in found.text


@pytest.mark.parametrize("transport", [UDP, TCP], ids=["udp", "tcp"])
@pytest.mark.parametrize(
    ("theirs", "ours", "words"),
    [
        (KEY, OTHER, "do the key and the settings of SYM_ENCRYPT agree at all members?"),
        (KEY, "", "this stack encrypts nothing: do the others demand a key?"),
        ("", KEY, "because it came without the header of this protocol"),
    ],
    ids=["another-key", "no-key", "they-have-none"],
)
def test_another_key_is_the_reason(
    tmp_path: Path, transport: str, theirs: str, ours: str, words: str
) -> None:
    found = diagnose(
        tmp_path,
        STACK.format(transport=transport, door=theirs),
        STACK.format(transport=transport, door=ours),
    )
    assert found.state == "failed"
    assert "A was asked" in found.text
    assert words in found.text
    assert "00112233" not in found.text + str(found.facts)


def test_another_cluster_name_is_the_reason(tmp_path: Path) -> None:
    stack = STACK.format(transport=UDP, door="")
    found = diagnose(tmp_path, stack, stack, cluster="Shop")
    assert found.state == "failed"
    assert 'members of cluster "shop" are heard here: is "Shop" the right name?' in found.text


def test_another_version_is_the_reason(tmp_path: Path) -> None:
    stack = STACK.format(transport=UDP, door="")
    # A higher version: a lower one is adopted if it is heard before the first view, which depends on chance.
    found = diagnose(tmp_path, stack, stack, version="5.6")
    assert found.state == "failed"
    assert "packets of version 5.6.0 come here, and this member speaks 5.5" in found.text


def test_with_tcp_a_silent_listener_is_a_reason(tmp_path: Path) -> None:
    stack = STACK.format(transport=TCP, door="")
    at = ("127.0.0.1[7800]",)
    found = diagnose(tmp_path, stack, stack, cluster="Shop", listening=at)
    assert found.state == "failed"
    assert 'somebody listens at 127.0.0.1[7800], and no member of "Shop" answered' in found.text


def test_hearing_nobody_is_a_warning_because_the_first_member_is_alone_too(tmp_path: Path) -> None:
    stack = STACK.format(transport=TCP, door="")
    found = diagnose(tmp_path, stack, stack, cluster="Shop")
    assert (found.state, found.facts["reasons"]) == ("warning", [])


# --- judgement of facts


def test_an_address_that_no_interface_has_fails() -> None:
    found = checks.judge_interface("203.0.113.7", None)
    assert found.state == "failed"
    assert "203.0.113.7; this machine has" in found.text


def test_an_interface_that_is_down_fails_and_loopback_is_a_warning() -> None:
    assert checks.judge_interface("10.0.0.5", Device("eth0", 1500, False)).state == "failed"
    assert checks.judge_interface("10.0.0.5", Device("eth0", 1500, True)).state == "ok"
    assert checks.judge_interface("127.0.0.1", Device("lo", 65536, True)).state == "warning"


def test_a_range_with_a_free_port_is_fine_and_one_without_fails() -> None:
    found = checks.judge_ports(USE, Ports((7801,), (7800, 7802)))
    assert found.state == "ok"
    assert found.text == "TCP can listen on tcp port 7801; 7800, 7802 is in use by others"
    found = checks.judge_ports(USE, Ports((), (7800, 7801, 7802), "they are taken"))
    assert (found.state, found.text) == ("failed", "TCP cannot listen: they are taken")


def test_a_multicast_that_does_not_come_back_fails() -> None:
    group = ("239.8.8.8", 45588)
    silent = checks.judge_multicast("UDP", group, "10.0.0.5", EchoProbe(64, False), "")
    assert silent.state == "failed"
    assert "nothing came back within 2s" in silent.text
    assert "tcp.xml" in silent.text
    assert checks.judge_multicast("UDP", group, "10.0.0.5", EchoProbe(64, True), "").state == "ok"
    assert (
        checks.judge_multicast("UDP", group, "10.0.0.5", EchoProbe(64, True), "x").state == "failed"
    )


def test_a_large_datagram_is_told_with_its_fragments() -> None:
    found = checks.judge_mtu("UDP", "10.0.0.5", 1500, EchoProbe(64_000, True))
    assert (found.state, found.facts["fragments"]) == ("ok", 44)
    assert "as 44 fragments of an MTU of 1500" in found.text
    assert checks.judge_mtu("UDP", "10.0.0.5", 1500, EchoProbe(64_000, False)).state == "failed"


def test_fragments_are_as_many_as_ip_makes() -> None:
    """Each fragment but the last holds a multiple of eight bytes, including the eight of UDP's header in the first."""
    assert probes.fragments(1472, 1500, "10.0.0.5") == 1
    assert probes.fragments(1473, 1500, "10.0.0.5") == 2
    assert probes.fragments(2952, 1500, "10.0.0.5") == 2
    assert probes.fragments(2953, 1500, "10.0.0.5") == 3


def test_a_buffer_that_is_not_granted_is_told_with_the_setting() -> None:
    granted = [Buffer("sending", 100, 100), Buffer("receiving", 5_000_000, 212_992)]
    found = checks.judge_buffers("UDP", granted)
    assert found.state == "warning"
    assert "receiving: 208kib of 5m" in found.text
    assert found.text.endswith("sysctl -w net.core.rmem_max=5000000")
    assert checks.judge_buffers("UDP", granted[:1]).state == "ok"


def test_a_process_that_wakes_up_late_and_a_clock_that_is_set_are_warnings() -> None:
    assert checks.judge_clock(ClockProbe(True, 0.01, 0.0), 1.5).state == "ok"
    assert "too late" in checks.judge_clock(ClockProbe(True, 0.3, 0.0), 1.5).text
    assert "too late" in checks.judge_clock(ClockProbe(True, 0.1, 0.0), 0.1).text
    assert "was set by 2s" in checks.judge_clock(ClockProbe(True, 0.0, -2.0), 1.5).text
    assert "does not synchronise" in checks.judge_clock(ClockProbe(False, 0.0, 0.0), 1.5).text
    assert checks.judge_clock(ClockProbe(None, 0.0, 0.0), None).state == "ok"


def test_a_host_that_nobody_listens_on_is_a_warning() -> None:
    use = PortUse("tcp", "out", 7800, 7801, "", "10.0.0.9", (), "", "", "", "TCPPING")
    found = checks.judge_host(use, {7800: "Connection refused", 7801: "Connection refused"})
    assert found.state == "warning"
    assert found.text == "TCPPING: nobody can be reached at 10.0.0.9[7800-7801]: Connection refused"
    found = checks.judge_host(use, {7800: "Connection refused", 7801: ""})
    assert (found.state, found.facts["at"]) == ("ok", "10.0.0.9[7801]")


# --- the command, on loopback


@pytest.fixture
def listener() -> Iterator[int]:
    """Yield a port on which a process listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.sockets
def test_the_shipped_stack_is_fine_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["doctor", "udp.xml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    states = {item["check"]: item["state"] for item in found["checks"]}
    assert states["stack"] == states["ports"] == states["multicast"] == states["mtu"] == "ok"
    assert states["interface"] == "warning"
    assert {"buffers", "clock"} <= set(states)


@pytest.mark.sockets
def test_a_taken_port_fails_and_a_host_that_listens_is_found(
    listener: int, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = ["doctor", "tcp.xml", "--set", "TCP.port_range=0"]
    hosts = ["-D", f"jgroups.tcpping.initial_hosts=127.0.0.1[{listener}]"]
    assert cli.run([*typed, "--set", f"TCP.bind_port={listener}", *hosts]) == 1
    lines = capsys.readouterr().out.splitlines()
    (failed,) = [line for line in lines if line.startswith("failed")]
    assert "TCP cannot listen" in failed
    assert "another process has the port" in failed
    assert any(f"somebody listens at 127.0.0.1[{listener}" in line for line in lines)


@pytest.mark.sockets
def test_an_address_of_another_machine_fails_once(capsys: pytest.CaptureFixture[str]) -> None:
    typed = ["doctor", "--bind-addr", "203.0.113.7"]
    assert cli.run(typed) == 2
    assert "nothing encrypts it" in capsys.readouterr().err
    assert cli.run([*typed, "-D", "jgroups.insecure=true"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("failed")]) == 1


@pytest.mark.sockets
async def test_the_doctor_meets_a_member_of_the_cluster() -> None:
    typed = ["doctor", "udp.xml", "--cluster", "ward", "--for", "60s"]
    async with open_channel("udp.xml", cluster="ward", name="A"):
        done = await trio.run_process(
            [sys.executable, "-m", "jgroups_py", *typed], capture_stdout=True
        )
    assert b'joined "ward"' in done.stdout


def test_a_stack_that_cannot_work_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "stack.xml"
    file.write_text("<config><UDP/></config>")
    assert cli.run(["doctor", str(file)]) == 2
    assert "no views in the stack" in capsys.readouterr().err
