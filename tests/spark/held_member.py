"""``jgroups-py export`` with a member that can be held: it lets tasks end, and writes rows, only as far as it is told.

    python tests/spark/held_member.py export --name A --token-file FOLDER/token ...

``FOLDER/A.tasks`` has the number of tasks that may end, ``FOLDER/A.writes`` the number of batches that may be written. Without
such a file there is no limit. So a test that kills something in the middle of a job surely finds the middle.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any, Final

import trio

from jgroups_py.export.messages import StageRows
from jgroups_py.export.server import ExportPort, PortClient
from jgroups_py.export.snapshots import KeptSnapshot
from jgroups_py.export.staging import Staging
from jgroups_py.export.tree import TreeSource

TASKS: Final = 16
"""The number of tasks that read a snapshot."""
PATIENCE: Final = 100.0
"""Seconds after which a member goes on, because its test has failed. A client waits 120 s for an answer."""


def hold(base: Path) -> None:
    """Let this process's member wait as ``base`` with .tasks and .writes says."""
    stage, write, send_state = Staging.stage, TreeSource.write, ExportPort._send_state
    writes = itertools.count()

    async def until_allowed(what: str, number: float) -> None:
        with trio.move_on_after(PATIENCE):
            while number >= _limit(base.with_suffix(what)):  # noqa: ASYNC110 - another process tells
                await trio.sleep(0.02)

    async def held_stage(self: Staging, said: StageRows, body: bytes) -> int:
        if said.last:
            await until_allowed(".tasks", said.task)
        return await stage(self, said, body)

    async def held_send_state(
        self: ExportPort, client: PortClient, kept: KeptSnapshot, start: int, stop: int
    ) -> None:
        await until_allowed(".tasks", round(start * TASKS / max(1, len(kept.frozen))))
        await send_state(self, client, kept, start, stop)

    async def held_write(self: TreeSource, *args: Any, **how: Any) -> None:
        await until_allowed(".writes", next(writes))
        await write(self, *args, **how)

    Staging.stage = held_stage  # type: ignore[method-assign]
    ExportPort._send_state = held_send_state  # type: ignore[method-assign]
    TreeSource.write = held_write  # type: ignore[method-assign]


def _limit(file: Path) -> float:
    return int(file.read_text()) if file.exists() else math.inf


def main() -> None:
    from jgroups_py.tools.start import main as tools

    words = dict(itertools.pairwise(sys.argv))
    hold(Path(words["--token-file"]).with_name(words["--name"]))
    tools()


if __name__ == "__main__":
    main()
