"""open_deployed: a member of the instance that a deployment file describes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from jgroups_py.buckets.deployment.application import load_application
from jgroups_py.buckets.deployment.distribution import distribute
from jgroups_py.buckets.deployment.model import Deployment
from jgroups_py.buckets.deployment.reader import load_deployment
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.opening import FAST_DETECTION, open_buckets
from jgroups_py.buckets.parts import NodeParts
from jgroups_py.buckets.plugin import Plugin


def parts_of(deployment: Deployment, node: str) -> NodeParts:
    """Return the components of a node in the file. A member has at most one index copy. Raises ConfigError: there is no
    such node."""
    found = deployment.by_name.get(node)
    if found is None:
        known = ", ".join(deployment.by_name)
        raise deployment.wrong("nodes", f"there is no node {node!r}, but {known}")
    return NodeParts(
        node=node,
        zone=deployment.zone_of(found),
        managers=found.components("m"),
        index=next(iter(found.components("i")), None),
        routers=max(1, found.routers),
    )


@asynccontextmanager
async def open_deployed(
    deployment: Deployment | str | os.PathLike[str],
    node: str | None = None,
    *,
    plugin: Plugin | None = None,
    client: str = "client",
    **channel: Any,
) -> AsyncIterator[BucketNode]:
    """Open a node of the deployment, or a client of it.

        async with open_deployed("seats.yaml", "n1") as node: ...
        async with open_deployed("seats.yaml") as client: ...

    Args:
        deployment: the file, or the result of ``load_deployment``.
        node: which one; None: a client, which has a router only. ``client`` is its name in statistics.
        plugin: the application; by default the one that the file names.
        channel: further ones as for ``open_channel``. ``attributes`` come before those of the file.

    Raises:
        ConfigError: a mistake in the file, with its place; nothing was started.
        Others: as ``open_buckets``.
    """
    if not isinstance(deployment, Deployment):
        deployment = load_deployment(deployment)
    parts = NodeParts(node=client) if node is None else parts_of(deployment, node)
    attributes = {**FAST_DETECTION, **deployment.attributes, **channel.pop("attributes", {})}
    if node is not None and deployment.by_name[node].address:
        channel.setdefault("bind_addr", deployment.by_name[node].address)
    async with open_buckets(
        channel.pop("stack", deployment.stack),
        cluster=deployment.name,
        plugin=plugin or load_application(deployment),
        settings=deployment.settings,
        parts=parts,
        placement=distribute(deployment).components,
        contents=channel.pop("contents", None),
        attributes=attributes,
        **channel,
    ) as opened:
        yield opened
