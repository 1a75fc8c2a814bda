"""Plays the text of a drill, or shows that it is refused."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import pytest

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.errors import ConfigError

V = TypeVar("V")
SLOW_TO_SUSPECT = {"FD_ALL3.timeout": "5s", "VERIFY_SUSPECT2.timeout": "4s"}


def play(
    text: str, kind: type[V], *, seed: int | None = None, real: bool = False
) -> tuple[V, dict[str, Any]]:
    """Return the verdict, which is of ``kind``, and the result of a run."""
    planned = plan.build(loader.loads(text), seed)
    judged.check(planned)
    outcome = judged.run(planned, judged.runner_of(planned, real), NoProgress())
    assert isinstance(outcome.verdict, kind)
    return outcome.verdict, outcome.result


def slow_to_suspect(drill: str) -> str:
    """Return the text for a drill with real processes. On a busy machine one may not run for seconds, and its exclusion would be a
    second loss. A crash is noticed at its closed connections."""
    for name, limit in SLOW_TO_SUSPECT.items():
        drill, found = re.subn(rf"{name}: \w+", f"{name}: {limit}", drill)
        assert found == 1
    return drill


def refuse(drill: str, old: str, new: str, line: int, words: str) -> None:
    """Show that the drill with ``new`` instead of ``old`` is refused with this line and these words."""
    assert old in drill
    with pytest.raises(ConfigError) as caught:
        loader.loads(drill.replace(old, new, 1), "d.yaml")
    assert f"d.yaml:{line}" in str(caught.value) and words in str(caught.value), str(caught.value)
