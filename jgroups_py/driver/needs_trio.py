"""A clear error for a program that uses the trio API without a trio loop."""

from __future__ import annotations

import sys

import trio

from jgroups_py.errors import LocalProtocolError


def check_trio(opener: str, *, aio: bool = True) -> None:
    """Returns inside a task of trio. ``opener``: the name of the public function that was entered.
    ``aio``: ``jgroups_py.aio`` has it, too.

    Raises:
        LocalProtocolError: one line that names the functions to use instead. Nothing was started.
    """
    if trio.lowlevel.in_trio_task():
        return
    asyncio = sys.modules.get("asyncio")  # not imported for this: who did not has no loop of it
    if asyncio is not None and asyncio._get_running_loop() is not None:
        here = "this is a task of asyncio"
    else:
        here = "no loop runs here"
    others = f"jgroups_py.aio.{opener} in asyncio programs, " if aio else ""
    raise LocalProtocolError(
        f"{opener} needs a trio loop, and {here}: use {others}"
        f"jgroups_py.blocking.{opener} in programs without async, or trio.run"
    )
