"""Kill processes of a bucket store under load of memcached clients, one role after the other, and judge the clients'
answers.

Promises: a word whose addition was answered is in its value at every later read, once and in its order; a client that
changes to another door after the loss of its own waits at most 30 s. Nodes run as ``jgroups-py buckets node``. With
``--moves`` a copy moves all the time, and the kill comes in the middle of a move. With ``--versions`` every process
that is started again has the other version of the application, so buckets move between both.

python tests/buckets/kill_components.py --kills 20 --moves
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import trio
from seed_instance import BUSY_DETECTION_MAX, BUSY_MACHINE

from jgroups_py.buckets import BucketNode, Cep, bucket_of, digest_of
from jgroups_py.buckets.administration import carry_out, open_administrator
from jgroups_py.buckets.deployment import Deployment, load_deployment
from jgroups_py.buckets.errors import BucketError
from jgroups_py.buckets.orders import recreation
from jgroups_py.buckets.port import index_copies
from jgroups_py.config.settings import load_stack
from jgroups_py.tools.commands.mperf_ports import free_block, private_attributes

OLD, NEW = 73, 81
BUCKETS: Final = 12
CLIENTS: Final = 8
WORDS_MAX: Final = 400
"""The most words of one value; then the client begins the next one."""
PATIENCE: Final = 180.0
START_PATIENCE: Final = 600.0
"""Seconds in which processes must start: seven start at the same time, perhaps on a busy machine."""
INTERRUPTION_MAX: Final = 30.0
"""The longest allowed seconds without an answer (A20)."""
ROLES: Final = ("master", "slave", "index", "router", "node")
"""The roles in turn: the master of a client's key, its slave, the first index copy, a process with routers and
proxies only, and any complete node."""
ALL: Final = "{managers: 1, indices: 1, routers: 1, proxies: 1}"
NODES: Final = {
    "x1": "{indices: 1, routers: 1}",
    "x2": "{indices: 1, routers: 1}",
    "n1": ALL,
    "n2": ALL,
    "n3": ALL,
    "p1": "{proxies: 1}",
    "p2": "{proxies: 1}",
}
DOORS: Final = ("p1", "p2", "n1", "n2", "n3")
APPLICATION: Final = """\
import os
from jgroups_py.buckets.items.bucket_items import item_plugin

PLUGIN = item_plugin()
PLUGIN.provider.version = int(os.environ["ITEMS_VERSION"])
if PLUGIN.provider.version == 81:
    PLUGIN.provider.reads = PLUGIN.provider.writes = (73,)
