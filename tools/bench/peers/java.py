"""Members of Java JGroups: its jar, our source compiled against it, and processes that mperf and rpcperf measure.

Nothing of JGroups is kept here. The jar comes through Maven into ``build/java``, and so do the classes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import ClassVar, Final

import trio

from jgroups_py.tools.bench.peers.group_member import GroupPlan
from jgroups_py.tools.bench.peers.missing import PeerMissing, need_program
from jgroups_py.tools.commands.mperf_run import MperfPlan
from jgroups_py.tools.commands.rpcperf_run import NAMES, RpcperfPlan

VERSION: Final = "5.5.6.Final"
BUILD: Final = Path("build", "java")
SOURCE: Final = Path(__file__).with_name("PeerMember.java")
FETCH_SECONDS: Final = 180
"""The longest time that Maven may take with an empty cache."""
HEAP: Final = "1g"


class JavaPeer:
    """Starts members of Java JGroups.

    Raises:
        PeerMissing: there is no compiler, or the jar cannot be had.
    """

    name = f"Java JGroups {VERSION}"
    measures = frozenset({"messages", "overload", "calls", "groups"})
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
        _run(["javac", "-nowarn", "-cp", str(jar), "-d", str(classes), str(SOURCE)])
        self._command = ["java", f"-Xmx{HEAP}", "-Djgroups.bind_addr=127.0.0.1"]
        self._command += ["-Djava.net.preferIPv4Stack=true", "-cp", f"{jar}:{classes}"]
        self._command.append("PeerMember")

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

    async def _start(
        self, kind: str, plan: MperfPlan | RpcperfPlan | GroupPlan, *counts: float | str
    ) -> trio.Process:
        overrides = [f"{key}={value}" for key, value in (plan.attributes | self.settings).items()]
        words = [kind, plan.stack, plan.cluster, *map(str, counts), *overrides]
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
