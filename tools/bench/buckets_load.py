"""Load of a bucket store with processes: nodes, and clients of its memcached doors; beside memcached, and beside Redis with one replica and WAIT 1.

    python -m jgroups_py.tools.bench.buckets_load --peers buckets:2,buckets:4,memcached,redis --rate 1000 --seconds 10
    python -m jgroups_py.tools.bench.buckets_load --nodes 1,2,4 --rate 400 --rounds 3 --json build/nodes.json

``buckets:N`` has N nodes, and ``--rate`` requests a second for each of them; the others have ``--rate`` once. Clients are processes, one for each 1,000 requests a
second (buckets_caller.py). Peers take turns, ``--rounds`` times, so other work of the machine slows all of them.

It prints for each peer: requests a second, milliseconds of reads and changes at the median, p99, p99.9, and
for a request the microseconds that all server processes used a core (CPU us) and waited for one (wait us).
``client us`` is the same wait of the client process, and ``late p99`` the milliseconds until the client
noticed that a request was due: both are part of the times of requests, but the client's, not the server's.

**How it grows with nodes** (``--nodes``, A16): each number of nodes has its line with requests a second, seconds of CPU time of all servers for 1,000 requests, and the efficiency: requests for a
CPU second, in relation to the first number. So the figure does not depend on the cores of this machine, as long as they
are not full. ``buckets:1`` is a store of two nodes after the loss of one: it keeps one copy and sends nothing to a
slave, so its requests are cheaper than those of 2.

memcached keeps one copy and promises nothing; Redis with WAIT 1 answers a change when the replica has it, as the bucket store does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any, Final

from jgroups_py.tools.bench.buckets_caller import waited_seconds
from jgroups_py.tools.bench.ended import end_with
from jgroups_py.tools.bench.latencies import PERCENTILES, write_json
from jgroups_py.tools.commands.mperf_ports import free_block

HOST: Final = "127.0.0.1"
START_SECONDS: Final = 90.0
A_CALLER: Final = 1_000.0
"""Requests a second of one client process."""
BUCKETS: Final = 36
NODES_MAX: Final = 16


@dataclass
class Servers:
    """Processes that serve, and their ports."""

    protocol: str
    ports: list[int]
    processes: list[subprocess.Popen[str]]
    confirmed: bool = False

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes)

    def waited_seconds(self) -> float:
        return sum(waited_seconds(process.pid) for process in self.processes)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def opened(peer: str) -> Iterator[Servers]:
    """Start the servers of a peer, and end them."""
    kind, _, number = peer.partition(":")
    with tempfile.TemporaryDirectory(prefix="bench-buckets-") as folder:
        start = {"buckets": _buckets, "memcached": _memcached, "redis": _redis}[kind]
        servers = start(Path(folder), int(number or 2))
        try:
            yield servers
        finally:
            for process in servers.processes:
                process.terminate()
            for process in servers.processes:
                _end(process)


def _buckets(folder: Path, nodes: int) -> Servers:
    first, doors = free_block(nodes + 3), free_block(max(2, nodes))
    file = folder / "bench.yaml"
    alone = nodes == 1
    names = [f"n{n}" for n in range(1, max(2, nodes) + 1)]
    quorum = "settings: {index_quorum: 1}\n" if nodes <= 2 else ""
    file.write_text(
        f"name: bench-{first}\nbuckets: {BUCKETS}\nstack: tcp.xml\n{quorum}application: jgroups_py.buckets.items.bucket_items:ITEMS\n"
        f"nodes: {{{', '.join(f'{name}: {{}}' for name in names)}}}\n",
        encoding="utf-8",
    )
    where = ["--set", f"TCP.bind_port={first}", "--set", f"TCP.port_range={nodes + 2}"]
    where += ["--set", f"TCPPING.initial_hosts={HOST}[{first}]"]
    where += ["--set", f"TCPPING.port_range={nodes + 2}", "--bind-addr", HOST]
    processes = [
        _run(
            *(sys.executable, "-m", "jgroups_py", "buckets", "node", str(file), name),
            *("--memcached", f"{HOST}:{doors + number}", *where),
        )
        for number, name in enumerate(names)
    ]
    for process in processes:
        assert process.stdout is not None
        _until(process.stdout, "are placed")
    if alone:
        _end(processes.pop())
        for number in range(10 * BUCKETS):
            _answers(doors, b"set a%d 0 0 1\r\n1\r\n" % number, b"STORED\r\n".__eq__)
    return Servers("memcached", [doors + n for n in range(nodes)], processes)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _until(said: IO[str], words: str) -> None:
    for line in said:
        if words in line:
            return
    raise SystemExit("a node has ended before it was ready")


def _memcached(folder: Path, _: int) -> Servers:
    port = free_block(1)
    program = _program("memcached")
    user = ("-u", "root") if os.getuid() == 0 else ()
    process = _run(program, "-l", HOST, "-p", str(port), "-U", "0", *user)
    _answers(port, b"version\r\n", lambda answer: answer.startswith(b"VERSION"))
    return Servers("memcached", [port], [process])


def _redis(folder: Path, _: int) -> Servers:
    first = free_block(2)
    program = _program("redis-server")
    processes = []
    for number in range(2):
        (folder / str(number)).mkdir()
        words = ["--port", str(first + number), "--bind", HOST, "--dir", str(folder / str(number))]
        words += ["--save", "", "--appendonly", "no"]
        if number:
            words += ["--replicaof", HOST, str(first)]
        processes.append(_run(program, *words))
    _answers(first, b"INFO replication\r\n", lambda answer: b"state=online" in answer)
    return Servers("redis", [first], processes, confirmed=True)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"{name} is not installed (Debian, Ubuntu: apt install {name})")
    return found


def _run(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _answers(port: int, line: bytes, holds: Callable[[bytes], bool]) -> None:
    """Ask until the answer begins as expected. Raises SystemExit if it never does."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        try:
            with socket.create_connection((HOST, port), 1.0) as stream:
                stream.sendall(line)
                if holds(stream.recv(10_000)):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"port {port}: no answer for {START_SECONDS:g} s")


