"""Records which requirements the tests of a run showed (``--record-requirements FILE``), and keeps
tests with sockets in one worker.

A test shows a number when it carries ``@pytest.mark.seed("R12")``, ran and passed, set-up and
tear-down included, with every parameter that ran. The file is ``{"R12": ["tests/..."], ...}``.

Hypothesis sets no deadlines: how long an example takes says more about the machine.

With several workers (``-n 2 --dist loadgroup``) tests of the folders in SOCKETS run one after the
other: they use the ports and multicast groups of the shipped stacks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")
ROOT = Path(__file__).resolve().parent.parent
SOCKETS = (
    "aio",
    "api",
    "blocking",
    "cache",
    "conformance",
    "discovery",
    "docs",
    "drill",
    "examples",
)
SOCKETS += ("export", "interop", "longlife", "outside", "rpc", "sockets", "tools")
ONE_WORKER = "sockets"
"""The group of those tests."""
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
    for item in items:
        for number in numbers_of(item):
            if number not in known:
                raise pytest.UsageError(f"{item.nodeid}: no requirement {number!r}")
            item.user_properties.append((NUMBER, number))
        if item.path.relative_to(ROOT / "tests").parts[0] in SOCKETS:
            item.add_marker(pytest.mark.xdist_group(ONE_WORKER))


def numbers_of(item: pytest.Item) -> list[str]:
    """The numbers of an item's seed marks, in order; each mark may name several."""
    return [str(number) for mark in item.iter_markers("seed") for number in mark.args]


def _requirements() -> str:
    return (ROOT / "design" / "requirements.md").read_text(encoding="utf-8")


class Recorder:
    """Collects outcomes by test function and writes them when the run ends."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._numbers: dict[str, list[str]] = {}
        self._passed: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        numbers = [str(value) for name, value in report.user_properties if name == NUMBER]
        if numbers:
            nodeid = report.nodeid.removesuffix(f"@{ONE_WORKER}")  # a worker adds it
            self._numbers[nodeid] = numbers
            if report.failed:
                self._passed[nodeid] = False
            elif report.when == "call" and report.passed:
                self._passed.setdefault(nodeid, True)

    def pytest_sessionfinish(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        shown = summary(self._numbers, self._passed)
        self._file.write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")


def summary(numbers: dict[str, list[str]], passed: dict[str, bool]) -> dict[str, list[str]]:
    """Number -> test functions that show it: every parametrised case that ran has passed."""
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
