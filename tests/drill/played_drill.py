"""Plays the text of a drill, or shows that it is refused."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from jgroups_py.drill import judged
from jgroups_py.drill.file import loader, plan
from jgroups_py.drill.run.runner import NoProgress
from jgroups_py.errors import ConfigError

V = TypeVar("V")


def play(
    text: str, kind: type[V], *, seed: int | None = None, real: bool = False
) -> tuple[V, dict[str, Any]]:
    """Return the verdict, which is of ``kind``, and the result of a run."""
    planned = plan.build(loader.loads(text), seed)
    judged.check(planned)
    outcome = judged.run(planned, judged.runner_of(planned, real), NoProgress())
    assert isinstance(outcome.verdict, kind)
    return outcome.verdict, outcome.result


def refuse(drill: str, old: str, new: str, line: int, words: str) -> None:
    """Show that the drill with ``new`` instead of ``old`` is refused with this line and these words."""
    assert old in drill
    with pytest.raises(ConfigError) as caught:
        loader.loads(drill.replace(old, new, 1), "d.yaml")
    assert f"d.yaml:{line}" in str(caught.value) and words in str(caught.value), str(caught.value)
