"""Members of Java JGroups: its jar, our source compiled against it, and processes that mperf and rpcperf measure.

Nothing of JGroups is kept here. The jar comes through Maven into ``build/java``, and so do the classes.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

import trio

from jgroups_py.tools.bench.peers import relays
from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.missing import PeerMissing, need_program
from jgroups_py.tools.bench.peers.relay_member import RelayPlan
from jgroups_py.tools.commands.mperf_run import MperfPlan
from jgroups_py.tools.commands.rpcperf_run import NAMES, RpcperfPlan

VERSION: Final = "5.5.6.Final"
BUILD: Final = Path("build", "java")
SOURCES: Final = tuple(
    Path(__file__).with_name(f"{name}.java") for name in ("Stacks", "PeerMember", "RelayMember")
)
FETCH_SECONDS: Final = 180
"""The longest time that Maven may take with an empty cache."""
HEAP: Final = "1g"


class JavaPeer:
    """Starts members of Java JGroups.

    Raises:
        PeerMissing: there is no compiler, or the jar cannot be had.
    """

    name = f"Java JGroups {VERSION}"
    measures = frozenset({"messages", "overload", "calls", "groups", "relays"})
    settings: ClassVar[dict[str, str]] = {}
    """Attributes that differ from the stock stack."""
    warm_up_least = 8.0
    """Seconds until the compiler of a JVM that shares two cores with others has done most of its work."""
    more_start = 5.0
    """Seconds that JVMs need more than other processes to start, join, and leave."""

    def __init__(self) -> None:
        for tool in ("java", "javac"):
            need_program(tool, "openjdk-17-jdk-headless")
        classes = BUILD / VERSION / "bench"
        classes.mkdir(parents=True, exist_ok=True)
        jar = _jar()
        _run(["javac", "-nowarn", "-cp", str(jar), "-d", str(classes), *map(str, SOURCES)])
        self._command = ["java", f"-Xmx{HEAP}", "-Djgroups.bind_addr=127.0.0.1"]
        self._command += ["-Djava.net.preferIPv4Stack=true", "-cp", f"{jar}:{classes}"]

    async def messages(self, plan: MperfPlan, number: int) -> trio.Process:
        """Start a member of mperf."""
        counts = (number, plan.members, plan.senders, plan.size, plan.seconds, plan.warm_up, "1")
        return await self._start("messages", plan, *counts, plan.huge, plan.slow)

    async def calls(self, plan: RpcperfPlan, number: int) -> trio.Process:
        """Start a member of rpcperf."""
        callers = ",".join(map(str, plan.callers))
        counts = (number, len(NAMES), 0, plan.size, plan.seconds, plan.warm_up, callers)
        return await self._start("calls", plan, *counts, 0, 0)

    async def group(self, plan: GroupPlan, number: int) -> trio.Process:
        """Start a member of a group that joins, is idle and is killed."""
        return await self._start("group", plan, number, plan.members, 0, 0, 0, 0, "1", 0, 0)

    async def relays(self, plan: RelayPlan) -> dict[str, float]:
        """Measure two sites that RELAY2 connects. It keeps no messages for an absent site, so it promises less than RELAY.

        The compiler of each JVM has half of its time before the first measurement, while probes are sent."""
        half = self.warm_up_least / 2
        longer = replace(plan, probing=half, warm_up=max(plan.warm_up, half))
        return await relays.measure(longer, self._site_member)

    async def _site_member(self, plan: RelayPlan, number: int) -> trio.Process:
        site = plan.sites[number]
        role = "sends" if number == plan.sender else "hears"
        words = [
            "RelayMember",
            relays.SITE_STACKS[plan.stack],
            plan.cluster,
            f"M{number + 1}",
            site,
        ]
        words += [",".join(dict.fromkeys(plan.sites)), role]
        words += [str(plan.size), str(plan.seconds), str(plan.warm_up), "tcp.xml"]
        words += [f"{key}={value}" for key, value in plan.attributes[site].items()]
        words += [f"bridge:{key}={value}" for key, value in _bridge(plan).items()]
        return await self._process(words)

    async def _start(
        self, kind: str, plan: MperfPlan | RpcperfPlan | GroupPlan, *counts: float | str
    ) -> trio.Process:
        overrides = [f"{key}={value}" for key, value in (plan.attributes | self.settings).items()]
        return await self._process(
            ["PeerMember", kind, plan.stack, plan.cluster, *map(str, counts), *overrides]
        )

    async def _process(self, words: list[str]) -> trio.Process:
        pipe = subprocess.PIPE
        return await trio.lowlevel.open_process(
            [*self._command, *words], stdin=pipe, stdout=pipe, stderr=pipe
        )


class TunedJavaPeer(JavaPeer):
    """Java JGroups with fast settings for one machine: a bundler whose queue does not overflow with small messages, and
    no delay of small packets."""

    name = f"Java JGroups {VERSION} tuned"
    measures = frozenset({"messages", "calls"})
    settings: ClassVar[dict[str, str]] = {
        "UDP.bundler.capacity": "65536",
        "TCP.bundler.capacity": "65536",
        "TCP.tcp_nodelay": "true",
    }


def _bridge(plan: RelayPlan) -> dict[str, str]:
    """Return attributes of the stack between sites: the ports that our bridge would have."""
    masters = len(dict.fromkeys(plan.sites))
    first = int(plan.properties["relay.bridge.port"])
    return {
        "TCP.bind_port": str(first),
        "TCP.port_range": str(masters - 1),
        "TCPPING.initial_hosts": ",".join(f"127.0.0.1[{first + n}]" for n in range(masters)),
        "TCPPING.port_range": "0",
        "FD_SOCK2.offset": str(masters),
    }


def _jar() -> Path:
    jar = BUILD / f"jgroups-{VERSION}.jar"
    if not jar.exists():
        if shutil.which("mvn") is None:
            raise PeerMissing(f"{jar} is not there, and there is no mvn to get it")
        what = f"-Dartifact=org.jgroups:jgroups:{VERSION}"
        _run(["mvn", "-q", "-B", "dependency:get", what, "-Dtransitive=false"])
        _run(["mvn", "-q", "-B", "dependency:copy", what, f"-DoutputDirectory={BUILD}"])
    return jar


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, timeout=FETCH_SECONDS, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"{command[0]} took more than {FETCH_SECONDS} s") from None
    except subprocess.CalledProcessError as error:
        said = (error.stderr + error.stdout).strip() or "nothing"
        raise PeerMissing(f"{' '.join(command[:3])} failed and said: {said[:300]}") from None
