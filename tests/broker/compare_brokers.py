"""Measure our broker and another STOMP broker: the same clients of stomp.py, in turns, in one run.

    python tests/broker/compare_brokers.py --artemis --messages 200 --rounds 5
    python tests/broker/compare_brokers.py --beside 21613

Four senders wait for each receipt, four receivers acknowledge each message with a receipt. It prints for each broker:
messages a second (median of the rounds), and milliseconds to a receipt. It starts our two nodes. With ``--artemis`` it
also starts a live ActiveMQ Artemis and its backup (``artemis_pair.py``); with ``--beside`` the other broker is already
running. Only figures of one run may be compared.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from artemis_pair import artemis_pair
from kill_brokers import PAIRS, Client, Failed, Node, _live

ROOT = Path(__file__).resolve().parents[2]


class Round:
    """A round: each pair sends its messages through one broker."""

    def __init__(self, port: int, messages: int, size: int) -> None:
        self._port, self._messages, self._body = port, messages, "x" * size
        self.waits: list[float] = []
        """The seconds to each receipt are added to a list."""
        self._problems: list[BaseException] = []

    def run(self) -> float:
        """Return messages a second."""
        queues = [f"/queue/bench{os.getpid()}.{time.monotonic_ns()}.{n}" for n in range(PAIRS)]
        clients = [(Client([self._port]), Client([self._port])) for _ in queues]
        begun = time.perf_counter()
        threads = []
        for queue, (sender, receiver) in zip(queues, clients, strict=True):
            threads += [
                threading.Thread(target=self._kept, args=(self._send, sender, queue)),
                threading.Thread(target=self._kept, args=(self._receive, receiver, queue)),
            ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begun
        for pair in clients:
            for client in pair:
                client.connection.disconnect()
        if self._problems:
            raise self._problems[0]
        return self._messages * PAIRS / seconds

    def _kept(self, run: Callable[[Client, str], None], client: Client, queue: str) -> None:
        try:
            run(client, queue)
        except BaseException as problem:
            self._problems.append(problem)

    def _send(self, client: Client, queue: str) -> None:
        headers = {"persistent": "true", "destination-type": "ANYCAST"}
        for _ in range(self._messages):
            begun = time.perf_counter()
            if not client.done(client.connection.send, queue, self._body, **headers):
                raise Failed(f"no receipt from port {self._port}")
            self.waits.append(time.perf_counter() - begun)

    def _receive(self, client: Client, queue: str) -> None:
        headers = {"ack": "client-individual", "subscription-type": "ANYCAST"}
        if not client.done(client.connection.subscribe, queue, 1, **headers):
            raise Failed(f"no subscription at port {self._port}")
        for _ in range(self._messages):
            until = time.monotonic() + 60
            while (frame := client.message()) is None:
                if client.lost or time.monotonic() > until:
                    raise Failed(f"no message from port {self._port}")
            if not client.done(client.connection.ack, frame.headers["ack"]):
                raise Failed(f"an acknowledgement has no receipt from port {self._port}")


def compare(ports: dict[str, int], messages: int, size: int, rounds: int) -> dict[str, Any]:
    """Measure the brokers in turns, after an uncounted round."""
    rates: dict[str, list[float]] = {name: [] for name in ports}
    waits: dict[str, list[float]] = {name: [] for name in ports}
    for number in range(rounds + 1):
        for name, port in ports.items():
            one = Round(port, messages, size)
            rate = one.run()
            if number:
                rates[name].append(rate)
                waits[name] += one.waits
    found: dict[str, Any] = {}
    for name in ports:
        times = sorted(waits[name])
        found[name] = {
            "messages_per_second": round(statistics.median(rates[name])),
            "rounds": [round(rate) for rate in rates[name]],
            "receipt_p50_ms": round(times[len(times) // 2] * 1000, 1),
            "receipt_p99_ms": round(times[int(len(times) * 0.99)] * 1000, 1),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--beside", type=int, help="the STOMP port of the other broker")
    parser.add_argument("--artemis", action="store_true", help="get and start ActiveMQ Artemis")
    parser.add_argument("--messages", type=int, default=200, help="of each pair in one round")
    parser.add_argument("--size", type=int, default=1_000, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ports", type=int, nargs=2, default=[16613, 16614])
    parser.add_argument("--nodes-port", type=int, default=16600)
    options = parser.parse_args()
    os.environ["JGROUPS_BIND_PORT"] = str(options.nodes_port)
    os.environ["JGROUPS_TCPPING_INITIAL_HOSTS"] = f"localhost[{options.nodes_port}]"
    logging.getLogger("stomp.py").setLevel(logging.CRITICAL)
    log = ROOT / "build" / "compare-brokers.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    others = ExitStack()
    nodes = [Node(name, port, log) for name, port in zip("AB", options.ports, strict=True)]
    try:
        Client(options.ports)
        ports = {"examples/broker": _live(nodes).port}
        if options.beside:
            ports["other"] = options.beside
        if options.artemis:
            ports["Artemis"] = others.enter_context(artemis_pair(ROOT / "build" / "artemis"))
        print(json.dumps(compare(ports, options.messages, options.size, options.rounds), indent=2))
    finally:
        others.close()
        for node in nodes:
            node.kill()


if __name__ == "__main__":
    main()
