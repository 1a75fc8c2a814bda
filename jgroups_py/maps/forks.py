"""Forks of a process with open maps: no transaction runs at that moment, and the child opens everything anew."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Sequence
from typing import Final, Protocol


class Forked(Protocol):
    """A map's file that is open."""

    def before_fork(self) -> None:
        """Let no transaction run from now on. The end of the child's copy would end the parent's
        transaction."""

    def after_fork(self, child: bool) -> None:
        """Go on, in the parent and in the child."""


_OPEN: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def watch(file: Forked) -> None:
    """Call the file's methods at forks from now on."""
    _OPEN.add(file)


def forget(file: Forked) -> None:
    _OPEN.discard(file)


class _Forking(threading.local):
    """The files of a fork that this thread makes. Other threads may open and close files meanwhile."""

    files: Sequence[Forked] = ()


_forking: Final = _Forking()


def _before() -> None:
    _forking.files = sorted(_OPEN, key=id)  # two threads that fork take the locks in one order
    for file in _forking.files:
        file.before_fork()


def _after(child: bool) -> None:
    files, _forking.files = _forking.files, ()
    for file in files:
        file.after_fork(child)


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(False),
    after_in_child=lambda: _after(True),
)