def measured(servers: Servers, rate: float, seconds: float) -> dict[str, Any]:
    """Load servers for some seconds. ``rate``: requests a second of all client processes together."""
    callers = max(1, round(rate / A_CALLER))
    plans = [
        {
            "protocol": servers.protocol, "ports": servers.ports, "rate": rate / callers, "seconds": seconds,
            "confirmed": servers.confirmed, "seed": number,
        }
        for number in range(callers)
    ]  # fmt: skip
    before, waited = servers.cpu_seconds(), servers.waited_seconds()
    running = [
        _run(sys.executable, "-m", "jgroups_py.tools.bench.buckets_caller", json.dumps(plan))
        for plan in plans
    ]
    told = []
    for process in running:
        out, _ = process.communicate()
        if process.returncode:
            raise SystemExit("a client process has failed")
        told.append(json.loads(out))
    requests = sum(one["requests"] for one in told)
    filled = callers * 1_000
    return {
        "requests": requests,
        "a_second": round(sum(one["a_second"] for one in told), 1),
        "wrong": sum(one["wrong"] for one in told),
        "cpu_us": round(1e6 * (servers.cpu_seconds() - before) / (requests + filled), 1),
        "client_cpu_us": round(max(one["cpu_us"] for one in told), 1),
        "wait_us": round(1e6 * (servers.waited_seconds() - waited) / (requests + filled), 1),
        "client_wait_us": round(max(one["wait_us"] for one in told), 1),
        **{
            kind: {
                f"p{percent:g}": max(one[kind][f"p{percent:g}"] for one in told)
                for percent in PERCENTILES
            }
            for kind in ("reads", "changes", "late")
        },
    }


def rows(
    peers: Sequence[str], rate: float, seconds: float, rounds: int, say: Callable[[str], None]
) -> dict[str, list[dict[str, Any]]]:
    """Return peer -> figures of each round."""
    found: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
    for number in range(1, rounds + 1):
        for peer in peers:
            say(f"round {number} of {rounds}: {peer}")
            kind, _, nodes = peer.partition(":")
            with opened(peer) as servers:
                whole = rate * int(nodes or 2) if kind == "buckets" else rate
                found[peer].append(measured(servers, whole, seconds))
    return found


