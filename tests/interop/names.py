"""Logical names arrive with discovery, possibly later than the first view with the member."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from jgroups_py import Address, Channel, SiteUUID

WAIT_MAX = 5.0
"""Seconds. A name that is still unknown after that is shown as an address, and the test fails."""


async def names_known(channel: Channel, members: Iterable[Address]) -> None:
    """Wait until the channel knows the logical names of all ``members``. A SiteUUID carries its name itself."""
    with trio.move_on_after(WAIT_MAX):
        for member in members:
            if isinstance(member, SiteUUID):
                continue
            while channel.name_of(member) == str(member):  # noqa: ASYNC110 - nothing tells of names
                await trio.sleep(0.01)
