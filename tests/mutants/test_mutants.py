"""The catalogue fits the source, so it cannot get out of date; and the runner distinguishes found and missed faults."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mutant_bench
import pytest
from mutant import ROOT, BadCatalogue, Mutant, load
from mutant_bench import Bench, Known, NotGreen, Result
from mutant_report import as_json, problems_of, rows_of, write_table
from random_mutants import checks_of, drawn, places, told
from run_mutants import choose, line_of, main

CATALOGUE = load()
TABLE = ROOT / "design" / "mutants.md"

PLANTED = Mutant(
    area="units",
    name="a-size-too-many",
    file="jgroups_py/units.py",
    inside="parse_bytes",
    old="size = Decimal(match[1]) * factor",
    new="size = Decimal(match[1]) * factor + 1",
    fault="every size is one more",
    found_by=("tests/config/test_units.py",),
)


@pytest.mark.parametrize("area", sorted({mutant.area for mutant in CATALOGUE}))
def test_every_mutant_of_an_area_fits_the_source_and_compiles(area: str) -> None:
    problems = []
    chosen = [mutant for mutant in CATALOGUE if mutant.area == area]
    for mutant in sorted(chosen, key=lambda mutant: mutant.file):  # each file is parsed once
        try:
            mutant.applied_to((ROOT / mutant.file).read_text(encoding="utf-8"))
        except (BadCatalogue, OSError) as problem:
            problems.append(str(problem))
    assert problems == []


def test_every_check_names_tests_or_a_drill_that_exist() -> None:
    """A word behind ``-k`` must be in the name of a test, or in one of its parameters: when a test is renamed, the word
    selects nothing."""
    for check in dict.fromkeys(check for mutant in CATALOGUE for check in mutant.found_by):
        words = shlex.split(check)
        files = [w.partition("::")[0] for w in words if w.startswith(("tests/", "stacks/"))]
        assert files, check
        assert words[0] == "jgroups-py" or words[0].startswith("tests/"), check
        for file in files:
            assert (ROOT / file).exists(), check
        if "-k" in words:
            named = set(re.findall(r"\w+", words[words.index("-k") + 1])) - {"and", "or", "not"}
            text = "".join(_text_of(file) for file in files)
            assert [word for word in named if word.lower() not in text] == [], check


@cache
def _text_of(place: str) -> str:
    path = ROOT / place
    files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
    return "".join(file.read_text(encoding="utf-8") for file in files).lower()


def test_random_changes_fit_the_source_and_are_the_same_for_the_same_seed() -> None:
    some = drawn(CATALOGUE, [], 100, 1)
    assert some == drawn(CATALOGUE, [], 100, 1) != drawn(CATALOGUE, [], 100, 2)
    assert len({mutant.file for mutant in some}) > 40
    for mutant in some:
        text = (ROOT / mutant.file).read_text(encoding="utf-8")
        assert mutant.applied_to(text) != text
    assert {mutant.area for mutant in drawn(CATALOGUE, ["relay"], 20, 1)} == {"relay"}


def test_a_random_change_is_looked_for_by_tests_that_are_there_and_near_it() -> None:
    for file, (_, found_by) in checks_of(CATALOGUE).items():
        for word in " ".join(found_by).split():
            if word.startswith("tests/"):
                assert (ROOT / word.partition("::")[0]).exists(), (file, word)
        if not file.startswith("jgroups_py/"):
            continue
        folder = file.split("/")[1]
        if (ROOT / "tests" / folder).is_dir():
            assert f"tests/{folder}" in " ".join(found_by), file


def test_random_changes_change_conditions_numbers_and_calls() -> None:
    text = """
class A:
    def f(self, a, b):
        if a < b and not b:
            self.n = min(a, b + 1)
            self.g(a)
            self.trace("told")
        assert a == b

    def check(self):
        assert self.n or self.g(1)
"""
    found = {text[a:b]: new for _, (a, b, new, _) in places(text)}
    assert found == {
        " < ": " <= ",
        "a < b": "True",
        "not b": "True",
        "not ": "",
        "a < b and not b": "False",
        "self.n = min(a, b + 1)": "pass",
        "min": "max",
        " + 1": "",
        "self.g(a)": "pass",
    }
    assert {inside for inside, _ in places(text)} == {"A.f"}


def test_code_that_only_traces_would_show_is_not_changed() -> None:
    text = """
