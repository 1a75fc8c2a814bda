"""Requirements: those that a run of tests shows are recorded, and printed with the open ones."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.tools import cli
from jgroups_py.tools.dev.requirements import read_lines, read_shown

ROOT = Path(__file__).resolve().parents[2]

TESTS = """
import pytest

@pytest.mark.seed("R12")
def test_passes(): assert True

@pytest.mark.seed("R13", "R12")
def test_shows_two(): assert True

@pytest.mark.seed("R14")
def test_fails(): assert False

@pytest.mark.seed("R15")
@pytest.mark.skip(reason="later")
def test_skipped(): assert True

@pytest.fixture
def broken():
    yield
    raise OSError

@pytest.mark.seed("R16")
def test_tear_down_fails(broken): assert True

@pytest.mark.seed("R17")
@pytest.mark.parametrize("case", [1, 2])
def test_one_case_fails(case): assert case == 1

@pytest.mark.seed("R18")
@pytest.mark.parametrize("case", [1, 2])
def test_all_cases_pass(case): assert case

def test_unmarked(): assert True
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("tests", "design"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "shared").mkdir()
    shutil.copy(ROOT / "tests" / "shared" / "worker_ports.py", tmp_path / "tests" / "shared")
    shutil.copy(ROOT / "design" / "requirements.md", tmp_path / "design")
    shutil.copy(ROOT / "tests" / "long_tests.txt", tmp_path / "tests")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = seed\n")
    return tmp_path


def run_tests(checkout: Path, tests: str) -> subprocess.CompletedProcess[str]:
    (checkout / "tests" / "test_sample.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--record-requirements", "build/requirements.json", "tests"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )


def test_only_tests_that_ran_and_passed_count(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_tests(checkout, TESTS)
    monkeypatch.chdir(checkout)
    assert cli.run(["requirements", "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    place = "tests/test_sample.py::"
    assert {number: tests for number, tests in table.items() if tests} == {
        "R12": [f"{place}test_passes", f"{place}test_shows_two"],
        "R13": [f"{place}test_shows_two"],
        "R18": [f"{place}test_all_cases_pass"],
    }
    assert len(table) == 165 and table["R14"] == [] and table["K24"] == []


def test_an_unknown_number_stops_the_run(checkout: Path) -> None:
    done = run_tests(checkout, "import pytest\n@pytest.mark.seed('R99')\ndef test_x(): pass\n")
    assert done.returncode != 0 and "no requirement 'R99'" in done.stdout + done.stderr


def test_the_list_for_people_names_open_requirements(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout)
    assert cli.run(["requirements"]) == 0
    out, err = capsys.readouterr()
    assert "R12  " in out and "open" in out
    assert out.endswith("\n0 of 165 shown: B 0 of 40, R 0 of 21, P 0 of 14, A 0 of 66, K 0 of 24\n")
    assert "no run is recorded" in err


def test_a_damaged_record_is_an_error(tmp_path: Path) -> None:
    assert read_shown(tmp_path / "none.json") == {}
    (tmp_path / "bad.json").write_text("[1]")
    with pytest.raises(ConfigError, match=r"bad\.json: is damaged"):
        read_shown(tmp_path / "bad.json")


def test_the_numbers_are_complete_and_unique() -> None:
    lines = read_lines(ROOT / "design" / "requirements.md")
    counts = {"B": 40, "R": 21, "P": 14, "A": 66, "K": 24}
    assert list(lines) == [
        f"{letter}{n}" for letter, last in counts.items() for n in range(1, last + 1)
    ]


def test_every_seed_mark_in_the_tree_names_a_requirement() -> None:
    known = read_lines(ROOT / "design" / "requirements.md")
    marks = re.compile(r"mark\.seed\(([^)]*)\)")
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        if file.resolve() == Path(__file__).resolve():
            continue
        for arguments in marks.findall(file.read_text(encoding="utf-8")):
            for number in re.findall(r"[A-Z]\d+", arguments):
                assert number in known, f"{file.name}: {number}"


def test_a_section_is_open_as_long_as_no_test_shows_a_line_of_it() -> None:
    marks = re.compile(r"mark\.seed\(([^)]*)\)")
    shown = {
        number
        for file in (ROOT / "tests").rglob("test_*.py")
        if file.resolve() != Path(__file__).resolve()
        for arguments in marks.findall(file.read_text(encoding="utf-8"))
        for number in re.findall(r"[A-Z]\d+", arguments)
    }
    text = (ROOT / "design" / "requirements.md").read_text(encoding="utf-8")
    sections = text.split("\n## ")[1:]
    assert len(sections) == 5
    for section in sections:
        numbers = set(re.findall(r"^- \*\*([A-Z]\d+)\*\*", section, re.MULTILINE))
        assert ("**open**" in section) == (not numbers & shown), section.splitlines()[0]
