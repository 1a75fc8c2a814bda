"""Reports to a program that it uses the API of another loop than its own."""

from __future__ import annotations

import logging
import sys
from typing import Final

import trio

from jgroups_py.errors import LocalProtocolError

_log = logging.getLogger("jgroups_py.blocking")
_MODULES: Final = {"open_tree_cache": "jgroups_py.cache.", "open_map": "jgroups_py.maps."}
_told: list[str] = []
"""The kinds of loop that were warned of."""


def _in_asyncio() -> bool:
    # The module is not imported for this: a program without the import has no such loop.
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def check_trio(opener: str, *, aio: bool = True) -> None:
    """Check that the caller is a task of trio. ``opener`` is the name of the public function that was called. ``aio`` is true if
    ``jgroups_py.aio`` has it, too.

    Raises:
        LocalProtocolError: one line that names the functions to use instead. Nothing was started.
    """
    if trio.lowlevel.in_trio_task():
        return
    if _in_asyncio():
        here = "this is a task of asyncio"
    else:
        here = "no loop runs here"
    others = f"jgroups_py.aio.{opener} in asyncio programs, " if aio else ""
    raise LocalProtocolError(
        f"{opener} needs a trio loop, and {here}: use {others}"
        f"jgroups_py.blocking.{opener} in programs without async, or trio.run"
    )


def check_asyncio(opener: str) -> None:
    """Check that an asyncio loop runs. ``opener`` is the name of the function of ``jgroups_py.aio``.

    Raises:
        LocalProtocolError: one line that names the functions to use instead. Nothing was started.
    """
    if _in_asyncio():
        return
    here = "this is a task of trio" if trio.lowlevel.in_trio_task() else "no loop runs here"
    raise LocalProtocolError(
        f"jgroups_py.aio.{opener} needs an asyncio loop, and {here}: use"
        f" {_MODULES.get(opener, 'jgroups_py.')}{opener} in trio programs,"
        f" jgroups_py.blocking.{opener} in programs without async, or asyncio.run"
    )


def warn_of_a_loop(what: str) -> None:
    """Log a line, once for each kind of loop, if the blocking API is used in a task of a loop. Nothing else of that loop runs
    while a call waits."""
    if trio.lowlevel.in_trio_task():
        loop, instead = "trio", "the API of jgroups_py itself"
    elif _in_asyncio():
        loop, instead = "asyncio", "jgroups_py.aio"
    else:
        return
    if loop not in _told:
        _told.append(loop)
        _log.warning(
            "jgroups_py.blocking: %s is opened in a task of %s, and each call that waits stops the whole loop: use %s there",
            what,
            loop,
            instead,
        )
