"""A wait that is logged when it takes long."""

from __future__ import annotations

import logging

import trio

from jgroups_py.channel.channel import Channel

_log = logging.getLogger("jgroups_py.rpc")


async def wait_warned(
    channel: Channel, lot: trio.lowlevel.ParkingLot, seconds: float, why: str
) -> None:
    """Wait in ``lot``, but for ``seconds`` at most. After these log ``why``."""
    with trio.move_on_after(seconds) as scope:
        await lot.park()
    if scope.cancelled_caught:
        name, cluster = channel.name, channel.cluster
        extra = {"member": name, "cluster": cluster}
        _log.warning("%s/%s: waiting: %s", name, cluster, why, extra=extra)
