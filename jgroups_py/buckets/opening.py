"""open_buckets: a member of an instance, for as long as a block lasts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import trio

from jgroups_py.buckets.machine import BucketMachine
from jgroups_py.buckets.messages import EntryChange
from jgroups_py.buckets.node import BucketNode
from jgroups_py.buckets.parts import NodeParts, Placement
from jgroups_py.buckets.plugin import Plugin
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.channel.open import configure, open_channel
from jgroups_py.config.detection_time import detection
from jgroups_py.config.settings import StackConfig, build
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError
from jgroups_py.stack.sizes import check_any_size, message_max_of

FAST_DETECTION: Final[Mapping[str, str]] = MappingProxyType(
    {"FD_ALL3.timeout": "4s", "FD_ALL3.interval": "1s"}
)
"""Attributes with which the shipped stacks detect a hanging member within 7 s."""


@asynccontextmanager
async def open_buckets(
    stack: str | Path,
    *,
    cluster: str,
    plugin: Plugin,
    settings: InstanceSettings,
    parts: NodeParts,
    placement: Placement | None = None,
    name: str | None = None,
    attributes: Mapping[str, str] | None = None,
    wall: Callable[[], float] = time.time,
    seed: int | None = None,
    contents: Mapping[int, list[EntryChange]] | None = None,
    **channel: Any,
) -> AsyncIterator[BucketNode]:
    """Open a member of the instance ``cluster``. It exists as soon as all index copies and all managers of the placement are there.

        async with open_buckets(
            "tcp.xml", cluster="seats", plugin=plugin, settings=settings, attributes=FAST_DETECTION,
            parts=NodeParts.of("n1", settings), placement=placement,
        ) as node:
            await node.wait_ready()
            replies = await node.request(Request(b"book Ann", key="LH400/12A"))

    Args:
        stack, cluster, name, attributes, seed and further ones: as for ``open_channel``. The stack must notice the loss of a member within
            ``settings.detection_max``.
        plugin: the application. Members with managers need its provider, all need its classifier.
        settings: the same at all members.
        parts: the components of this member.
        placement: the first places of the buckets; needed at members with an index copy.
        contents: the buckets' first entries (``archive.contents``), the same at all members with managers.
        wall: the clock that entries see; the default is time.time.

    Raises:
        ConfigError: a mistake, or the stack is too slow or cuts no large messages; nothing was started.
        JoinError: as ``open_channel``; no socket or task stays open.
    """
    config, _ = configure(
        stack,
        channel.get("bind_addr"),
        attributes,
        channel.get("properties"),
        transport=channel.get("transport"),
    )
    _check_detection(str(stack), config, settings.detection_max)
    check_any_size("a bucket store", str(stack), message_max_of(build(config)))
    try:
        async with (
            open_channel(
                stack, cluster=cluster, name=name, attributes=attributes, seed=seed, **channel
            ) as opened,
            trio.open_nursery() as nursery,
        ):
            now = trio.current_time()
            machine = BucketMachine(
                str(opened.address),
                settings,
                node=parts.node,
                zone=parts.zone,
                seed=str(opened.address) if seed is None else seed,
                now=now,
                wall_offset=wall() - now,
            )
            parts.build(machine, plugin, placement)
            for manager in machine.managers.values():
                manager.contents = dict(contents or {})
                manager.entry_work.clock = trio.current_time
            contents = None  # freed as buckets are created
            node = BucketNode(opened, machine, plugin, nursery)
            opened.more_metrics.append(node.samples)
            nursery.start_soon(node.read)
            nursery.start_soon(node.tick)
            try:
                yield node
            finally:
                node.close()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        reraise(group)


def _check_detection(stack: str, config: StackConfig, most: float) -> None:
    """Refuse a stack with slow detection: requests for a lost member wait for that time (A2)."""
    worst = detection(build(config)).worst
    if worst is None or worst > most:
        found = "never" if worst is None else f"after up to {worst:g} s"
        raise ConfigError(
            f"{stack}: it notices a member that hangs {found}; a bucket store needs {most:g} s (detection_max): "
            f"give attributes={dict(FAST_DETECTION)!r}, or set FD_ALL3 in the file"
        )
