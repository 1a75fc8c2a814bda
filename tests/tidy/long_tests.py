"""The tests that take long: ``make test`` leaves them to ``make test-long``. The list is long_tests.txt, made from recorded durations.

    python tests/tidy/long_tests.py build/tests.xml build/tests-long.xml     writes the list anew (``make durations``)

A test that shows a requirement is never on the list: Only ``make test`` records shown requirements.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parents[2]
LIST: Final = ROOT / "tests" / "long_tests.txt"
LONG_SECONDS: Final = 1.0


def listed() -> frozenset[str]:
    """``tests/folder/test_file.py::test_name`` of each test; the entry includes all its parameters."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def recorded(reports: Iterable[Path]) -> dict[str, float]:
    """Test -> seconds of its longest case, from files of ``--junitxml``. The machines of Hypothesis, which are classes, are left out."""
    longest: dict[str, float] = {}
    for report in reports:
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            module = str(case.get("classname")).replace(".", "/")
            if module.rpartition("/")[2].startswith("Test"):
                continue
            name = f"{module}.py::{str(case.get('name')).partition('[')[0]}"
            longest[name] = max(longest.get(name, 0.0), float(case.get("time") or 0))
    return longest


def is_marked(test: str) -> bool:
    """Return whether a mark above the test names a requirement."""
    file, _, name = test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(rf"((?:^@.*\n(?:^[ )].*\n)*)*)^(?:async )?def {name}\(", text, re.MULTILINE)
    return found is None or "pytest.mark.seed(" in found[1]


def main(reports: list[str]) -> None:
    longest = recorded(Path(report) for report in reports)
    names = [n for n, s in longest.items() if s >= LONG_SECONDS and not is_marked(n)]
    LIST.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    print(f"{len(names)} of {len(longest)} tests take {LONG_SECONDS:g} s or more")


if __name__ == "__main__":
    main(sys.argv[1:])
