"""Waits of tasks that only end, in fewer calls than trio's own functions take.

``trio.lowlevel.wait_task_rescheduled`` makes two coroutines, a trap and an outcome for each wait. Here one trap and one
outcome serve all waits. A task that waits so is marked in ``custom_sleep_data``, which trio clears when it wakes the
task, or cancels its wait. So whoever wakes the task sees whether it still waits.

    task.custom_sleep_data = mark
    await waited()
                                    if task.custom_sleep_data is mark:
                                        trio.lowlevel.reschedule(task, WAKE)
"""

from __future__ import annotations

import types
from collections.abc import Generator
from typing import Any, Final

import outcome
import trio


class _Nothing(outcome.Value[None]):  # type: ignore[misc]  # final for those who check types; this one is one, too
    """A value that may be given again and again, because it is None."""

    __slots__ = ()

    def unwrap(self) -> None:
        """Return the value, without a note that it was used."""


def _end(_: Any) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.SUCCEEDED


WAKE: Final = _Nothing(None)
_TRAP: Final = trio.lowlevel.wait_task_rescheduled(_end).send(None)  # noqa: ASYNC105


@types.coroutine
def waited() -> Generator[Any, Any, None]:
    """Wait until another task wakes this one. See the module's docstring."""
    given = yield _TRAP
    if given is not WAKE:
        given.unwrap()  # raises Cancelled