def text(found: dict[str, list[dict[str, Any]]]) -> str:
    """Return a line for each round. With several client processes a percentile is that of the slowest one."""
    heads = "".join(f"{f'{kind} p{p:g}':>15}" for kind in ("reads", "changes") for p in PERCENTILES)
    own = f"{'CPU us':>9}{'wait us':>9}{'client us':>11}{'late p99':>10}"
    lines = [f"{'peer':12}{'a second':>10}{own}{heads}"]
    for peer, rounds in found.items():
        for row in rounds:
            cells = "".join(
                f"{row[kind][f'p{p:g}']:15.2f}"
                for kind in ("reads", "changes")
                for p in PERCENTILES
            )
            wrong = f"   {row['wrong']} wrong answers" if row["wrong"] else ""
            own = f"{row['cpu_us']:9.0f}{row['wait_us']:9.0f}{row['client_wait_us']:11.0f}{row['late']['p99']:10.2f}"
            lines.append(f"{peer:12}{row['a_second']:10.0f}{own}{cells}{wrong}")
    return "\n".join(lines)


def growth(found: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Compute how the bucket store grows with its nodes: medians of all rounds. ``efficiency``: requests for a CPU second, in relation to the first number of nodes."""
    lines = []
    for peer, rounds in found.items():
        kind, _, nodes = peer.partition(":")
        if kind == "buckets":
            line = {
                "nodes": int(nodes),
                "a_second": median(row["a_second"] for row in rounds),
                "cpu_seconds_for_1000": round(median(row["cpu_us"] for row in rounds) / 1_000, 3),
            }
            for name in ("reads", "changes"):
                for percent in ("p50", "p99"):
                    line[f"{name}_{percent}"] = median(row[name][percent] for row in rounds)
            lines.append(line)
    for line in lines:
        cost = lines[0]["cpu_seconds_for_1000"] / max(0.001, line["cpu_seconds_for_1000"])
        line["efficiency"] = round(cost, 2)
    return lines


def growth_text(lines: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"{line['nodes']} {'node ' if line['nodes'] == 1 else 'nodes'}: {line['a_second']:.0f} requests/s,"
        f" {line['cpu_seconds_for_1000']:.3f} s of CPU for 1,000, efficiency {line['efficiency']:.2f};"
        f" p50 and p99 of reads {line['reads_p50']:.1f} and {line['reads_p99']:.1f} ms,"
        f" of changes {line['changes_p50']:.1f} and {line['changes_p99']:.1f}"
        for line in lines
    )


def nodes_of(given: str) -> list[str]:
    """Raises argparse.ArgumentTypeError."""
    numbers = given.split(",")
    for number in numbers:
        if not number.isdigit() or not 1 <= int(number) <= NODES_MAX:
            raise argparse.ArgumentTypeError(f"{number!r} is no number from 1 to {NODES_MAX}")
    return [f"buckets:{int(number)}" for number in numbers]


def peers_of(given: str) -> list[str]:
    """Raises argparse.ArgumentTypeError."""
    found = given.split(",")
    for peer in found:
        kind, _, nodes = peer.partition(":")
        fits = kind == "buckets" and nodes.isdigit() and 1 <= int(nodes) <= NODES_MAX
        if not fits and peer not in ("memcached", "redis"):
            raise argparse.ArgumentTypeError(
                f"{peer!r} is none of buckets:1 to buckets:{NODES_MAX}, memcached, redis"
            )
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench-buckets-load", description=__doc__.partition("\n")[0]
    )
    peers = parser.add_mutually_exclusive_group()
    peers.add_argument(
        "--peers", type=peers_of, default=peers_of("buckets:2,buckets:4,memcached,redis")
    )
    peers.add_argument(
        "--nodes",
        type=nodes_of,
        dest="peers",
        metavar="N,...",
        help="bucket stores of so many nodes",
    )
    parser.add_argument("--rate", type=float, default=1_000.0, help="requests a second and node")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    found = rows(
        options.peers, options.rate, options.seconds, options.rounds,
        lambda line: print(line, file=sys.stderr),
    )  # fmt: skip
    grown = growth(found)
    print(text(found))
    print(growth_text(grown))
    write_json(options.json, found | {"growth": grown})
    return int(any(row["wrong"] for rounds in found.values() for row in rounds))


if __name__ == "__main__":
    end_with(main)
