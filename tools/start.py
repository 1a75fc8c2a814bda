"""Starts ``jgroups-py`` and ``python -m jgroups_py``, after a check that the packages for commands are installed.

A plain installation has the library only. The extra ``cli`` brings the packages for commands.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import Final

NEEDED: Final = ("click", "jinja2", "rich")
"""The modules that the extra ``cli`` brings."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code.

    Exit 2 and one line on standard error when a package of the extra ``cli`` is not installed.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"jgroups-py: {', '.join(missing)} not installed; the command line needs: "
            "pip install 'jgroups_py[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from jgroups_py.tools import cli  # it imports what may have been missing

    cli.main(args)
