"""Runs an asynchronous command. SIGINT and SIGTERM cancel it.

Cancelled code leaves its ``async with open_channel(...)`` blocks, so the member says goodbye to its
group. A second signal does not wait for that.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

import trio


def run_command(command: Callable[[], Awaitable[int | None]]) -> int:
    """Run the command to its end. Return its exit code, or 128 + the number of the signal."""

    async def guarded() -> int:
        result = 0
        async with trio.open_nursery() as nursery:

            async def obey(task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
                nonlocal result
                with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                    task_status.started()
                    async for number in signals:
                        result = 128 + number
                        nursery.cancel_scope.cancel()
                        break

            await nursery.start(obey)
            result = await command() or 0
            nursery.cancel_scope.cancel()
        return result

    return trio.run(guarded)
