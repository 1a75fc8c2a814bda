"""What happens to open maps when their process forks: no transaction is under way then, and the child opens everything anew."""

from __future__ import annotations

import os
import weakref
from typing import Final, Protocol


class Forked(Protocol):
    """A map's file that is open."""

    def before_fork(self) -> None:
        """No transaction is under way from now on: the end of a child's copy of one would end the parent's."""

    def after_fork(self, child: bool) -> None:
        """Goes on, in the parent and in the child."""


_OPEN: Final[weakref.WeakSet[Forked]] = weakref.WeakSet()


def watch(file: Forked) -> None:
    """From now on it hears of forks."""
    _OPEN.add(file)


def forget(file: Forked) -> None:
    _OPEN.discard(file)


def _before() -> None:
    for file in list(_OPEN):
        file.before_fork()


def _after(child: bool) -> None:
    for file in list(_OPEN):
        file.after_fork(child)


os.register_at_fork(
    before=_before,
    after_in_parent=lambda: _after(False),
    after_in_child=lambda: _after(True),
)
