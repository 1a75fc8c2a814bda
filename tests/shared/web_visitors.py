"""Visitors of examples/web_map.py, and their answers. They are used while workers and hosts are killed."""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from examples.web_map import Host, ask, replicating

PAGES = ("home", "help")
CART_THINGS = 50
"""The number of things after which a visitor takes a new cart."""
CUT_OFF = (OSError, http.client.HTTPException)
"""The errors of a client whose worker dies. The request may have been carried out."""


class Visitor:
    """One thread: it counts hits and puts things into carts, at one host until that has ended, then at the next one."""

    def __init__(self, hosts: Sequence[Host], first: int) -> None:
        self._hosts, self._at = hosts, first
        self.hits: Counter[str] = Counter()
        self.unsure_hits: Counter[str] = Counter()
        self.carts: dict[str, set[str]] = {}
        """The answered things of each cookie."""
        self.unsure: dict[str, set[str]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                cookie = self._ask("GET", "/cart")[2]["set-cookie"].partition(";")[0]
            except CUT_OFF:
                continue
            self.carts[cookie], self.unsure[cookie] = set(), set()
            for _ in range(CART_THINGS):
                if self._stop.is_set():
                    break
                number += 1
                self._hit(PAGES[number % len(PAGES)])
                self._put(cookie, f"thing{number}")

    def _hit(self, page: str) -> None:
        try:
            status, _, _ = self._ask("POST", f"/hits/{page}")
            self.hits[page] += status == 200
        except CUT_OFF:
            self.unsure_hits[page] += 1

    def _put(self, cookie: str, thing: str) -> None:
        try:
            status, cart, _ = self._ask("POST", f"/cart?{thing}=1", cookie)
        except CUT_OFF:
            self.unsure[cookie].add(thing)
            return
        if status == 200:
            assert thing in cart
            self.carts[cookie].add(thing)

    def _ask(self, method: str, path: str, cookie: str = "") -> tuple[int, Any, dict[str, str]]:
        try:
            return ask(self._hosts[self._at].port, method, path, cookie)
        except CUT_OFF:
            self._at = (self._at + 1) % len(self._hosts)
            time.sleep(0.01)
            raise


@contextmanager
def visitors_of(hosts: Sequence[Host], many: int) -> Iterator[list[Visitor]]:
    """Run so many visitors, spread over the hosts, until the end of the block."""
    found = [Visitor(hosts, n % len(hosts)) for n in range(many)]
    try:
        yield found
    finally:
        for one in found:
            one.stop()


def kill_a_worker(host: Host) -> int:
    """Kill the worker that answers now (kill -9). Return its pid."""
    until = time.monotonic() + 60
    while True:
        try:
            pid = int(ask(host.port, "GET", "/hits/home")[2]["x-worker"])
            break
        except CUT_OFF:  # this worker was killed just before
            if time.monotonic() > until:
                raise
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_who_replicates(host: Host, name: str) -> int:
    """Kill the worker that replicates the map ``name`` (kill -9). Return its pid when another worker replicates."""
    pid = replicating(host.port, name)
    os.kill(pid, signal.SIGKILL)
    assert replicating(host.port, name) != pid
    return pid


def wait_for_hits(visitors: Sequence[Visitor], more: int, seconds: float = 60.0) -> None:
    """Wait until a number of further hits were answered."""
    goal = answered_hits(visitors) + more
    until = time.monotonic() + seconds
    while answered_hits(visitors) < goal:
        assert time.monotonic() < until, f"no {more} hits in {seconds} s"
        time.sleep(0.01)


def answered_hits(visitors: Sequence[Visitor]) -> int:
    return sum(sum(one.hits.values()) for one in visitors)


def judge(
    hosts: Sequence[Host],
    visitors: Sequence[Visitor],
    seconds: float = 90.0,
    *,
    more: int = 0,
    more_unsure: int = 0,
) -> None:
    """Check that all hosts show the same contents within ``seconds``: every answered hit, and no hit without a request.
    ``more``: hits of the first page that others have counted."""
    hits = sum((one.hits for one in visitors), Counter({PAGES[0]: more}))
    unsure = sum((one.unsure_hits for one in visitors), Counter({PAGES[0]: more_unsure}))
    until = time.monotonic() + seconds
    for page in PAGES:
        while True:
            shown = [ask(host.port, "GET", f"/hits/{page}")[1]["hits"] for host in hosts]
            if (len(set(shown)) == 1 and shown[0] >= hits[page]) or time.monotonic() > until:
                break
            time.sleep(0.05)
        for count in shown:
            assert hits[page] <= count <= hits[page] + unsure[page], (page, shown, unsure[page])
        assert len(set(shown)) == 1, (page, shown)
    for visitor in visitors:
        for cookie, things in visitor.carts.items():
            while True:
                carts = [set(ask(host.port, "GET", "/cart", cookie)[1]) for host in hosts]
                if all(things <= cart for cart in carts) and carts[0] == carts[-1]:
                    break
                missing = [sorted(things - cart) for cart in carts]
                assert time.monotonic() < until, (cookie, missing)
                time.sleep(0.05)
            for cart in carts:
                assert cart <= things | visitor.unsure[cookie], (cookie, cart - things)