"""


class Processes:
    """Node processes by name."""

    def __init__(self, folder: Path, log: Path) -> None:
        ports = private_attributes(load_stack("tcp.xml"), len(NODES) + 3)
        self.attributes = {**BUSY_MACHINE, **ports}
        self._log = log.open("ab")
        self._where = [
            word for name, value in self.attributes.items() for word in ("--set", f"{name}={value}")
        ]
        doors = free_block(len(DOORS))
        self.doors = {name: doors + number for number, name in enumerate(DOORS)}
        self.versions = dict.fromkeys(NODES, OLD)
        self.file = folder / "kills.yaml"
        lines = [f"  {name}: {{components: {parts}}}" for name, parts in NODES.items()]
        self.file.write_text(
            f"name: kills-{doors}\nbuckets: {BUCKETS}\nstack: tcp.xml\napplication: items_of_kills:PLUGIN\n"
            f"settings: {{detection_max: {BUSY_DETECTION_MAX:g}s}}\nnodes:\n" + "\n".join(lines)
        )
        (folder / "items_of_kills.py").write_text(APPLICATION)
        self.running: dict[str, trio.Process] = {}

    async def start(self, name: str) -> None:
        words = ["buckets", "node", str(self.file), name, "--bind-addr", "127.0.0.1", *self._where]
        if name in self.doors:
            words += ["--memcached", f"127.0.0.1:{self.doors[name]}"]
        self.running[name] = await trio.lowlevel.open_process(
            [sys.executable, "-m", "jgroups_py", *words],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "ITEMS_VERSION": str(self.versions[name])},
        )

    async def ready(self, name: str) -> None:
        """Wait until the process knows where buckets are. Raise AssertionError if it has ended."""
        out = self.running[name].stdout
        assert out is not None
        said = b""
        while b"are placed" not in said:
            data = await out.receive_some(1000)
            assert data, f"{name} has ended and said {said!r}"
            said += data

    async def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()

    async def end(self) -> None:
        with trio.CancelScope(shield=True):
            for name in list(self.running):
                await self.kill(name)
        self._log.close()


@dataclass
class Client:
    """Adds words to a value, one after the other, and reads it now and then. It has one connection; after its loss it
    connects to another door."""

    number: int
    ports: list[int]
    problems: list[str]
    pause: float
    words: dict[str, list[int]] = field(default_factory=dict)
    """Key -> words whose addition was answered."""
    reads: int = 0
    unknown: int = 0
    longest: float = 0.0
    key: str = ""
    _asked: int = 0
    _last: float = 0.0
    _stream: trio.SocketStream | None = None

    async def run(self) -> None:
        self._last = trio.current_time()
        while True:
            self.key = f"client-{self.number}-{len(self.words)}"
            self.words[self.key] = []
            while await self._ask(f"add {self.key} 0 0 0\r\n\r\n") not in (
                b"STORED",
                b"NOT_STORED",
            ):
                pass
            for turn in range(WORDS_MAX):
                await self._read(self.key) if turn % 6 == 5 else await self._add()
                await trio.sleep(self.pause)

    async def _add(self) -> None:
        self._asked += 1
        word = f" {self._asked}"
        said = await self._ask(f"append {self.key} 0 0 {len(word)}\r\n{word}\r\n")
        if said == b"STORED":
            self.words[self.key].append(self._asked)
        elif said is not None:
            self.problems.append(f"{self.key}: append was answered {said!r}")

    async def _read(self, key: str) -> list[int] | None:
        """Return the words of a value if the read is answered; missing words are a problem."""
        answered = list(self.words[key])
        said = await self._ask(f"get {key}\r\n", b"END\r\n")
        if said is None:
            return None
        self.reads += 1
        found = [int(word) for word in said.partition(b"\r\n")[2].split()]
        if [word for word in found if word in set(answered)] != answered:
            missing = sorted(set(answered) - set(found))
            self.problems.append(f"{key}: a read lacks {missing}, or has another order")
        if len(set(found)) != len(found):
            self.problems.append(f"{key}: a word is there twice")
        return found

    async def check(self) -> None:
        """Read all values once more, over a new connection: the old one may be in the middle of an answer."""
        await self._hang_up()
        for key in self.words:
            with trio.move_on_after(PATIENCE):
                while await self._read(key) is None:
                    pass
                continue
            self.problems.append(f"{key}: it cannot be read at the end")
        await self._hang_up()

    async def _hang_up(self) -> None:
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)
            self._stream = None

    async def _ask(self, line: str, end: bytes = b"\r\n") -> bytes | None:
        """Return the answer without ``end``. None: it is unknown whether the request was carried out."""
        try:
            said = await self._exchange(line.encode(), end)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError):
            said = None
        if said is None or said.startswith(b"SERVER_ERROR"):
            self.unknown += 1
            await self._hang_up()
            await trio.sleep(0.01)
            return None
        now = trio.current_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        return said.removesuffix(end)

    async def _exchange(self, line: bytes, end: bytes) -> bytes | None:
        with trio.fail_after(PATIENCE):
            if self._stream is None:
                self.ports.append(self.ports.pop(0))
                self._stream = await trio.open_tcp_stream("127.0.0.1", self.ports[0])
            await self._stream.send_all(line)
            said = b""
            while not said.endswith(end):
                data = await self._stream.receive_some(65_536)
                if not data:
                    return None
                said += data
                if said.startswith(b"SERVER_ERROR") and said.endswith(b"\r\n"):
                    break
            return said


class Run:
    """One instance under load."""

    def __init__(
        self,
        processes: Processes,
        node: BucketNode,
        deployment: Deployment,
        seed: int,
        pause: float,
    ) -> None:
        self.processes, self.node, self.deployment = processes, node, deployment
        self.chance = random.Random(seed)
        self.problems: list[str] = []
        ports = list(processes.doors.values())
        turns = [number % len(ports) for number in range(CLIENTS)]
        self.clients = [
            Client(number, ports[turn:] + ports[:turn], self.problems, pause)
            for number, turn in enumerate(turns)
        ]
        self.moves = 0
        self.moving = trio.Event()
        self.may_move = False
        self.changes_version = False
        """A process that is started again has the other version of the application."""

    @property
    def is_whole(self) -> bool:
        rows = self.node.state.rows.values()
        managers = {m.cep for m in self.node.managers}
        return bool(rows) and all({row.master, row.slave} <= managers for row in rows)

    async def move(self) -> None:
        """Move copies to any allowed place, one after the other, while every pair is complete."""
        while True:
            if not self.may_move or not self.is_whole:
                await trio.sleep(0.02)
                continue
            row = self.chance.choice(list(self.node.state.rows.values()))
            free = [m.cep for m in self.node.managers if m.cep not in (row.master, row.slave)]
            assert row.slave is not None
            if not free:
                await trio.sleep(0.02)
                continue
            self.moving.set()
            self.moving = trio.Event()
            try:
                if self.chance.random() < 0.5:
                    await self.node.migrate_master_bucket(row.master, free[0], bucket=row.bucket)
                else:
                    await self.node.migrate_slave_bucket(row.slave, free[0], bucket=row.bucket)
                self.moves += 1
            except BucketError:
                await trio.sleep(0.02)

    def victim(self, role: str) -> str:
        """Return the node whose process is killed."""
        row = self.node.state.rows[
            bucket_of(digest_of(self.chance.choice(self.clients).key), BUCKETS)
        ]
        if role == "master":
            return row.master.component.removeprefix("m/")
        if role == "slave" and row.slave is not None:
            return row.slave.component.removeprefix("m/")
        if role == "index":
            first = index_copies(self.node.router.port, self.deployment.settings)[0]
            return first.component.removeprefix("i/")
        return self.chance.choice(["p1", "p2"] if role == "router" else ["n1", "n2", "n3"])

    async def kill(self, role: str) -> float:
        """Kill one process, and repair the store. Return the longest time in which a client had no answer."""
        for client in self.clients:
            client.longest = 0.0
        await trio.sleep(self.chance.uniform(0.2, 0.5))
        if self.may_move:
            moves = self.moves
            await self._until(lambda: self.moves > moves, "no copy has moved")
            with trio.fail_after(PATIENCE):
                await self.moving.wait()
            await trio.sleep(self.chance.uniform(0.0, 0.02))
        name = self.victim(role)
        lost = {m.cep for m in self.node.managers if m.info.node == name}
        view = self.node.channel.view
        assert view is not None
        before = set(view.members)
        await self.processes.kill(name)
        await self._until(lambda: len(before - self._members()) == 1, f"{name} is still there")
        if self.changes_version:
            old = self.processes.versions[name]
            self.processes.versions[name] = OLD if old == NEW else NEW
        await self.processes.start(name)
        with trio.fail_after(PATIENCE):
            await self.processes.ready(name)
        await self._recreate(lost)
        answered = [len(client.words[client.key]) + client.reads for client in self.clients]
        await self._until(
            lambda: all(
                len(c.words[c.key]) + c.reads != count
                for c, count in zip(self.clients, answered, strict=True)
            ),
            "a client has no answer",
        )
        return max(client.longest for client in self.clients)

    def _members(self) -> set[Any]:
        view = self.node.channel.view
        return set() if view is None else set(view.members)

    async def _recreate(self, lost: set[Cep]) -> None:
        """Make missing slaves, as an administrator does, until none is missing. ``lost``: managers of the killed process, which the
        index must have replaced before."""
        with trio.fail_after(PATIENCE):
            while True:
                await self.node.wait_until(
                    lambda state: (
                        len(state.managers) == 3 and lost.isdisjoint(m.cep for m in state.managers)
                    )
                )
                if self.is_whole:
                    return
                try:
                    orders = recreation(self.deployment, self.node.state)
                    await carry_out(self.node, orders, lambda order: None)
                except BucketError:  # the index may not have reacted to the loss yet
                    await trio.sleep(0.05)

    async def _until(self, holds: Any, problem: str) -> None:
        with trio.move_on_after(PATIENCE):
            while True:
                if holds():
                    return
                await trio.sleep(0.01)
        raise AssertionError(f"{problem} after {PATIENCE:g} s; {self.problems}")


@asynccontextmanager
async def opened_run(log: Path, seed: int, pause: float) -> AsyncIterator[Run]:
    """All processes and their clients."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        processes = Processes(Path(folder), log)
        try:
            sys.path.insert(0, folder)
            deployment = load_deployment(processes.file)
            for name in NODES:
                await processes.start(name)
            for name in NODES:
                with trio.move_on_after(START_PATIENCE):
                    await processes.ready(name)
                    print(f"{name} is ready", file=sys.stderr)
                    continue
                raise AssertionError(f"{name} is not ready after {START_PATIENCE:g} s")
            async with (
                open_administrator(
                    deployment, bind_addr="127.0.0.1", attributes=processes.attributes
                ) as node,
                trio.open_nursery() as nursery,
            ):
                with trio.fail_after(PATIENCE):
                    await node.wait_ready()
                run = Run(processes, node, deployment, seed, pause)
                with trio.CancelScope() as load:
                    async with trio.open_nursery() as clients:
                        for client in run.clients:
                            clients.start_soon(client.run)
                        clients.start_soon(run.move)
                        yield run
                        load.cancel()
                run.may_move = False
                for client in run.clients:
                    await client.check()
                nursery.cancel_scope.cancel()
        finally:
            sys.path.remove(folder)
            await processes.end()


