"""The documentation: every code block is true, and the pages build without a warning.

Python blocks are whole programs and are run. Stacks and drills are loaded. Lines that begin with ``jgroups-py`` are parsed
by the command that they call.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from jgroups_py.buckets.deployment import parse_deployment
from jgroups_py.config.settings import load_stack
from jgroups_py.drill.file.loader import loads
from jgroups_py.maps import parse_cluster
from jgroups_py.tools.cli import COMMANDS, group
from jgroups_py.tools.dev import group as dev_group

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if "reference" not in p.parts)

FRONT = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PATIENCE = 200.0
"""Seconds after which a test fails. They are more than enough, even on a busy machine."""
GREETING = "hello everyone"
"""The first program of README.md runs until it is ended; tests/outside/test_readme_chats.py runs two copies of it."""
COUNTER = "/counters/visits"
"""The tutorial's program with a counter has a test of its own, below. Two simultaneous copies of it would form
one group."""


def blocks(*languages: str) -> list[object]:
    return list(_blocks(languages))


def _blocks(languages: tuple[str, ...]) -> Iterator[object]:
    for page in [*PAGES, *FRONT]:
        if not page.exists():
            continue
        found = re.finditer(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        for number, block in enumerate(found, 1):
            if block[1] in languages:
                yield pytest.param(block[2], id=f"{page.relative_to(ROOT)}-{number}")


NAMED = {
    found[1]: str(found[0])
    for block in blocks("python")
    if (found := re.match(r"# (\w+\.py)\n[\s\S]*", block.values[0]))  # type: ignore[attr-defined]
}
"""Blocks that begin with the name of a file. Other blocks may import them."""
CALL_TESTS = """
for name, one in list(globals().items()):
    if name.startswith("test_"):
        one()
"""


@pytest.fixture(autouse=True)
def _named_files(tmp_path: Path) -> None:
    for name, code in NAMED.items():
        (tmp_path / name).write_text(code)


@pytest.mark.sockets
@pytest.mark.parametrize(
    "code", [b for b in blocks("python") if GREETING not in str(b) and COUNTER not in str(b)]
)
def test_a_program_runs(code: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code + CALL_TESTS],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.sockets
def test_the_counter_of_the_tutorial_loses_nothing() -> None:
    text = (ROOT / "docs" / "tutorial.md").read_text()
    code = next(b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "increment" in b)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "40\n", done.stderr


@pytest.mark.parametrize("text", blocks("xml"))
def test_a_stack_loads(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "counter", raising=False)
    file = tmp_path / "stack.xml"
    file.write_text(text)
    assert len(load_stack(str(file)).protocols) > 10


@pytest.mark.parametrize("text", blocks("yaml"))
def test_a_drill_or_a_cluster_file_loads(text: str) -> None:
    if "MapReplicationCfg" in text:
        assert parse_cluster(text).maps
    elif "\nbuckets:" in text and "workload:" not in text:
        assert parse_deployment(text).nodes
    else:
        assert loads(text).sites


@pytest.mark.parametrize("text", blocks("sh"))
def test_a_command_line_can_be_parsed(text: str) -> None:
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"[A-Z_]+=", words[0]):  # a variable of the environment
            words.pop(0)
        if words[:1] != ["jgroups-py"]:
            continue
        words = [word for word in words[1:] if word != "--verbose"]
        command: click.Command | None = group
        context = click.Context(group)
        while isinstance(command, click.Group):
            name = words.pop(0)
            command = command.get_command(context, name)
            assert command is not None, f"{line}: no command {name}"
        assert command is not None
        unfilled = [word if "." not in word else __file__ for word in words]
        command.make_context("jgroups-py", unfilled, resilient_parsing=True)


def test_no_page_is_left_out() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in PAGES:
        name = str(page.relative_to(ROOT / "docs").with_suffix(""))
        assert name == "index" or f"\n{name}\n" in index, f"docs/index.md does not list {name}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) < 600


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in FRONT])
def test_a_link_leads_to_a_file_or_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    for link in links:
        if link.startswith("https://"):
            continue
        name, _, heading = link.partition("#")
        assert (ROOT / name).exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", (ROOT / name).read_text(), re.MULTILINE)
            assert heading in [title.lower().replace(" ", "-") for title in titles], link


@pytest.mark.parametrize("page", [pytest.param(p, id=p.stem) for p in PAGES])
def test_a_link_of_a_page_leads_to_a_file(page: Path) -> None:
    """Pages below reference/ are made by ``make docs``."""
    for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text()):
        if not link.startswith("https://"):
            assert link.endswith((".md", ".svg")), link
            assert "reference/" in link or (page.parent / link).exists(), link


def test_the_overview_of_the_command_line_has_every_command() -> None:
    text = (ROOT / "docs" / "howto" / "command-line.md").read_text()
    for name in COMMANDS:
        assert f"`jgroups-py {name}" in text, name
    for name in dev_group.COMMANDS:
        assert f"`jgroups-py dev {name}`" in text, name
