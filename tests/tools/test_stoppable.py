"""A command in a thread of its own: its return values, errors, and signals, which it never sees."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from jgroups_py.tools import stoppable


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Let SIGINT interrupt, even if the process that started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_stoppable_function_returns_and_raises_as_an_ordinary_one() -> None:
    @stoppable.stoppable(lambda: None)
    def divide(a: int, by: int) -> float:
        assert threading.current_thread() is not threading.main_thread()
        return a / by

    assert divide(6, by=3) == 2
    assert divide.__name__ == "divide"
    with pytest.raises(ZeroDivisionError):
        divide(6, by=0)


def test_a_signal_reaches_only_the_waiting_thread() -> None:
    """The thread goes on until it is told, and to its end; ``stop`` is called until then."""
    seen: list[str] = []
    again = threading.Event()

    def stop() -> None:
        seen.append("stop")
        if len(seen) == 2:
            again.set()

    @stoppable.stoppable(stop)
    def work() -> None:
        signal.raise_signal(signal.SIGINT)  # Python hands it to the main thread
        assert stoppable.asked.wait(20)
        assert again.wait(20)
        seen.append("ended")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert "ended" in seen and seen.index("ended") >= 2 and stoppable.asked.is_set()


def test_a_signal_while_the_thread_begins_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal may arrive before ``start`` has returned: the thread is stopped nevertheless."""
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    stopped, ended = threading.Event(), threading.Event()

    @stoppable.stoppable(stopped.set)
    def work() -> None:
        assert stoppable.asked.wait(20)
        assert stopped.wait(20)
        ended.set()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert ended.is_set()


def test_a_command_that_cannot_be_stopped_any_more_is_no_error() -> None:
    tried = threading.Event()

    def stop() -> None:
        tried.set()
        raise RuntimeError("it has ended")

    @stoppable.stoppable(stop)
    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        assert stoppable.asked.wait(20)
        assert tried.wait(20)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert tried.is_set()


def test_a_command_that_does_not_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stoppable, "END_SECONDS", 0.2)
    over = threading.Event()

    @stoppable.stoppable(lambda: None)
    def work() -> None:
        signal.raise_signal(signal.SIGINT)
        over.wait(60)

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    over.set()
    assert time.monotonic() - begun < 30
