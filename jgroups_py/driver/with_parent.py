"""with_parent: a worker process ends when the process that started it has ended."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing import connection
from typing import Final

ORPHANED: Final = 1
"""The exit code of a worker whose parent was killed."""


def end_with_parent() -> None:
    """Watch the parent process, which started this process with ``multiprocessing``, in a daemon thread. When the parent has ended, this process ends at once.

    A parent that is killed cannot end its workers. They would wait for further work for ever, because each of them keeps
    the pipe of all open. In a process without such a parent nothing happens.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        connection.wait([sentinel])
        os._exit(ORPHANED)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True, name="parent").start()
