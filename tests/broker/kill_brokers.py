"""Kill the live broker under load of stomp.py clients, again and again, and judge the clients' answers.

Promises: a message whose receipt came is delivered; a message whose acknowledgement has a receipt is not delivered
again; messages of one client to a queue come in their order, apart from repetitions.

python tests/broker/kill_brokers.py --kills 50
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import stomp
from stomp.exception import StompException

ROOT = Path(__file__).resolve().parents[2]
PAIRS = 4
"""The number of senders, and of receivers; each pair has a queue."""
PATIENCE = 90.0


class Failed(Exception):
    """A broker is missing, or a client got a wrong answer."""


class Node:
    """A broker in a process of its own."""

    def __init__(self, name: str, port: int, log: Path) -> None:
        self.name, self.port, self._log = name, port, log
        self.start()

    def start(self) -> None:
        options = ["--name", self.name, "--port", str(self.port), "--backups-min", "1"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.broker", *options],
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Client:
    """A connection that is made again when it is lost. It asks for a receipt of every action."""

    def __init__(self, ports: list[int]) -> None:
        self._hosts = [("127.0.0.1", port) for port in ports]
        self._receipts: set[str] = set()
        self._changed = threading.Condition()
        self._number = 0
        self.inbox: list[Any] = []
        self.generation = 0
        """The number of the connection."""
        self.connect()

    def connect(self) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            connection = stomp.StompConnection12(self._hosts, reconnect_attempts_max=1)
            connection.set_listener("", _Listener(self, connection))
            with self._changed:
                self.connection = connection
                self.lost = False
                self.inbox.clear()
                self._receipts.clear()
            try:
                connection.connect(wait=True)
                self.generation += 1
                return
            except (StompException, OSError):
                if time.monotonic() > until:
                    raise Failed("no broker is live") from None
                time.sleep(0.1)

    def done(self, action: Any, *arguments: Any, **headers: Any) -> bool:
        """Carry out an action and wait for its receipt. False: the connection was lost before it came."""
        self._number += 1
        receipt = f"r{self._number}"
        try:
            action(*arguments, receipt=receipt, **headers)
        except (StompException, OSError):
            return False
        return self._wait(lambda: receipt in self._receipts)

    def message(self) -> Any:
        """Return the next one. None: the connection was lost."""
        there = self._wait(lambda: bool(self.inbox), 1.0) and not self.lost
        return self.inbox.pop(0) if there else None

    def _wait(self, condition: Any, patience: float = PATIENCE) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: condition() or self.lost, patience)
            return bool(condition())

    def heard(self, connection: Any, *, message: Any = None, receipt: str = "") -> None:
        """Note a message, a receipt or the end of a connection. A former connection may report its end only after the next
        one was made."""
        with self._changed:
            if connection is not self.connection:
                return
            if message is not None:
                self.inbox.append(message)
            elif receipt:
                self._receipts.add(receipt)
            else:
                self.lost = True
            self._changed.notify_all()


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Tells a client what one of its connections receives."""

    def __init__(self, client: Client, connection: Any) -> None:
        self._client, self._connection = client, connection

    def on_message(self, frame: Any) -> None:
        self._client.heard(self._connection, message=frame)

    def on_receipt(self, frame: Any) -> None:
        self._client.heard(self._connection, receipt=frame.headers["receipt-id"])

    def on_disconnected(self) -> None:
        self._client.heard(self._connection)


