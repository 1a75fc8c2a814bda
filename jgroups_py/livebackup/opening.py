"""open_livebackup: makes a node for as long as a block lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from jgroups_py.channel.open import configure, open_channel
from jgroups_py.config.settings import build
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError
from jgroups_py.livebackup.kinds import Catalogue, Operation, Stateful, is_by_effects
from jgroups_py.livebackup.node import LiveBackupNode
from jgroups_py.livebackup.processes import open_workers
from jgroups_py.livebackup.settings import Every, LiveBackupSettings
from jgroups_py.stack.sizes import check_any_size, message_max_of


@asynccontextmanager
async def open_livebackup(
    stack: str | Path,
    *,
    cluster: str,
    kinds: Iterable[type[Stateful]],
    operations: Iterable[Operation],
    settings: LiveBackupSettings | None = None,
    timers: Iterable[Every] = (),
    name: str | None = None,
    wall: Callable[[], float] | None = None,
    seed: int | None = None,
    **channel: Any,
) -> AsyncIterator[LiveBackupNode]:
    """Open a node of ``cluster``. One node is live, the others are its backups; all are opened alike.

        async with open_livebackup(
            "tcp.xml", cluster="broker", kinds=[Session, Queue], operations=[send, acknowledge]
        ) as node:
            await node.wait_role("live")
            number = await node.run(send, "s1", "orders", "hello")

    Args:
        stack, cluster, name, seed and further ones: as for ``open_channel``.
        kinds: classes of objects; see Stateful.
        operations: async functions ``(work, *arguments)``; see Work. An operation must affect nothing but objects,
            because backups run it again.
        settings: confirmation rule, limits and times; see LiveBackupSettings. They are the same on all nodes.
        timers: operations that the live node starts itself.
        wall: the clock that operations see; the default is time.time.

    Raises:
        TypeError: a class is no kind, or a function is no operation. Nothing was started.
        ConfigError: as ``open_channel``, or the stack sends datagrams and has no FRAG2.
        JoinError: as ``open_channel``.
    """
    catalogue = Catalogue.of(kinds, operations)
    timers = tuple(timers)
    for timer in timers:
        if timer.operation not in catalogue.names:
            raise TypeError(f"the operation of {timer!r} is not one of the operations")
    settings = settings or LiveBackupSettings()
    for operation in catalogue.names:
        if is_by_effects(operation) and settings.mode != "parallel":
            raise ConfigError(
                f'mode must be "parallel" with operations by their effects such as {operation.__name__}, got "{settings.mode}"'
            )
    _check_processes(catalogue, settings)
    config, _ = configure(
        stack,
        channel.get("bind_addr"),
        channel.get("attributes"),
        channel.get("properties"),
        transport=channel.get("transport"),
    )
    check_any_size("live and backup", str(stack), message_max_of(build(config)))
    options: dict[str, Any] = {"wall": wall} if wall is not None else {}
    try:
        async with (
            open_workers(catalogue.kinds, settings.processes) as workers,
            open_channel(stack, cluster=cluster, name=name, seed=seed, **channel) as opened,
            trio.open_nursery() as nursery,
        ):
            node = LiveBackupNode(
                opened,
                catalogue,
                settings,
                timers,
                nursery,
                seed=seed,
                workers=workers,
                **options,
            )
            if workers is not None:
                nursery.start_soon(workers.watch)
            nursery.start_soon(node.serve)
            nursery.start_soon(node.out.run)
            try:
                yield node
            finally:
                node.close()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        reraise(group)


def _check_processes(catalogue: Catalogue, settings: LiveBackupSettings) -> None:
    for kind in catalogue.kinds.values():
        if kind.runs_in != "process":
            continue
        if settings.readable:
            raise ConfigError(
                f"readable must be false with kinds that run in a process such as {kind.__name__}"
            )
        if "<locals>" in kind.__qualname__:
            raise ConfigError(
                f"{kind.__name__} stands in a function; a kind that runs in a process stands in a module"
            )
