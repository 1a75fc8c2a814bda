"""Files that other threads open and close while one thread forks."""

from __future__ import annotations

import threading

from jgroups_py.maps import forks
from jgroups_py.maps.forks import Forked


class File(Forked):
    """A file whose lock is held during a fork."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        forks.watch(self)

    def before_fork(self) -> None:
        self.lock.acquire()

    def after_fork(self, child: bool) -> None:
        self.lock.release()


def test_a_file_that_is_closed_during_a_fork_is_usable_afterwards() -> None:
    """A call to a map that is closed must raise MapClosed, not wait for a lock without end."""
    file = File()
    forks._before()
    assert file.lock.locked()
    forks.forget(file)
    forks._after(False)
    assert not file.lock.locked()


def test_a_file_that_is_opened_during_a_fork_has_no_part_in_it() -> None:
    forks._before()
    file = File()
    try:
        forks._after(False)
        assert not file.lock.locked()
    finally:
        forks.forget(file)


def test_two_threads_that_fork_take_the_locks_in_one_order() -> None:
    order: list[int] = []

    class Noted(File):
        def before_fork(self) -> None:
            order.append(id(self))

        def after_fork(self, child: bool) -> None: ...

    files = [Noted() for _ in range(50)]
    forks._before()
    forks._after(False)
    assert order == sorted(order) and len(order) == len(files)
    for file in files:
        forks.forget(file)
