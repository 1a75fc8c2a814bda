"""The command in a plain installation: one line names the package to install."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from commands import run_here

from jgroups_py.tools.start import NEEDED, main

ROOT = Path(__file__).resolve().parents[2]


def _project() -> dict[str, object]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert isinstance(project, dict)
    return project


def _run_installed(missing: Sequence[str], *args: str) -> subprocess.CompletedProcess[str]:
    """Run the installed script in a process without the packages ``missing``."""
    scripts = _project()["scripts"]
    assert isinstance(scripts, dict)
    module, _, function = scripts["jgroups-py"].partition(":")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({list(missing)!r}))\n"
        f"sys.argv[1:] = {list(args)!r}\n"
        f"from {module} import {function}; sys.exit({function}())"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_a_plain_installation_names_the_extra_in_one_line() -> None:
    done = _run_installed(NEEDED, "drill", "nyc-sfo")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "jgroups-py: click, jinja2, rich not installed; the command line needs: "
        "pip install 'jgroups_py[cli]'\n"
    )


@pytest.mark.parametrize("missing", NEEDED)
def test_one_missing_package_of_the_extra_is_enough(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit) as ended:
        main(["drill", "nyc-sfo"])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"jgroups-py: {missing} not installed;")


def test_a_command_says_in_one_line_which_extra_it_lacks() -> None:
    done = _run_installed(["lmdb"], "maps", "ls", "nowhere")
    assert done.returncode == 2
    assert done.stderr == "jgroups-py: maps need lmdb: pip install 'jgroups_py[maps]'\n"


def test_the_page_about_installing_names_every_extra_for_users() -> None:
    extras = _project()["optional-dependencies"]
    assert isinstance(extras, dict)
    page = (ROOT / "docs" / "install.md").read_text()
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert named == set(extras) - {"bench", "docs", "test"}, "those are for who works on this"


def test_the_package_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jgroups_py", "--version"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("jgroups-py ")


def test_the_spark_extra_brings_the_command_that_its_recipe_uses() -> None:
    extras = _project()["optional-dependencies"]
    assert isinstance(extras, dict)
    assert "jgroups_py[cli]" in extras["spark"]


def test_an_unknown_command_is_answered_with_the_nearest_one() -> None:
    done = run_here("valdate")
    assert done.code == 2
    assert 'no command "valdate"' in done.err and "validate" in done.err


def test_an_unknown_command_that_is_near_to_none_is_told_where_they_are_listed() -> None:
    done = run_here("qqqqqq")
    assert done.code == 2
    assert 'no command "qqqqqq" (--help lists them)' in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_command_is_imported_ends_it_without_a_traceback(
    number: int, code: int
) -> None:
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Sends:
    def find_spec(self, name, path=None, target=None):
        if name == "jgroups_py.tools.cli":
            os.kill(os.getpid(), {int(number)})

sys.meta_path.insert(0, Sends())
from jgroups_py.tools.start import main
main(["validate", "udp.xml"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_signal_that_is_ignored_stays_ignored_while_the_command_is_imported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    terminate = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["--version"])
        assert ended.value.code == 0
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGTERM, terminate)
