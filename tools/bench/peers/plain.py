"""A process of mperf for a library that has no members of its own: it publishes, takes and checks in one thread.

A library defines publishing and taking. It reads and writes the lines of mperf_run.py. A process that has started a server counts the
server's CPU time as its own.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import psutil

from jgroups_py.tools.child_side import say
from jgroups_py.tools.commands.mperf_load import HEAD, SEQNO_BITS, Payloads
from jgroups_py.tools.commands.mperf_run import LAST_WAIT, WINDOWS, Check

START_SECONDS: Final = 20.0
"""The longest time until a server answers and all processes hear each other."""
END_SECONDS: Final = 5.0
"""The most seconds in which a server ends; then it is killed."""
IDLE_SECONDS: Final = 0.01
"""Seconds for which a process that does not send waits for messages before it looks at the clock."""
TAKEN_MAX: Final = 1000
"""The most messages that are taken before they are checked."""
_SENDER_BYTES: Final = HEAD.size - SEQNO_BITS // 8
_PR_SET_PDEATHSIG: Final = 1


class PlainMember:
    """One process. Subclasses have ``open``, ``publish`` and ``take``."""

    sent_at_once = 64
    """Messages that are sent between two checks for arrived ones."""

    def __init__(self, number: int, first: int, warm_up: float, plan: dict[str, Any]) -> None:
        self.number, self.first, self.warm_up, self.plan = number, first, warm_up, plan
        self.check = Check(plan["senders"])
        self.sent = 0
        self._server: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Connect. Return when all processes hear each other."""
        raise NotImplementedError

    def publish(self, payloads: Sequence[bytes]) -> None:
        """Send to all processes, including this process."""
        raise NotImplementedError

    def take(self, wait: float) -> None:
        """Give arrived messages to ``self.check``. If there is nothing, wait so many seconds for it."""
        raise NotImplementedError

    def arrived(self, payloads: Sequence[bytes]) -> None:
        """Check arrived messages, each sender's as one run: a check of each message would cost more than its
        transport."""
        runs: dict[bytes, list[bytes]] = {}
        for payload in payloads:
            runs.setdefault(payload[:_SENDER_BYTES], []).append(payload)
        for run in runs.values():
            self.check.take(run)

    def serve(self, *command: str) -> None:
        """Run a server that ends with this process."""
        quiet = subprocess.DEVNULL
        self._server = subprocess.Popen(
            command, stdout=quiet, stderr=quiet, preexec_fn=_end_with_parent
        )

    def end(self) -> None:
        """End the server, if this process has one."""
        if self._server is not None:
            self._server.terminate()
            try:
                self._server.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()

    def run(self) -> None:
        """Read and write the lines of a member of mperf."""
        try:
            self.open()
            say(event="ready")
            self._measured()
        finally:
            self.end()

    def _measured(self) -> None:
        line = sys.stdin.readline()
        if not line:
            return
        cpu = self._cpu_seconds()
        rates = self._rates(json.loads(line)["start"])
        say(event="sent", sent=self.sent)
        total = sum(json.loads(sys.stdin.readline())["totals"])
        seen, since = -1, time.monotonic()
        while self.check.total < total and time.monotonic() - since < LAST_WAIT:
            if self.check.total != seen:
                seen, since = self.check.total, time.monotonic()
            self.take(IDLE_SECONDS)
        say(
            event="done",
            name=f"M{self.number + 1}",
            sent=self.sent,
            delivered=self.check.total,
            duplicates=self.check.duplicates,
            out_of_order=self.check.out_of_order,
            lost=total - self.check.total,
            rates=rates,
            cpu_s=self._cpu_seconds() - cpu,
            statistics={},
        )
        sys.stdin.readline()

    def _rates(self, start: float) -> list[float]:
        clock, seconds = time.monotonic, self.plan["seconds"]
        due = [start + self.warm_up + seconds * n / WINDOWS for n in range(WINDOWS + 1)]
        samples: list[tuple[float, int]] = []
        made, base = Payloads(self.plan["size"], self.sent_at_once), self.number << SEQNO_BITS
        sends = self.number < self.plan["senders"]
        time.sleep(max(0.0, start - clock()))
        while len(samples) < len(due):
            if clock() >= due[len(samples)]:
                samples.append((clock(), self.check.total))
            if sends:
                self.publish(made.beginning(base + self.sent))
                self.sent += self.sent_at_once
            self.take(0 if sends else IDLE_SECONDS)
        return [
            (after - before) / (end - begin) for (begin, before), (end, after) in pairwise(samples)
        ]

    def _cpu_seconds(self) -> float:
        own = time.process_time()
        if self._server is None:
            return own
        times = psutil.Process(self._server.pid).cpu_times()
        return own + float(times.user + times.system)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
