"""run_router: a gossip router on real sockets, until cancelled."""

from __future__ import annotations

import random

import trio

from jgroups_py.driver import SocketTransport, Transport
from jgroups_py.driver.base import DriverLimits
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import JGroupsError
from jgroups_py.router.machine import GossipRouter
from jgroups_py.stack.machine import Machine
from jgroups_py.stack.ports import Endpoint
from jgroups_py.stack.stack import Stack
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, Failed, TransportReady


class RouterError(JGroupsError):
    """The router could not start; no socket or task stays open."""


class _Owner:
    """Stands above the router. It learns that the router listens, or the reason why not."""

    def __init__(self) -> None:
        self.heard = trio.Event()
        self.problem = ""

    def deliver(self, batch: Batch) -> None:
        raise AssertionError("a router hands no messages up")

    def notify(self, event: Event) -> None:
        if isinstance(event, Failed):
            self.problem = event.problem
        if isinstance(event, Failed | TransportReady):
            self.heard.set()


async def run_router(
    router: GossipRouter,
    *,
    transport: Transport | None = None,
    task_status: trio.TaskStatus[Endpoint] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run ``router`` until cancelled. ``task_status`` gets the address at which it listens.

    Raises:
        RouterError: its port cannot be opened.
    """
    owner = _Owner()
    machine = Machine("router", random=random.Random(), now=trio.current_time())
    limits = DriverLimits(connections_max=router.config.max_connections + 1)
    driver = (transport or SocketTransport(limits)).driver(machine)
    stack = Stack(machine, [router], owner, name="router")
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(driver.run)
            try:
                stack.connect("router")
                driver.wake()
                await owner.heard.wait()
                if owner.problem:
                    raise RouterError(owner.problem)
                assert router.local is not None
                task_status.started(router.local)
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    driver.guarded(stack.close)
                    await driver.stop()
    except BaseExceptionGroup as group:
        reraise(group)
