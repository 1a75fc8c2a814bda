"""Options have the same names in all commands, and every command shows examples."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from commands import run_apart, run_here

from jgroups_py.tools.dev.fuzz import NOT_TRACED

LIKE_A_STACK = {"--stack", "--set", "-D", "--bind-addr"}
OTHER_WORDS_FOR_IT = {"--file", "--time", "--seconds", "--hours", "--output", "--attribute"}


def commands_in(text: str) -> list[str]:
    listed = text.partition("Commands:\n")[2].partition("\nExamples:")[0]
    return re.findall(r"^  ([a-z][a-z-]+)", listed, re.MULTILINE)


def options_in(text: str) -> dict[str, str]:
    """Option -> the text behind the option in its line of the help."""
    listed = text.partition("Options:\n")[2].partition("\nExamples:")[0]
    return dict(re.findall(r"^  (--?[A-Za-z-]+)(?:, --?[A-Za-z-]+)*(.*)$", listed, re.MULTILINE))


def all_commands() -> dict[tuple[str, ...], str]:
    """Words of a command -> its --help."""
    names = [[name] for name in commands_in(run_here("--help").out)]
    found: dict[tuple[str, ...], str] = {}
    while names:
        texts = {tuple(words): run_here(*words, "--help").out for words in names}
        found |= texts
        names = [[*words, below] for words, text in texts.items() for below in commands_in(text)]
    return found


@pytest.fixture(scope="module")
def helps() -> dict[tuple[str, ...], str]:
    found = all_commands()
    assert len(found) > 20
    return found


def test_options_have_one_spelling(helps: dict[tuple[str, ...], str]) -> None:
    for words, text in helps.items():
        options = options_in(text)
        assert not OTHER_WORDS_FOR_IT & set(options), words
        if "--json" in options:
            assert options["--json"].startswith(" [OUT] "), words
        for option in ("--for", "--goal", "--cycle"):
            if option in options:
                assert options[option].startswith(" TIME "), (words, option)
        if "--stack" in options:
            assert set(options) >= LIKE_A_STACK, words
        if "--cluster" in options:
            assert "--name" in options, words


def test_every_command_shows_examples_whose_options_it_has(
    helps: dict[tuple[str, ...], str],
) -> None:
    for words, text in helps.items():
        shown = text.partition("Examples:\n")[2].splitlines()
        assert shown, words
        for line in shown:
            assert len(line) <= 120, line
            _, _, used = line.partition(f"jgroups-py {words[0]} ")
            assert used, line
            mine = [words[0], *shlex.split(re.split(r" [|<] ?", used)[0])]
            typed = [*mine[: len(words)], "--help", *mine[len(words) :]]
            code, _, err = run_here(*typed)
            assert code == 0, (typed, err)


WITHOUT_UNIT = [
    ["mperf", "--for", "10"],
    ["rpcperf", "--for", "3"],
    ["fuzz", "--for", "40"],
    ["memory", "--for", "300"],
    ["longlife", "--cycle", "600"],
    ["simulate", "--for", "60"],
    ["detect", "--goal", "200"],
    ["validate", "udp.xml", "--goal", "10"],
]


def test_a_time_without_its_unit_is_refused_in_one_line() -> None:
    for words in WITHOUT_UNIT:
        code, out, err = run_here(*words)
        assert code == 2 and out == "", words
        (line,) = err.splitlines()
        assert "no unit" in line and "500ms" in line and "5s" in line


def test_json_goes_to_standard_output_or_to_a_file(tmp_path: Path) -> None:
    printed = run_here("validate", "--json", "udp.xml")
    assert json.loads(printed.out)["stack"] == "udp.xml"
    file = tmp_path / "out.json"
    done = run_here("validate", "udp.xml", "--json", str(file))
    assert json.loads(file.read_text()) == json.loads(printed.out)
    assert done.out.startswith("udp.xml (")


def test_json_output_never_overwrites_an_input_file(tmp_path: Path) -> None:
    stack = tmp_path / "stack.xml"
    stack.write_text('<config><include file="udp.xml"/></config>')
    before = stack.read_text()
    done = run_here("validate", "--json", str(stack))
    assert done.code == 0, done.err
    assert json.loads(done.out)["stack"] == str(stack)
    assert stack.read_text() == before


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "--seeds", "1..2"],
        ["fuzz", "--inputs", "300", "--target", "kind:utf", "--jobs", "1"],
    ],
)
def test_progress_is_not_shown_without_a_terminal(words: list[str]) -> None:
    done = run_apart(*words)
    assert done.code == 0
    assert done.err.strip() in ("", NOT_TRACED)
    assert "\x1b" not in done.out and "\r" not in done.out
