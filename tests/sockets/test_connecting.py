"""Connections that are given up before they are open."""

from __future__ import annotations

import gc
import random
import socket
import warnings

import trio

from jgroups_py.driver import SocketTransport
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Close, Connect


async def test_closed_and_cancelled_before_it_was_tried() -> None:
    """The protocol closes the connection in the turn in which it asked for it, and no input follows."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        machine = Machine("A", random=random.Random(0))
        driver = SocketTransport().driver(machine)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with trio.open_nursery() as nursery:
                await nursery.start(driver.run)
                machine.put(Connect(1, listener.getsockname(), 1.0))
                machine.put(Close(1))
                driver.turn()
                nursery.cancel_scope.cancel()
            gc.collect()
    assert [str(warning.message) for warning in caught] == []