class A:
    def f(self, a):
        if self.watched:
            self.trace("seen", a or "nothing")
            self.bad += 1
        if a:
            self.log.warning("full: %d", a + 1)
        if a > 1:
            self.log.append(a)
"""
    kept = {
        text[start:end]
        for _, (start, end, _, _) in places(text)
        if not any(low <= start and end <= high for low, high in told(text))
    }
    assert kept == {"a", " > ", "a > 1", "self.log.append(a)"}
    assert {text[start:end] for start, end in told(text)} == {
        "self.watched",
        'self.trace("seen", a or "nothing")',
        'self.log.warning("full: %d", a + 1)',
    }


def test_every_protocol_with_behaviour_has_mutants() -> None:
    mutated = {mutant.file for mutant in CATALOGUE}
    without = {
        "registry",
        "red",
        "reliable/barrier",
        "transport/shared_loopback",
        "relay/wire",  # values
        "relay/status",
        "membership/gms/out",  # passes on
        "membership/gms/config",  # values
        "reliable/nakack2/config",
        "transport/config",
        "failure/fd_sock2_config",
        "transport/tcp_config",
        "transport/udp_config",
        "flow/config",
        "frag2_config",
        "reliable/stable_config",
        "reliable/unicast3/config",
        # discovery/base.py has their common code
        *(f"discovery/{name}" for name in ("shared_loopback_ping", "local_ping")),
    }
    protocols = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "protocols").rglob("*.py")
        if file.name != "__init__.py"
    }
    assert protocols - mutated == {f"protocols/{name}.py" for name in without}


def test_the_table_lists_the_catalogue_and_every_survivor_is_explained() -> None:
    rows = rows_of(TABLE.read_text(encoding="utf-8"))
    assert list(rows) == [mutant.name for mutant in CATALOGUE]
    survivors = [name for name, (by, _) in rows.items() if by == "**nothing**"]
    assert survivors == [mutant.name for mutant in CATALOGUE if mutant.survives]
    assert len(survivors) <= 0.05 * len(rows)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"old": "size = nothing of the kind"}, "0 times"),
        ({"old": "size"}, "times in jgroups_py/units.py, parse_bytes"),
        ({"inside": "parse_nothing"}, "parse_nothing is 0 times"),
        ({"new": "size = ("}, "does not compile"),
        ({"new": PLANTED.old}, "nothing is changed"),
    ],
)
def test_a_mutant_that_does_not_fit_is_an_error(change: dict[str, Any], problem: str) -> None:
    text = (ROOT / PLANTED.file).read_text(encoding="utf-8")
    with pytest.raises(BadCatalogue, match=rf"a-size-too-many.*{problem}"):
        replace(PLANTED, **change).applied_to(text)


def test_lines_are_indented_as_the_place_they_go_to() -> None:
    mutant = replace(PLANTED, inside="", old="a()\nif b:\n    c()", new="d()\nif e:\n    f()")
    text = "def g():\n    if h:\n        a()\n        if b:\n            c()\n"
    made = "def g():\n    if h:\n        d()\n        if e:\n            f()\n"
    assert mutant.applied_to(text) == made


def test_a_fault_is_found_or_survives_and_the_copy_is_as_before(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "copy", Known())
    before = (bench.folder / PLANTED.file).read_text(encoding="utf-8")
    found = bench.look_for(PLANTED)
    assert found.by.startswith("tests/config/test_units.py::test_")
    missed = bench.look_for(replace(PLANTED, old="return int(size)", new="return round(size)"))
    assert not missed.found
    assert (bench.folder / PLANTED.file).read_text(encoding="utf-8") == before
    assert before == (ROOT / PLANTED.file).read_text(encoding="utf-8")

    (bench.folder / PLANTED.file).write_text(before.replace("* factor", "* factor + 1"))
    with pytest.raises(NotGreen, match="without any fault: tests/config/test_units"):
        Bench.look_for(_with(bench, Known()), PLANTED)


def test_a_limit_of_time_that_ends_pytest_itself_is_a_hang(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest ends with another code than for a failed test. If the limit was not reached, such an end is a mistake in the catalogue."""
    bench = Bench(tmp_path / "copy", Known())
    test = "tests/config/test_ends.py"
    (bench.folder / test).write_text("""
import os

from jgroups_py.units import parse_bytes

def test_ends() -> None:
    if parse_bytes("1") != 1:
        os._exit(3)
""")
    mutant = replace(PLANTED, found_by=(test,))
    with pytest.raises(BadCatalogue, match="pytest says"):
        bench.look_for(mutant)
    monkeypatch.setattr(mutant_bench, "TEST_LIMIT", 0.0)
    assert bench.look_for(mutant).by == f"{test}: no end within 0 s"


