"""Instances of the explorer's application on a network in memory: three or four nodes with nine pairs of copies,
and clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio
from seed_instance import PLACEMENT, seed_settings
from split_group import SplitGroup
from split_network import SplitNetwork

from jgroups_py.buckets import Request
from jgroups_py.buckets.deployed import open_deployed
from jgroups_py.buckets.deployment import Deployment
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.opening import FAST_DETECTION, open_buckets
from jgroups_py.buckets.parts import NodeParts
from jgroups_py.buckets.plugin import Plugin
from jgroups_py.testing.explorer.buckets.ledger import ledger


class Group(SplitGroup[BucketNode]):
    def __init__(self, nursery: trio.Nursery, plugin: Plugin, **settings: Any) -> None:
        super().__init__(nursery)
        self.plugin, self.settings = plugin, seed_settings(**settings)

    async def start(
        self,
        name: str,
        *,
        client: bool = False,
        parts: NodeParts | None = None,
        plugin: Plugin | None = None,
    ) -> BucketNode:
        """``parts``, ``plugin``: instead of the usual ones, for example another version beside the old one."""
        usual = NodeParts(node=name) if client else NodeParts.of(name, self.settings)
        opening = open_buckets(
            "sim.xml",
            cluster="test",
            name=name,
            plugin=plugin or self.plugin,
            settings=self.settings,
            parts=parts or usual,
            placement=PLACEMENT,
            attributes=FAST_DETECTION,
            transport=self.network,
            wall=trio.current_time,
        )
        return await self._begin(name, opening)

    async def stop(self, name: str) -> None:
        """Leave the group."""
        self.nodes.pop(name)
        self._scopes[name].cancel()
        await trio.sleep(1)

    async def whole(self) -> None:
        """Wait until each pair has both copies and every member knows that."""
        with trio.fail_after(300):
            for node in self.nodes.values():
                await node.wait_until(
                    lambda state: bool(state.rows) and all(r.slave for r in state.rows.values())
                )

    def states(self, bucket: int) -> Mapping[str, Any]:
        """Return the state that each member has of this bucket."""
        return {
            name: copy.bucket.state()
            for name, node in self.nodes.items()
            for manager in node.machine.managers.values()
            if (copy := manager.copies.get(bucket)) is not None
        }


async def ask(node: BucketNode, key: str, body: str) -> str:
    """Send a request and return its one reply."""
    (reply,) = await node.request(Request(body.encode(), key))
    return reply.decode()


@asynccontextmanager
async def deployed_group(
    deployment: Deployment, plugin: Plugin
) -> AsyncIterator[dict[str, BucketNode]]:
    """Yield all nodes of a deployment on a network in memory, once they know where its buckets are."""
    network = SplitNetwork()
    async with AsyncExitStack() as opened:
        nodes = {}
        for place in deployment.nodes:
            member = open_deployed(
                deployment, place.name, plugin=plugin, transport=network, wall=trio.current_time
            )
            nodes[place.name] = await opened.enter_async_context(member)
        for node in nodes.values():
            await node.wait_ready()
        yield nodes


@asynccontextmanager
async def bucket_group(
    names: str = "n1 n2 n3", *, plugin: Plugin | None = None, **settings: Any
) -> AsyncIterator[Group]:
    async with trio.open_nursery() as nursery:
        group = Group(nursery, plugin or ledger(), **settings)
        for name in names.split():
            await group.start(name)
        if names:
            await group.whole()
        yield group
        nursery.cancel_scope.cancel()
