"""The list of tests that take long."""

from __future__ import annotations

from pathlib import Path

import long_tests
import pytest


def test_each_test_on_the_list_exists_and_shows_no_requirement() -> None:
    assert long_tests.listed()
    for name in long_tests.listed():
        file, _, function = name.partition("::")
        assert f"def {function}(" in (long_tests.ROOT / file).read_text(encoding="utf-8"), name
        assert not long_tests.is_marked(name), name


def test_the_list_has_the_tests_whose_longest_case_took_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = "tests.tidy.test_long"
    here = Path(__file__).stem
    cases = [
        (file, "test_each_test_on_the_list_exists_and_shows_no_requirement[a]", 0.1),
        (file, "test_each_test_on_the_list_exists_and_shows_no_requirement[b]", 1.5),
        (file, "test_the_list_has_the_tests_whose_longest_case_took_a_second", 0.9),
        ("tests.stateful.test_stable.TestStable", "runTest", 2.0),
    ]
    report = tmp_path / "tests.xml"
    report.write_text(
        "<testsuites><testsuite>"
        + "".join(f'<testcase classname="{c}" name="{n}" time="{t}"/>' for c, n, t in cases)
        + "</testsuite></testsuites>"
    )
    monkeypatch.setattr(long_tests, "LIST", tmp_path / "list.txt")
    long_tests.main([str(report)])
    assert long_tests.listed() == {
        f"tests/tidy/{here}.py::test_each_test_on_the_list_exists_and_shows_no_requirement"
    }