def test_a_test_that_fails_only_once_does_not_hide_those_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test fails each time beside others, and never alone."""
    bench = Bench(tmp_path / "copy", Known())
    alone = f"""
from pathlib import Path

from jgroups_py.units import parse_bytes

def test_shy() -> None:
    failed = Path({str(tmp_path / "failed")!r})
    if failed.exists():
        failed.unlink()
    elif parse_bytes("1") != 1:
        failed.touch()
        raise AssertionError
"""
    first, second = "tests/config/test_first.py", "tests/config/test_second.py"
    (bench.folder / first).write_text(alone)
    (bench.folder / second).write_text(
        f'{alone}\ndef test_sure() -> None:\n    assert parse_bytes("1") == 1\n'
    )
    mutant = replace(PLANTED, found_by=(first, second))
    found = bench.look_for(mutant)
    assert (found.by, found.once) == (
        f"{second}::test_sure",
        (f"{first}::test_shy", f"{second}::test_shy"),
    )
    monkeypatch.setattr(mutant_bench, "ACCIDENTS_MAX", 0)
    missed = bench.look_for(mutant)
    assert not missed.found and missed.once == found.once
    (row,) = as_json([missed], 1.0)["mutants"]
    assert row["once"] == [*missed.once]
    assert f"SURVIVES (failed only once: {first}::test_shy, " in line_of(missed, 1, 1)


def _with(bench: Bench, known: Known) -> Bench:
    bench._known = known
    return bench


def test_survivors_must_be_explained_and_few() -> None:
    found = Result(PLANTED, "tests/a.py::test_b", "tests/a.py", 1.0)
    missed = Result(PLANTED, "", "", 1.0)
    excused = Result(replace(PLANTED, survives="it is the same"), "", "", 1.0)
    no_excuse = replace(excused, by="tests/a.py::test_b")
    assert problems_of([found] * 19 + [excused]) == []
    assert problems_of([found] * 18 + [excused]) == ["18 of 19 are found, 95% are wanted"]
    assert problems_of([found] * 19 + [missed]) == [
        "a-size-too-many survives and nobody says why: every size is one more"
    ]
    assert problems_of([no_excuse]) == [
        "a-size-too-many is found (tests/a.py::test_b): why it survives must go"
    ]


def test_the_table_keeps_rows_that_were_not_run(tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    other = replace(PLANTED, name="other", survives="no difference")
    file.write_text("# Mutants\n\nSome words.\n")
    write_table(file, [PLANTED, other], [Result(PLANTED, "tests/a.py::test_b[x|y]", "", 1.23)])
    write_table(file, [PLANTED, other], [Result(other, "", "", 4.0)])
    text = file.read_text()
    assert rows_of(text) == {
        "a-size-too-many": ("a.py::test_b[x/y]", "1.2"),
        "other": ("**nothing**", "4.0"),
    }
    assert text.startswith("# Mutants\n\nSome words.\n") and "- `other`: no difference" in text
    write_table(file, [other], [])
    assert list(rows_of(file.read_text())) == ["other"]


def test_a_key_decides_the_order() -> None:
    first = choose(CATALOGUE, [], [], "one")
    assert first == choose(CATALOGUE, [], [], "one") != choose(CATALOGUE, [], [], "two")
    known = [m.name for m in CATALOGUE if m.survives]
    assert known, "to see that one survives takes too long for a share"
    assert sorted([m.name for m in first] + known) == sorted(m.name for m in CATALOGUE)
    assert choose(CATALOGUE, [], [first[0].name], "one") == [first[0]]


def test_wrong_usage_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--only", "no-such-mutant"]) == 2
    assert capsys.readouterr().err == "run_mutants: not in the catalogue: no-such-mutant\n"
    assert main(["--list", "--area", CATALOGUE[0].area]) == 0
    assert CATALOGUE[0].name in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["--workers", "0"])
    assert stopped.value.code == 2


def test_no_time_is_no_mutant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["--only", CATALOGUE[0].name, "--time", "0", "--json", str(out)]) == 0
    assert json.loads(out.read_text())["total"] == 0
    assert "0 of 0 mutants found" in capsys.readouterr().out
