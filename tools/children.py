"""Members in processes of their own, for commands that measure: JSON lines in and out.

The parent starts ``python -m MODULE ARGUMENT`` per member, sends it orders and reads its lines. A child whose standard
input ends leaves the group. child_side.py has the child's part.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from jgroups_py.drill.run.patience import busy_text, patient
from jgroups_py.errors import JGroupsError
from jgroups_py.tools.child_side import lines_of

_log = logging.getLogger(__name__)
_WORDS_KEPT = 4096
"""Bytes of a child's standard error that are kept."""


class ChildError(JGroupsError):
    """The measurement could not be made."""


class Child:
    """A member's process, seen from the parent."""

    def __init__(self, process: trio.Process, name: str) -> None:
        assert process.stdin is not None and process.stdout is not None
        self.process = process
        self.name = name
        self.stdin = process.stdin
        self.lines = lines_of(process.stdout)
        self.problem = b""

    async def tell(self, **what: Any) -> None:
        """Send one JSON line to the child."""
        try:
            await self.stdin.send_all(json.dumps(what).encode() + b"\n")
        except trio.BrokenResourceError:
            pass  # the child has died; the next read reports it

    async def hear(self, event: str) -> dict[str, Any]:
        """Return the child's next line about ``event``. Raise ``ChildError`` if the child has died."""
        async for line in self.lines:
            told: dict[str, Any] = json.loads(line)
            if told["event"] == event:
                return told
        await self.process.wait()
        await trio.sleep(0.05)  # time for the task that reads standard error
        raise self.ended()

    def ended(self) -> ChildError:
        """Return an error with the child's last words."""
        words = self.problem.decode(errors="replace")
        _log.debug("member %s: %s", self.name, words)
        lines = words.strip().splitlines()
        last = lines[-1] if lines else f"exit code {self.process.returncode}"
        return ChildError(f"member {self.name} ended early: {last}")

    async def collect_problem(self) -> None:
        """Read standard error, beside everything else."""
        assert self.process.stderr is not None
        async for data in self.process.stderr:
            self.problem = (self.problem + data)[-_WORDS_KEPT:]


async def start_process(module: str, argument: Any) -> trio.Process:
    """Start a child that runs ``module`` with ``argument`` as JSON."""
    return await trio.lowlevel.open_process(
        [sys.executable, "-m", module, json.dumps(argument)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@asynccontextmanager
async def ready_children(
    names: Sequence[str],
    start: Callable[[int], Awaitable[trio.Process]],
    seconds: float,
    *,
    missing: str,
    lead: float = 0.0,
    patience: float = 8.0,
    joined: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[list[Child]]:
    """Start a child for each name, wait until all have said ``ready``, and let them leave at the end.

    Args:
        start: starts the process of the child with this number.
        seconds: the time in which all children must be ready on an idle machine.
        missing: the name for the missing part in the error of late children.
        lead: seconds between the first child and the second. The others join faster if a member is present.
        patience: seconds that children have to leave on an idle machine; then they are killed, with a warning.
        joined: hears how many children are ready.

    Raises:
        ChildError: in a group of exceptions: a child died, or was not ready in time.
    """
    children: list[Child] = []
    async with trio.open_nursery() as nursery:
        try:
            for number, name in enumerate(names):
                children.append(Child(await start(number), name))
                nursery.start_soon(children[-1].collect_problem)
                if number == 0:
                    await trio.sleep(lead)
            seconds = patient(seconds)
            with trio.move_on_after(seconds) as scope:
                for count, child in enumerate(children, 1):
                    await child.hear("ready")
                    joined(count)
            if scope.cancelled_caught:
                raise ChildError(f"{missing} within {seconds:.0f} s{busy_text()}")
            yield children
        finally:
            with trio.CancelScope(shield=True):
                await end_all(children, patience)
            nursery.cancel_scope.cancel()


async def end_all(children: Sequence[Child], patience: float) -> None:
    """Let children leave; kill those that have not left within ``patience`` seconds, more on a busy machine."""
    for child in children:
        await child.stdin.aclose()
    seconds = patient(patience)
    with trio.move_on_after(seconds):
        for child in children:
            await child.process.wait()
    for child in children:
        if child.process.returncode is None:
            _log.warning(
                "member %s has not left within %.0f s%s: killed", child.name, seconds, busy_text()
            )
            child.process.kill()
            await child.process.wait()
        with contextlib.suppress(RuntimeError):  # a task that still reads from the child ends, too
            await child.lines.aclose()
