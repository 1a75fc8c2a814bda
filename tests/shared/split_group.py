"""Members of a group on a network in memory, by name. Every folder of tests may import it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

import trio
from split_network import SplitNetwork


class OnChannel(Protocol):
    @property
    def channel(self) -> Any: ...


N = TypeVar("N", bound=OnChannel)


class SplitGroup(Generic[N]):
    """Members on one network, each in a task. ``kill`` is a crash for the others."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.network = SplitNetwork()
        self.nodes: dict[str, N] = {}
        self._scopes: dict[str, trio.CancelScope] = {}

    async def _begin(self, name: str, opening: AbstractAsyncContextManager[N]) -> N:
        """Start a member, which stays until it is killed or the test ends."""
        await self._nursery.start(self._stay, name, opening)
        return self.nodes[name]

    async def _stay(
        self,
        name: str,
        opening: AbstractAsyncContextManager[N],
        *,
        task_status: trio.TaskStatus[None],
    ) -> None:
        with trio.CancelScope() as self._scopes[name]:
            async with opening as self.nodes[name]:
                task_status.started()
                await trio.sleep_forever()

    def cut(self, *names: str) -> None:
        """Cut the network between these members and the others. Without names the cut ends."""
        self.network.side = {id(self.nodes[name].channel.driver) for name in names}

    def kill(self, name: str) -> None:
        """Kill the member: it sends no goodbye, and its unsent messages are lost."""
        self.nodes.pop(name).channel.driver.close_all()
        self._scopes[name].cancel()
