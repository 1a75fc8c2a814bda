"""MergerChild: runs a merging process, so that puts do not share an interpreter with the merger.

The process that gets the lock on ``merger`` starts the child and gives the lock to it. The child ends when its parent
ends, for any cause, after merging all records. If the child is killed, the next process with the lock starts another
one.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

LOG: Final = logging.getLogger("jgroups_py.maps")
LOOK_INTERVAL: Final = 0.05
"""Seconds between checks for a process that merges."""
END_TIMEOUT: Final = 10.0
"""Seconds in which a child must end."""


class MergerChild:
    """``options``: for merger_process.py."""

    def __init__(self, folder: Path, options: dict[str, Any], closing: threading.Event) -> None:
        self._folder = folder
        self._options = options
        self._closing = closing
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = self._opened()

    def _opened(self) -> int:
        return os.open(self._folder / "merger", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def pid(self) -> int | None:
        """Return the process id of the child, if there is one."""
        child = self._child
        return None if child is None else child.pid

    def run(self, each_time: Callable[[], None]) -> None:
        """Run until ``closing``. Then the child has merged all records and has ended. ``each_time`` is called each
        LOOK_INTERVAL."""
        while not self._closing.is_set():
            each_time()
            if self._child is not None and self._child.poll() is not None:
                self._forget()
            if self._child is None and self._take():
                try:
                    self._start()
                except OSError as error:
                    LOG.error("the map %s: no process can be started: %s", self._folder, error)
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
                    break
            self._closing.wait(LOOK_INTERVAL)
        child = self._child
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                child.wait(END_TIMEOUT)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            self._child = None
        os.close(self._lock)

    def _take(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _start(self) -> None:
        options = {**self._options, "folder": str(self._folder), "lock": self._lock}
        self._child = subprocess.Popen(
            [sys.executable, "-m", "jgroups_py.maps.merger_process", json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._lock,),
            start_new_session=True,  # a terminal's ^C is for this process only
        )
        os.close(self._lock)  # only the child has the lock now
        self._lock = self._opened()

    def _forget(self) -> None:
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()

    def abandon(self) -> None:
        """Forget the child, in a forked process that has not started it."""
        child = self._child
        if child is not None:
            child.returncode = 0
            self._forget()
