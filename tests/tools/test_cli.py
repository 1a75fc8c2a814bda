"""The command group: one line for an error, exit codes, unknown commands."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from commands import run_here

from jgroups_py.errors import ConfigError
from jgroups_py.tools import cli
from jgroups_py.tools.dev import group as dev_group
from jgroups_py.values.native import compiled_modules


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    @click.command()
    def fail() -> None:
        raise error

    monkeypatch.setitem(cli.COMMANDS, "fail", "jgroups_py.tools.cli:fail")
    monkeypatch.setattr(cli, "fail", fail, raising=False)


def test_version_is_that_of_the_package() -> None:
    done = run_here("--version")
    first, second = done.out.splitlines()
    assert first == f"jgroups-py {version('jgroups_py')}"
    modules = [name.removeprefix("jgroups_py.") for name in compiled_modules()]
    if modules:
        assert second == f"compiled: {', '.join(modules)}"
    else:
        assert second == "plain Python, nothing is compiled"
    assert done.code == 0 and done.err == ""


def test_without_arguments_it_shows_the_commands() -> None:
    done = run_here()
    assert done.code == 0 and "validate" in done.out


@pytest.mark.parametrize("args", [["nope"], ["validate"], ["validate", "--nope"], ["--nope"]])
def test_a_wrong_command_line_is_one_line_and_exit_2(
    args: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(args) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("jgroups-py: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "option", "form"),
    [
        (["mperf", "--set", "UDP"], "--set", "PROTOCOL.attribute=value"),
        (["chat", "--set", "=1"], "--set", "PROTOCOL.attribute=value"),
        (["validate", "udp.xml", "--set", "UDP"], "--set", "PROTOCOL.attribute=value"),
        (["validate", "udp.xml", "-D", "x"], "-D", "name=value"),
        (["doctor", "-D", "x"], "-D", "name=value"),
        (["dev", "memory", "--set", "UDP"], "--set", "PROTOCOL.attribute=value"),
    ],
)
def test_a_setting_without_value_names_its_option(
    args: list[str], option: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(args) == 2
    _, err = capsys.readouterr()
    wrong = args[-1]
    assert option in err and f'"{wrong}" is not {form}' in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("is wrong", file="f.xml", line=3), "jgroups-py: f.xml:3: is wrong"),
        (FileNotFoundError(2, "No such file or directory", "x"), "jgroups-py: x: No such file"),
        (
            ExceptionGroup("", [ConfigError("one"), ExceptionGroup("", [ConfigError("two")])]),
            "jgroups-py: one; two",
        ),
        (KeyError("k"), "jgroups-py: unexpected KeyError: 'k' (--verbose shows where)"),
        (ConfigError("two\nlines"), "jgroups-py: two lines"),
    ],
)
def test_an_error_is_one_line_on_standard_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    line: str,
) -> None:
    failing(monkeypatch, error)
    assert cli.run(["fail"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(line) and err.count("\n") == 1


def test_an_error_steers_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "stack.yaml"
    file.write_text('protocols:\n  - TCP: {bind_port: "\\e[31m\\u202e1"}\n')
    assert cli.run(["validate", str(file)]) == 2
    said = capsys.readouterr().err
    assert said.endswith(
        'TCP.bind_port: not a whole number: "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}1"\n'
    )


@pytest.mark.parametrize("args", [["--verbose", "fail"], ["fail", "--verbose"]])
def test_verbose_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], args: list[str]
) -> None:
    failing(monkeypatch, ConfigError("is wrong"))
    assert cli.run(args) == 2
    err = capsys.readouterr().err
    assert "Traceback" in err and err.endswith("jgroups-py: is wrong\n")


def test_an_interrupt_ends_it_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    assert cli.run(["fail"]) == 130
    assert capsys.readouterr().err.strip() == ""


def test_the_return_value_of_a_command_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def three() -> int:
        return 3

    monkeypatch.setitem(cli.COMMANDS, "three", "jgroups_py.tools.cli:three")
    monkeypatch.setattr(cli, "three", three, raising=False)
    assert cli.run(["three"]) == 3


def test_a_command_whose_module_is_not_installed_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = "jgroups_py.tools.gone_cli:gone"
    monkeypatch.setitem(cli.COMMANDS, "gone", gone)
    assert cli.run([]) == 0
    assert "gone" not in capsys.readouterr().out
    assert cli.run(["gone"]) == 2


def all_commands(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from all_commands(inner, (*words, name))


COMMANDS = [
    pytest.param(words, command, id=" ".join(words) or "jgroups-py")
    for words, command in all_commands(cli.group)
]


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_every_help_has_an_example_of_the_command(
    words: tuple[str, ...], command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([*words, "--help"]) == 0
    _, _, shown = capsys.readouterr().out.partition("\n  Examples:\n")
    assert " ".join(("jgroups-py", *words)) in shown


@pytest.mark.parametrize(("words", "command"), [c for c in COMMANDS if "dev " not in str(c.id)])
def test_the_first_sentence_of_a_help_fits_into_the_list(
    words: tuple[str, ...], command: click.Command
) -> None:
    assert not command.get_short_help_str(limit=68).endswith("...")


@pytest.mark.parametrize("name", dev_group.COMMANDS)
def test_a_command_of_developers_runs_under_its_old_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = []
    for words in ([name], ["dev", name]):
        assert cli.run([*words, "--help"]) == 0
        texts.append(capsys.readouterr().out.partition("\n")[2])
    assert texts[0] == texts[1]
    assert cli.run([name, "--nope"]) == cli.run(["dev", name, "--nope"]) == 2


def test_the_old_names_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2]
    assert "\n  dev " in listed
    assert not any(f"\n  {name} " in listed for name in dev_group.COMMANDS)


@pytest.mark.parametrize("name", ["dev", "spark"])
def test_a_group_without_a_command_prints_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([name]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"Usage: jgroups-py {name} ") and "Commands:\n" in err