async def main(options: argparse.Namespace) -> dict[str, Any]:
    waits: dict[str, list[float]] = {role: [] for role in options.roles}
    options.log.parent.mkdir(parents=True, exist_ok=True)
    async with opened_run(options.log, options.seed, options.pause) as run:
        await trio.sleep(2)
        run.may_move, run.changes_version = options.moves, options.versions
        try:
            for number in range(options.kills):
                for role in options.roles:
                    waits[role].append(await run.kill(role))
                    print(f"{number + 1} {role}: {waits[role][-1]:.2f} s", file=sys.stderr)
        except (trio.TooSlowError, AssertionError) as error:
            # Earlier answers are judged all the same.
            run.problems.append(f"given up after {number} rounds, at {role}: {error!r}")
    for role, found in waits.items():
        if max(found, default=0.0) > INTERRUPTION_MAX:
            run.problems.append(f"{role}: {max(found):.1f} s without an answer")
    return {
        "kills": sum(map(len, waits.values())),
        "answered": sum(len(words) for c in run.clients for words in c.words.values()),
        "reads": sum(client.reads for client in run.clients),
        "unknown": sum(client.unknown for client in run.clients),
        "moves": run.moves,
        "seconds_without_an_answer": {
            role: {"median": round(sorted(w)[len(w) // 2], 2), "longest": round(max(w), 2)}
            for role, w in waits.items()
            if w
        },
        "problems": run.problems,
    }


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each role")
    parser.add_argument("--roles", nargs="+", choices=ROLES, default=ROLES)
    parser.add_argument("--moves", action="store_true", help="copies move all the time")
    parser.add_argument("--versions", action="store_true", help="two versions, in turns")
    parser.add_argument("--pause", type=float, default=0.002, help="seconds, of each client")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, default=Path("build/buckets-kills.log"))
    return parser.parse_args(given)


if __name__ == "__main__":
    result = trio.run(main, arguments())
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["problems"]))
