"""The checks of ``jgroups-py doctor`` on this machine: interface, ports, hosts, multicast, MTU, buffers, clock.

``examine_machine`` asks ``driver.probes`` for facts. The functions named ``judge_...`` turn facts into findings, and open
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from jgroups_py.driver import probes
from jgroups_py.driver.interfaces import own_addresses
from jgroups_py.stack.exposure import Built, PortUse, is_loopback, place_of, port_uses
from jgroups_py.units import bytes_text, seconds_text

State = Literal["ok", "warning", "failed"]

ECHO_TIMEOUT: Final = 2.0
"""Seconds in which a datagram to a multicast group must come back."""
REACH_TIMEOUT: Final = 2.0
"""Seconds in which a host of the stack file must accept a connection."""
HOSTS_MAX: Final = 10
"""Hosts of the stack file that are tried."""
HOST_PORTS_MAX: Final = 5
"""Ports of each such host that are tried."""
SLEEPS: Final = 30
PAUSE: Final = 0.01
"""The number and the seconds of the sleeps during which the clock is watched."""
LATE: Final = 0.2
"""Seconds of lateness above which a process is likely to be suspected."""
STEP: Final = 0.1
"""Seconds of a jump that show that the clock was set."""
MAX_DATAGRAM: Final = 65_507
"""The most bytes of a datagram of UDP."""
PROBE_SIZE: Final = 64


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """``check``: the subject. ``text``: the sentence for people. ``facts``: JSON values."""

    check: str
    state: State
    text: str
    facts: dict[str, Any]


async def examine_machine(built: Built, host: str) -> list[DoctorFinding]:
    """Return the findings for a stack whose transport binds to ``host`` if the stack names no address."""
    place = place_of(built, host)
    uses = port_uses(built, host)
    if not uses:
        return [DoctorFinding("ports", "ok", "the stack opens no sockets", {})]
    found = [judge_interface(place.host, probes.device_of(place.host))]
    if found[0].state == "failed":
        return found  # no other check works without the interface
    for use in uses:
        if use.way == "in" and not use.multicast:
            bound = use.bound or place.host
            found.append(judge_ports(use, probes.try_ports(use.proto, bound, use.first, use.last)))
    found += await _hosts(uses)
    for cls, config in built:
        group = getattr(config, "mcast_addr", "")
        if group and getattr(config, "ip_mcast", True):
            bound = getattr(config, "bind_addr", "") or place.host
            found += await _multicast(cls.__name__, config, bound)
    timeouts = [c.timeout for cls, c in built if cls.__name__ in ("FD_ALL3", "VERIFY_SUSPECT2")]
    seen = await probes.clock(SLEEPS, PAUSE)
    return [*found, judge_clock(seen, min(timeouts, default=None))]


async def _hosts(uses: Sequence[PortUse]) -> list[DoctorFinding]:
    """Return a finding for each host that the stack names and reaches by TCP."""
    found = []
    named = [use for use in uses if use.way == "out" and use.proto == "tcp" and use.address]
    for use in named[:HOSTS_MAX]:
        problems: dict[int, str] = {}
        for port in range(use.first, min(use.last, use.first + HOST_PORTS_MAX - 1) + 1):
            problems[port] = await probes.reachable((use.address, port), REACH_TIMEOUT)
        found.append(judge_host(use, problems))
    return found


async def _multicast(name: str, config: Any, host: str) -> list[DoctorFinding]:
    group, ttl = config.mcast_addr, getattr(config, "ip_ttl", 8)
    size = min(getattr(config, "bundler_max_size", PROBE_SIZE), MAX_DATAGRAM)
    small = await probes.multicast_echo(host, group, ttl, PROBE_SIZE, ECHO_TIMEOUT)
    problem = probes.try_group((group, config.mcast_port), host)
    found = [judge_multicast(name, (group, config.mcast_port), host, small, problem)]
    if found[0].state == "ok" and size > PROBE_SIZE:
        large = await probes.multicast_echo(host, group, ttl, size, ECHO_TIMEOUT)
        device = probes.device_of(host)
        found.append(judge_mtu(name, host, device.mtu if device else 0, large))
        granted = probes.buffers(
            host,
            (group, config.mcast_port),
            getattr(config, "ucast_send_buf_size", 0),
            getattr(config, "ucast_recv_buf_size", 0),
            getattr(config, "mcast_recv_buf_size", 0),
        )
        found.append(judge_buffers(name, granted))
    return found


def judge_interface(host: str, device: probes.Device | None) -> DoctorFinding:
    """Judge whether an interface has the member's address."""
    facts: dict[str, Any] = {"bind_addr": host, "interface": None, "mtu": None}
    if device is None:
        text = f"no interface has the address {host}; this machine has {own_addresses()}"
        return DoctorFinding("interface", "failed", text, facts)
    facts |= {"interface": device.name, "mtu": device.mtu}
    if not device.up:
        return DoctorFinding("interface", "failed", f"{device.name} with {host} is down", facts)
    text = f"{host} is on {device.name}, MTU {device.mtu}"
    if is_loopback(host):
        return DoctorFinding(
            "interface",
            "warning",
            f"{text}: only members on this machine can join; set bind_addr for others",
            facts,
        )
    return DoctorFinding("interface", "ok", text, facts)


