"""ended: how a measuring command ends its process."""

from __future__ import annotations

import sys
from collections.abc import Callable

from jgroups_py.driver.unwrap import leaves
from jgroups_py.tools.cli import INTERRUPTED


def end_with(main: Callable[[], int | None]) -> None:
    """Run ``main`` and end the process with its exit code (None: 0). An interrupt, alone or among the errors of tasks, prints one
    line and ends with exit code 130. Figures measured until then are not reported."""
    try:
        code = main() or 0
    except BaseException as error:
        if not any(isinstance(one, KeyboardInterrupt) for one in leaves(error)):
            raise
        print("interrupted: nothing is reported", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)
