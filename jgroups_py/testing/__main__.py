"""Plays a schedule that ``explore`` wrote: python -m jgroups_py.testing MODULE:FUNCTION FILE

FUNCTION makes the cluster for a seed, as for ``explore``; MODULE is found as by ``python -m``. It prints the events.
Exit code 0: all checks hold; 1: one does not; 2: the schedule could not be played.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from jgroups_py.errors import ConfigError
from jgroups_py.testing.exploring import Factory, replay
from jgroups_py.testing.violated import PropertyViolated

USAGE = "usage: python -m jgroups_py.testing MODULE:FUNCTION FILE"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 2:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        outcome = replay(_factory(arguments[0]), arguments[1])
    except PropertyViolated as violated:
        print(violated)
        return 1
    except (ConfigError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in outcome.story:
        print(line)
    print("holds")
    return 0


def _factory(place: str) -> Factory:
    module_name, _, name = place.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ModuleNotFoundError, ValueError) as error:
        raise ConfigError(f"cannot import {module_name!r}: {error}") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise ConfigError(f"{module_name} has no function {name!r}")
    factory: Factory = found
    return factory


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