def judge_ports(use: PortUse, ports: probes.Ports) -> DoctorFinding:
    """Judge whether the protocol can listen."""
    facts = {"protocol": use.protocol, "proto": use.proto, **asdict(ports)}
    if not ports.free:
        return DoctorFinding(
            "ports", "failed", f"{use.protocol} cannot listen: {ports.problem}", facts
        )
    if use.first == 0:
        text = f"{use.protocol} takes any {use.proto} port"
        if use.setting:
            text += f" ({use.setting} fixes it for a firewall)"
        return DoctorFinding("ports", "ok", text, facts)
    text = f"{use.protocol} can listen on {use.proto} port {ports.free[0]}"
    if ports.taken:
        text += f"; {_listed(ports.taken)} is in use by others"
    return DoctorFinding("ports", "ok", text, facts)


def judge_host(use: PortUse, problems: dict[int, str]) -> DoctorFinding:
    """Judge whether a member listens where the stack sends requests. ``problems``: port -> reason of the failure, or an
    empty text."""
    place = f"{use.address}[{_listed(tuple(problems))}]"
    facts = {"protocol": use.protocol, "host": use.address, "ports": problems, "at": None}
    open_ports = [port for port, problem in problems.items() if not problem]
    if open_ports:
        facts["at"] = f"{use.address}[{_listed(open_ports)}]"
        text = f"{use.protocol}: somebody listens at {facts['at']}"
        return DoctorFinding("hosts", "ok", text, facts)
    why = "; ".join(dict.fromkeys(problems.values()))
    text = f"{use.protocol}: nobody can be reached at {place}: {why}"
    return DoctorFinding("hosts", "warning", text, facts)


def judge_multicast(
    name: str, group: tuple[str, int], host: str, echo: probes.EchoProbe, problem: str
) -> DoctorFinding:
    """Judge whether a multicast leaves the interface and comes back. ``problem``: the reason why the group's port
    cannot be opened."""
    facts = {"protocol": name, "group": group[0], "port": group[1], **asdict(echo)}
    if problem:
        text = f"{name} cannot open its group: {problem}"
        return DoctorFinding("multicast", "failed", text, facts)
    if echo.came:
        text = f"a multicast to {group[0]} through {host} comes back"
        return DoctorFinding("multicast", "ok", text, facts)
    why = echo.problem or f"nothing came back within {seconds_text(ECHO_TIMEOUT)}"
    text = (
        f"multicast to {group[0]} through {host} does not work: {why}; take another bind_addr, or "
        "tcp.xml, which needs no multicast"
    )
    return DoctorFinding("multicast", "failed", text, facts)


def judge_mtu(name: str, host: str, mtu: int, echo: probes.EchoProbe) -> DoctorFinding:
    """Judge whether the largest datagrams pass, and count their fragments."""
    parts = probes.fragments(echo.size, mtu, host) if mtu else 0
    facts = {"protocol": name, "mtu": mtu, "size": echo.size, "fragments": parts, "came": echo.came}
    size = bytes_text(echo.size)
    if not echo.came:
        why = echo.problem or "it does not come back"
        text = (
            f"a datagram of {size} (bundler_max_size) does not pass: {why}; lower "
            f"{name}.bundler_max_size and FRAG2.frag_size"
        )
        return DoctorFinding("mtu", "failed", text, facts)
    text = f"a datagram of {size} (bundler_max_size) passes"
    if parts > 1:
        text += f" as {parts} fragments of an MTU of {mtu}: whoever misses one misses all"
    return DoctorFinding("mtu", "ok", text, facts)


def judge_buffers(name: str, granted: Sequence[probes.Buffer]) -> DoctorFinding:
    """Judge whether the system grants the requested buffers."""
    facts = {"protocol": name, "buffers": [asdict(buffer) for buffer in granted]}
    short = [buffer for buffer in granted if buffer.granted < buffer.asked]
    if not short:
        text = "; ".join(f"{b.kind} {bytes_text(b.granted)}" for b in granted)
        return DoctorFinding("buffers", "ok", f"all socket buffers are granted: {text}", facts)
    words = "; ".join(f"{b.kind}: {bytes_text(b.granted)} of {bytes_text(b.asked)}" for b in short)
    limits = dict.fromkeys(
        "net.core.wmem_max" if b.kind == "sending" else "net.core.rmem_max" for b in short
    )
    most = max(b.asked for b in short)
    fix = " ".join(f"{limit}={most}" for limit in limits)
    text = f"socket buffers are smaller than asked for ({words}): each member sends no more at once than its own holds, and bursts of several senders get lost and are sent again; sysctl -w {fix}"
    return DoctorFinding("buffers", "warning", text, facts)


def judge_clock(clock: probes.ClockProbe, timeout: float | None) -> DoctorFinding:
    """Judge whether the process runs in time. ``timeout``: the shortest time after which it would be suspected."""
    facts = asdict(clock)
    problems = []
    if clock.late > (LATE if timeout is None else min(LATE, timeout / 2)):
        problems.append(
            f"this process woke up {seconds_text(round(clock.late, 3))} too late: the machine is busy or "
            "stopped at times, and others will suspect the member"
        )
    if abs(clock.stepped) > STEP:
        problems.append(
            f"the clock was set by {seconds_text(round(abs(clock.stepped), 3))} meanwhile"
        )
    if clock.synchronised is False:
        problems.append(
            "the system does not synchronise its clock (NTP): times in logs and reports of several "
            "hosts do not compare; members do not need it"
        )
    if problems:
        return DoctorFinding("clock", "warning", "; ".join(problems), facts)
    late = seconds_text(round(clock.late, 3))
    return DoctorFinding(
        "clock", "ok", f"the clock runs, and this process wakes up within {late}", facts
    )


def _listed(ports: Sequence[int]) -> str:
    """Ports in words: 7800, or 7800-7802, or 7800, 7802."""
    if len(ports) > 1 and ports[-1] - ports[0] == len(ports) - 1:
        return f"{ports[0]}-{ports[-1]}"
    return ", ".join(map(str, ports))
