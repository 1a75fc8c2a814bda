"""Every example runs, including the one in the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXPECTED = {
    "asgi_cache.py": "put: (204, None)\nget: (200, {'name': 'Ada', 'visits': 20})\ngone: (404, None)",
    "buddy_cache.py": "A is gone: B owns 10, keeps 0, C owns 0, keeps 10\nC is asked: user 7",
    "blocking.py": "eight threads called: 380\nthe cache has 1000 squares, 30 is 900",
    "http_sessions.py": "'tea': '1', 'bread': '3'} at another server: True",
    "own_protocol.py": "C received [b'hi']",
    "own_protocol_property.py": "replayed, it is the same: True\nwith MENDED it holds: True",
    "replicated_dict.py": "all three have the same: True large",
    "tree_cache.py": "49 of 3 in memory\nafter a restart there are 100",
    "seats.py": "LH400/1A is taken by Ann Lee\n10 moves while 120 seats were booked; nothing is lost: True",
    "shared_map.py": "host 1 counts 400, host 2 counts 400\nthe sessions are the same: True",
    "web_map.py": "none is lost, and both count the same: True",
    "rpc.py": "together 8\nC says KeyError: 'milk'\nthe first to deliver: tea",
    "two_sites.py": "U in SFO received 100 messages in order: True",
}

SLOW = {"http_sessions.py": pytest.mark.slow, "web_map.py": pytest.mark.slow}
"""The servers of these examples are tested under load in tests/sessions and in test_web_map.py."""


def run(code: str | Path) -> str:
    arguments = [str(code)] if isinstance(code, Path) else ["-c", code]
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sockets
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW.get(name, ())) for name in sorted(EXPECTED)]
)
def test_the_example_runs(name: str) -> None:
    assert EXPECTED[name] in run(ROOT / "examples" / name)


def test_every_example_is_run() -> None:
    there = sorted(p.name for p in (ROOT / "examples").glob("*.py"))
    assert sorted([*EXPECTED, "hello.py"]) == there


@pytest.mark.sockets
def test_two_of_hello_greet_each_other() -> None:
    command = [sys.executable, str(ROOT / "examples" / "hello.py")]
    members = {
        name: subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True)
        for name in ("Ada", "Bob")
    }
    try:
        said = {name: member.communicate(timeout=120)[0] for name, member in members.items()}
    finally:
        for member in members.values():
            member.kill()
            member.communicate()
    assert "Bob says hello everyone" in said["Ada"], said
    assert "Ada says hello everyone" in said["Bob"], said
    # On a busy machine each may be alone at first, and they merge later.
    both = re.compile(r"now (MergeView::)?\[(Ada|Bob)\|1\] \(2\) \[(Ada, Bob|Bob, Ada)\]")
    assert any(both.search(text) for text in said.values()), said


def test_the_example_of_the_readme_has_ten_lines() -> None:
    """tests/outside/test_readme_chats.py runs two copies of the README's program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    example = next(b for b in blocks if "open_channel" in b)
    assert len([line for line in example.splitlines() if line]) == 10
