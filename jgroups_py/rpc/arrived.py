"""ArrivedCalls: calls that are served when the step of the stack that hands them up has ended.

The task that reads the channel would serve them a turn of the loop later, and their replies would leave another turn later.
A method is a user's code, so it does not run inside a protocol's handler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol as Interface

from jgroups_py.values.batch import Batch


class Steps(Interface):
    """The part of the machine that this module needs."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Run ``callback`` when the handler that is running now has returned."""


class ArrivedCalls:
    """Runs of calls in their order. ``serve(runs)`` is called once for all that arrive in one step."""

    def __init__(self, machine: Steps, serve: Callable[[list[Batch]], None]) -> None:
        self._machine = machine
        self._serve = serve
        self._runs: list[Batch] = []
        self.count = 0
        """The number of calls that have arrived and are not served."""

    def add(self, run: Batch) -> None:
        if not self._runs:
            self._machine.soon(self._end_step)
        self._runs.append(run)
        self.count += len(run)

    def drop_multicasts(self) -> list[Batch]:
        """Remove and return the multicasts, which a fetched state contains."""
        dropped = [run for run in self._runs if run.dest is None]
        self._runs = [run for run in self._runs if run.dest is not None]
        self.count -= sum(map(len, dropped))
        return dropped

    def _end_step(self) -> None:
        runs, self._runs, self.count = self._runs, [], 0
        self._serve(runs)