class Run:
    """The answers that clients got."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self.ending = threading.Event()
        self.all_sent = threading.Event()
        self.sent: dict[int, int] = defaultdict(int)
        """Queue -> the newest message whose receipt came."""
        self.acknowledged: dict[int, set[str]] = defaultdict(set)
        """Queue -> messages with the attempt at which they were sent."""
        self.seen: dict[int, int] = defaultdict(int)
        """Queue -> the newest message that was delivered."""
        self.problems: list[str] = []
        self.redelivered = 0

    def _client(self, run: Any, pair: int) -> None:
        try:
            run(pair)
        except Exception as error:
            self.problems.append(f"{run.__name__} {pair}: {error!r}")

    def threads(self, run: Any) -> list[threading.Thread]:
        """Clients, one for each queue. Wait until all have begun."""
        found = [
            threading.Thread(target=self._client, args=(run, pair), daemon=True)
            for pair in range(PAIRS)
        ]
        for thread in found:
            thread.start()
        return found

    def send(self, pair: int) -> None:
        client, number, attempt = Client(self._ports), 1, 1
        while not self.ending.is_set():
            if client.done(client.connection.send, f"/queue/{pair}", f"{number} {attempt}"):
                self.sent[pair] = number
                number, attempt = number + 1, 1
            else:
                client.connect()  # send the message again, because its outcome is unknown
                attempt += 1
        with suppress(Exception):
            client.connection.disconnect()

    def receive(self, pair: int) -> None:
        client, subscribed = Client(self._ports), 0
        while not self._is_all(pair):
            if subscribed != client.generation:
                if not client.done(
                    client.connection.subscribe, f"/queue/{pair}", 1, ack="client-individual"
                ):
                    client.connect()
                    continue
                subscribed = client.generation
            frame = client.message()
            if frame is None:
                if client.lost:
                    client.connect()
                continue
            self._take(pair, frame.body, "redelivered" in frame.headers)
            if client.done(client.connection.ack, frame.headers["ack"]):
                self.acknowledged[pair].add(frame.body)

    def _take(self, pair: int, body: str, again: bool) -> None:
        self.redelivered += again
        number = int(body.split()[0])
        if body in self.acknowledged[pair]:
            self.problems.append(f"queue {pair}: {body} came again after its acknowledgement")
        if number > self.seen[pair] + 1:
            self.problems.append(f"queue {pair}: {number} came after {self.seen[pair]}")
        self.seen[pair] = max(number, self.seen[pair])

    def _is_all(self, pair: int) -> bool:
        return self.all_sent.is_set() and self.seen[pair] >= self.sent[pair]


def run(kills: int, load: int, ports: list[int], log: Path) -> dict[str, Any]:
    """``load``: confirmed messages between two kills. Return figures; ``problems`` is empty when all promises were
    kept."""
    nodes = [Node(name, port, log) for name, port in zip("AB", ports, strict=True)]
    watched = Run(ports)
    outages: list[float] = []
    try:
        senders, receivers = watched.threads(watched.send), watched.threads(watched.receive)
        for kill in range(kills + 1):
            begun = time.monotonic()
            _more(watched, 1)
            if kill:
                outages.append(time.monotonic() - begun)
            _more(watched, load)
            if kill == kills:
                break
            live = _live(nodes)
            live.kill()
            live.start()
            print(f"kill {kill + 1} of {kills}: {sum(watched.sent.values())} sent", file=sys.stderr)
        watched.ending.set()
        for thread in senders:
            thread.join(PATIENCE)
        watched.all_sent.set()
        for thread in receivers:
            thread.join(PATIENCE)
    finally:
        for node in nodes:
            node.kill()
    for pair in range(PAIRS):
        if watched.seen[pair] < watched.sent[pair]:
            watched.problems.append(
                f"queue {pair}: {watched.sent[pair]} were confirmed, {watched.seen[pair]} came"
            )
    return {
        "kills": kills,
        "sent": sum(watched.sent.values()),
        "acknowledged": sum(map(len, watched.acknowledged.values())),
        "redelivered": watched.redelivered,
        "longest_outage_seconds": round(max(outages, default=0.0), 2),
        "problems": watched.problems,
    }


def _more(watched: Run, number: int) -> None:
    """Wait for a number of further confirmed messages."""
    goal, until = sum(watched.sent.values()) + number, time.monotonic() + PATIENCE
    while sum(watched.sent.values()) < goal:
        if time.monotonic() > until or watched.problems:
            raise Failed(f"nothing is confirmed any more; {watched.problems}")
        time.sleep(0.02)


def _live(nodes: list[Node]) -> Node:
    """Return the node that takes connections."""
    for node in nodes:
        probe = stomp.StompConnection12([("127.0.0.1", node.port)], reconnect_attempts_max=1)
        with suppress(StompException, OSError):
            probe.connect(wait=True)
            probe.disconnect()
            return node
    raise Failed("no broker is live")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--load", type=int, default=200, help="messages between two kills")
    parser.add_argument("--ports", type=int, nargs=2, default=[16613, 16614])
    parser.add_argument("--log", type=Path, default=ROOT / "build" / "broker-kills.log")
    parser.add_argument("--nodes-port", type=int, default=16600, help="for nodes among themselves")
    options = parser.parse_args()
    os.environ["JGROUPS_BIND_PORT"] = str(options.nodes_port)
    os.environ["JGROUPS_TCPPING_INITIAL_HOSTS"] = f"localhost[{options.nodes_port}]"
    logging.getLogger("stomp.py").setLevel(logging.CRITICAL)
    options.log.parent.mkdir(parents=True, exist_ok=True)
    found = run(options.kills, options.load, options.ports, options.log)
    print(json.dumps(found, indent=2))
    sys.exit(bool(found["problems"]))


if __name__ == "__main__":
    main()
