"""Where ``jgroups-py`` and ``python -m jgroups_py`` begin: are the packages there that commands need?

A plain installation has the library only. What commands need besides is the extra ``cli``.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import Final

NEEDED: Final = ("click", "jinja2", "rich")
"""What the extra ``cli`` brings, by the names modules have."""


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
