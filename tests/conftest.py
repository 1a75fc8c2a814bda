"""Records which requirements the tests of a run showed (``--record-requirements FILE``), and keeps
tests with sockets in one worker.

A test shows a number when it carries ``@pytest.mark.seed("R12")`` and passed with every parameter
that ran, including set-up and tear-down. The file is ``{"R12": ["tests/..."], ...}``.

Hypothesis sets no deadlines: the time of an example depends mostly on the machine.

A test that opens sockets, itself or in a child process, carries the marker ``sockets``. Each worker gives
such tests ports of its own (shared/worker_ports.py), so several workers and several runs on this machine run them at once. A
test without the marker fails when it opens a socket.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Examples are the same in each run, so that a test fails for a change and not by chance. "make test-random" draws new ones.
settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("random", settings.get_profile("tests"), derandomize=False)
settings.load_profile("tests")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts background jobs with SIGINT ignored, and children inherit that: a test that interrupts a child
    # would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Imports and collected tests are 400,000 objects that stay. Walking them at each garbage collection took an eighth of
# the CPU time of the tests, so the collector is off while they are made. Afterwards they are frozen.
gc.disable()
GARBAGE = (1_000, 10, 100)
"""The thresholds of the garbage collector (``gc.set_threshold``): old objects are scanned ten times less often than by
default."""
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "shared"))

from worker_ports import ports  # noqa: E402

NUMBER = "seed"
"""Name of the property of a report that carries a number from a worker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-requirements",
        metavar="FILE",
        help="write which seed-marked tests passed, as JSON",
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--record-requirements")
    if file and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(file)), "requirements-recorder")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = set(re.findall(r"^- \*\*([A-Z]\d+)\*\*", _requirements(), re.MULTILINE))
    long = _long_tests()
    for item in items:
        if item.nodeid.partition("[")[0] in long:
            item.add_marker("long")
        for number in numbers_of(item):
            if number not in known:
                raise pytest.UsageError(f"{item.nodeid}: no requirement {number!r}")
            item.user_properties.append((NUMBER, number))


def pytest_collection_finish() -> None:
    gc.freeze()  # also garbage: it is a quarter of the objects, and finding it takes 0.4 s of CPU time in each worker
    gc.set_threshold(*GARBAGE)
    gc.enable()


def numbers_of(item: pytest.Item) -> list[str]:
    """Return the numbers of an item's seed marks, in order; each mark may name several."""
    return [str(number) for mark in item.iter_markers("seed") for number in mark.args]


def _long_tests() -> frozenset[str]:
    """Read the list of long tests; tidy/long_tests.py makes it."""
    return frozenset((ROOT / "tests" / "long_tests.txt").read_text(encoding="utf-8").split())


def _requirements() -> str:
    return (ROOT / "design" / "requirements.md").read_text(encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    """Give ports to a test with the marker ``sockets`` and to its children; forbid sockets to any other test.

    Tests with Java members or Spark run one after the other, and keep the ports of their stacks. This is not a
    fixture, because a fixture for each of 9,000 tests takes seconds."""
    if any(item.get_closest_marker(marker) for marker in ("java", "spark")):
        return (yield)
    if item.get_closest_marker("sockets") is None:
        SOCKETS.forbid(item.nodeid)
        try:
            return (yield)
        finally:
            SOCKETS.allow()
    before = {name: os.environ.get(name) for name in ports()}
    os.environ.update(ports())
    try:
        return (yield)
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[object]:
    if nextitem is None and not hasattr(item.config, "workerinput"):
        # What tests have left open is an error of the last one. Found later, it would end pytest with exit code 1 and no failed test.
        gc.collect()
    result = yield
    SOCKETS.check()
    return result


class _Sockets:
    """Watches for sockets of the internet that this process binds or connects."""

    def __init__(self) -> None:
        self._test = ""
        self.opened: list[str] = []
        sys.addaudithook(self._on_event)

    def forbid(self, test: str) -> None:
        self._test, self.opened = test, []

    def allow(self) -> None:
        self._test, self.opened = "", []

    def check(self) -> None:
        """Fail if the test has opened any."""
        if self.opened:
            pytest.fail(
                f"{self._test} opens sockets ({self.opened[0]}): mark it pytest.mark.sockets"
            )

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.bind", "socket.connect") and self._test:
            if arguments[0].family != socket.AF_UNIX:
                self.opened.append(f"{event} {arguments[1]}")


SOCKETS = _Sockets()


class Recorder:
    """Collects outcomes by test function and writes them when the run ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._numbers: dict[str, list[str]] = {}
        self._passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        numbers = [str(value) for name, value in report.user_properties if name == NUMBER]
        if numbers:
            self._numbers[report.nodeid] = numbers
            if report.failed:
                self._passed[report.nodeid] = False
            elif report.when == "call" and report.passed:
                self._passed.setdefault(report.nodeid, True)

    def pytest_sessionfinish(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        shown = summary(self._numbers, self._passed)
        self._file.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


def summary(numbers: dict[str, list[str]], passed: dict[str, bool]) -> dict[str, list[str]]:
    """Number -> test functions that show it, which passed with every parameter that ran."""
    cases: dict[str, list[str]] = {}
    for nodeid in passed:
        cases.setdefault(nodeid.partition("[")[0], []).append(nodeid)
    shown: dict[str, list[str]] = {}
    for function, nodeids in cases.items():
        if all(passed[nodeid] for nodeid in nodeids):
            for number in _unique(n for nodeid in nodeids for n in numbers[nodeid]):
                shown.setdefault(number, []).append(function)
    return {number: sorted(tests) for number, tests in sorted(shown.items(), key=_order)}


def _unique(numbers: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(numbers))


def _order(entry: tuple[str, list[str]]) -> tuple[str, int]:
    return entry[0][0], int(entry[0][1:])
