"""Logical names arrive by discovery and may be later than the first view that has the member."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from jgroups_py import Address, Channel, SiteUUID

WAIT_MAX = 5.0
"""Seconds. A name that is not known by then is shown as its address, and the test fails on it."""


async def names_known(channel: Channel, members: Iterable[Address]) -> None:
    """Wait until the channel knows the logical names of all ``members``. A SiteUUID carries its own."""
    with trio.move_on_after(WAIT_MAX):
        for member in members:
            if isinstance(member, SiteUUID):
                continue
            while channel.name_of(member) == str(member):  # noqa: ASYNC110 - nothing tells of names
                await trio.sleep(0.01)
