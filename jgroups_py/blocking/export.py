"""An export port for threads. A driver or a notebook opens it beside its cache."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from jgroups_py.blocking.cache import TreeCache
from jgroups_py.blocking.handle import Handle
from jgroups_py.errors import ChannelClosed
from jgroups_py.export import ExportLimits, ExportToken
from jgroups_py.export import ExportPort as AsyncPort
from jgroups_py.export import open_export as open_async
from jgroups_py.tls import TlsSettings


def open_export(
    cache: TreeCache | Mapping[str, TreeCache],
    *,
    token: str | Sequence[ExportToken] | None = None,
    token_file: str | None = None,
    tls: TlsSettings | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    limits: ExportLimits | None = None,
    allow_remote: bool = False,
    timeout: float | None = None,
) -> ExportPort:
    """Open an export port. It closes with its cache. If there are several caches, it closes with the first
    one in the mapping. Arguments and errors are those of ``jgroups_py.export.open_export``. A port of this
    process that is open at the same ``host`` and ``port`` is closed first, with a warning, so that a
    notebook's cell can be run again."""
    before = _open.get((host, port)) if port else None
    if before is not None and not before.closed:
        warnings.warn(
            f"the export port at {host}:{port} was not closed; it is now, for it is opened again",
            ResourceWarning,
            stacklevel=2,
        )
        before.close(timeout)
    caches = dict(cache) if isinstance(cache, Mapping) else {"cache": cache}

    def opener() -> Any:
        return open_async(
            {name: one._value for name, one in caches.items()},
            token=token,
            token_file=token_file,
            tls=tls,
            host=host,
            port=port,
            limits=limits,
            allow_remote=allow_remote,
        )

    opened = ExportPort("export port", opener, _closed, timeout, next(iter(caches.values())))
    _open[host, opened.address[1]] = opened
    return opened


class ExportPort(Handle[AsyncPort]):
    """Made by ``open_export``."""

    @property
    def address(self) -> tuple[str, int]:
        """The address at which it listens."""
        return self._value.address

    @property
    def counters(self) -> Mapping[str, int]:
        """Return counters: clients, refused clients, rows out and in."""
        return dict(self._value.counters)


_open: WeakValueDictionary[tuple[str, int], ExportPort] = WeakValueDictionary()
"""The open ports of this process, by the address that was asked for."""


def _closed() -> ChannelClosed:
    return ChannelClosed("the export port is closed")
