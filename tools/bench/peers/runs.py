"""Makes the runs: each case with all libraries that have it, one after the other, within an announced time."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from typing import Any

import trio

from jgroups_py.driver.unwrap import leaves
from jgroups_py.tools.bench.peers.libraries import Peer, has, names, peers
from jgroups_py.tools.bench.peers.measures import MEASURES, Figures, expected_seconds
from jgroups_py.tools.bench.peers.plan import Case, PeersPlan
from jgroups_py.tools.bench.peers.summary import summary
from jgroups_py.tools.children import ChildError


class Bench:
    """Makes the runs and keeps their figures."""

    def __init__(self, plan: PeersPlan, progress: Callable[[str], None]) -> None:
        self.plan = plan
        self._progress = progress
        self._peers, self.not_measured = peers(plan.leave_out)
        self._cases = list(plan.cases())
        self._begin = time.monotonic()
        self.rows: dict[str, list[str]] = {}
        """Text of a row -> libraries that have it, measured or not."""

    @property
    def seconds(self) -> float:
        """The expected time of all runs."""
        return self.plan.runs * sum(
            expected_seconds(self.plan, peer, case)
            for case in self._cases
            for peer in self._peers
            if has(peer, case)
        )

    @property
    def seconds_max(self) -> float:
        """The longest time of all runs: a case that begins at the last moment may take all its time."""
        longest = max((case.seconds_max for case in self._cases), default=0.0)
        return min(
            60 * self.plan.minutes + longest,
            self.plan.runs
            * sum(
                case.seconds_max for case in self._cases for peer in self._peers if has(peer, case)
            ),
        )

    def run(self, number: int) -> dict[tuple[str, str], dict[str, float]]:
        """Make one run: each case with all peers, one after the other."""
        found: dict[tuple[str, str], dict[str, float]] = {}
        cluster = f"peers-{os.getpid()}-{number}"
        turn = number % len(self._peers)
        in_turn = self._peers[turn:] + self._peers[:turn]
        for count, case in enumerate(self._cases, 1):
            for peer in in_turn:
                if not has(peer, case):
                    continue
                self._progress(
                    f"{time.monotonic() - self._begin:5.0f} s, run {number + 1} of {self.plan.runs}, "
                    f"case {count} of {len(self._cases)}: {case.text}: {peer.name}"
                )
                for rest, figures in self._try(case, peer, cluster).items():
                    found[case.text + rest, peer.name] = dict(figures)
                    self.rows[case.text + rest] = names(case, self.plan.leave_out)
        return found

    def _try(self, case: Case, peer: Peer, cluster: str) -> Figures:
        """Return the figures; an empty dictionary if there are none, and the result gives the reason."""
        problem = f"not done within {case.seconds_max:g} s"
        if time.monotonic() - self._begin > 60 * self.plan.minutes:
            problem = f"{self.plan.minutes:g} minutes were over"
        else:
            try:
                found = trio.run(self._measured, case, peer, cluster)
                if found is not None:
                    return found
            except* Exception as group:  # no error may cost the other figures
                first = leaves(group)[0]
                kind = "" if isinstance(first, ChildError) else f"{type(first).__name__}: "
                problem = f"{kind}{first}"
        self.not_measured.append(f"{case.text}, {peer.name}: {problem}")
        return {}

    async def _measured(self, case: Case, peer: Peer, cluster: str) -> Figures | None:
        """Return the figures; None: the time of the case was over."""
        with trio.move_on_after(case.seconds_max):
            return await MEASURES[case.kind](self.plan, peer, case, cluster)
        return None


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes"


def measure(plan: PeersPlan, progress: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Return the object that ``--json`` prints."""
    bench = Bench(plan, progress)
    progress(f"It takes {_minutes(bench.seconds)}, and {_minutes(bench.seconds_max)} at most.")
    before = round(os.getloadavg()[0], 2)
    runs = [bench.run(number) for number in range(plan.runs)]
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "load_before": before,
        "load_after": round(os.getloadavg()[0], 2),
        "runs": plan.runs,
        "seconds": plan.seconds,
        "warm_up": plan.warm_up,
        "rows": summary(runs, bench.rows),
        "not_measured": bench.not_measured,
    }
