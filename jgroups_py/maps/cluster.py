"""Clusters of maps: from a builder, or from a cluster file (K19-K21)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self, cast

import trio

from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError
from jgroups_py.maps.audit import AuditLog
from jgroups_py.maps.cluster_file import ClusterConfig, HostConfig, MapConfig, load_cluster
from jgroups_py.maps.codecs import AnyCodec
from jgroups_py.maps.host import MapHost, PeerNetwork
from jgroups_py.maps.open import Map, open_map
from jgroups_py.maps.opening import MapOptions, Opening, Replication
from jgroups_py.maps.tcp import open_port
from jgroups_py.maps.tcp_links import TcpLinks
from jgroups_py.maps.tcp_places import place_from
from jgroups_py.tls import TlsSettings

_TYPES: Final[dict[str, AnyCodec]] = {
    **dict.fromkeys(("String", "CharSequence", "java.lang.String", "str"), str),
    **dict.fromkeys(("Integer", "Long", "Short", "int", "long", "java.lang.Long"), int),
    **dict.fromkeys(("byte[]", "bytes"), bytes),
    "json": "json",
}
"""Types that a cluster file may name."""


class MapBuilder:
    """Options of a map, one after another, as in Chronicle Map:

    MapBuilder.of(str, Quote).name("fx").replication(1, TcpLinks(listen=..., peers=...)).open("data/fx")
    """

    def __init__(self, key: AnyCodec, value: AnyCodec) -> None:
        self._options: dict[str, Any] = {"key": key, "value": value}

    @classmethod
    def of(cls, key: AnyCodec, value: AnyCodec) -> Self:
        return cls(key, value)

    def name(self, name: str) -> Self:
        return self.set(name=name)

    def replication(
        self,
        identifier: int,
        network: PeerNetwork | Iterable[PeerNetwork] | None = None,
        settings: Replication | None = None,
    ) -> Self:
        """Set up replication. ``identifier``: of this host, the same in all its processes. Without ``network`` other
        processes replicate."""
        return self.set(identifier=identifier, network=network, replication=settings)

    def set(self, **options: Any) -> Self:
        """Set other options of ``open_map``."""
        self._options.update(options)
        return self

    @property
    def options(self) -> MapOptions:
        """Return the options for ``open_map`` of any API: ``blocking.open_map(path, **builder.options)``."""
        return cast(MapOptions, dict(self._options))

    def open(self, path: str | os.PathLike[str]) -> AbstractAsyncContextManager[Map[Any, Any]]:
        """See ``open_map``."""
        return open_map(path, **self.options)


class ReplicatedMaps(Mapping[str, Map[Any, Any]]):
    """The maps of a cluster file at one host, by name."""

    def __init__(self, host: HostConfig, maps: dict[str, Map[Any, Any]]) -> None:
        self.host = host
        self._maps = maps

    def __getitem__(self, name: str) -> Map[Any, Any]:
        return self._maps[name]

    def __iter__(self) -> Any:
        return iter(self._maps)

    def __len__(self) -> int:
        return len(self._maps)


@asynccontextmanager
async def open_cluster(
    config: str | os.PathLike[str] | ClusterConfig,
    host_id: int,
    *,
    addresses: Mapping[str, str] | None = None,
    types: Mapping[str, AnyCodec] | None = None,
    folder: str | os.PathLike[str] = ".",
    tls: TlsSettings | None = None,
    insecure: bool = False,
) -> AsyncIterator[ReplicatedMaps]:
    """Open the maps of a cluster file, as one of its hosts, for as long as the block lasts.

    Args:
        config: the file, or the result of ``load_cluster``.
        host_id: this host's number in the file.
        addresses: HOST:PORT by ``connectUri``, for those that are names.
        types: codecs by ``keyClass`` and ``valueClass``, for those that are not String, Integer, Long or byte[]. A value of another class is JSON.
        folder: the base of a relative ``mapFileDataDirectory``.
        tls, insecure: see ``TcpLinks``.

    Raises:
        ConfigError: the file has an error, or an argument is missing; with line and key. MapError: as ``open_map``.
            No map stays open.

    All maps of a host share one port. One process of a host replicates; the others wait for its end.
    """
    check_trio("open_cluster", aio=False)
    cluster = config if isinstance(config, ClusterConfig) else load_cluster(config)
    if host_id not in cluster.hosts:
        known = ", ".join(str(known) for known in sorted(cluster.hosts))
        raise ConfigError(f"there is no host with hostId {host_id} ({known})", file=cluster.source)
    places = {
        host.host_id: _place_of(host, addresses or {}, cluster) for host in cluster.hosts.values()
    }
    _check_places(cluster, places, addresses or {})
    links = TcpLinks(
        listen=places.pop(host_id), peers=tuple(places.values()), tls=tls, insecure=insecure
    )
    port = _OnePort(links)
    logs = {one.name: one.log_folder(host_id, Path(folder)) for one in cluster.maps.values()}
    audits = {name: AuditLog(log) for name, log in logs.items() if log is not None}
    openings = [
        Opening(
            one.folder(host_id, Path(folder)),
            _options_of(one, host_id, cluster, types or {}, port, audits.get(one.name)),
        )
        for one in cluster.maps.values()
    ]
    async with AsyncExitStack() as stack:
        for audit in audits.values():
            stack.callback(audit.close)
        maps: dict[str, Map[Any, Any]] = {}
        for name, opening in zip(cluster.maps, openings, strict=True):
            file = await trio.to_thread.run_sync(opening.open_file)
            stack.push_async_callback(_close, file.close)
            maps[name] = Map(file, *opening.codecs(file), opening.ttl)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_replicate, openings, list(maps.values()))
                yield ReplicatedMaps(cluster.hosts[host_id], maps)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            reraise(group)


async def _close(close: Callable[[], None]) -> None:
    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(close)


async def _replicate(openings: list[Opening], maps: list[Map[Any, Any]]) -> None:
    """Open one map after another, so that the process that gets the first one gets all."""
    try:
        async with trio.open_nursery() as nursery:
            for opening, opened in zip(openings, maps, strict=True):
                begun = trio.Event()

                def started(
                    host: MapHost, opened: Map[Any, Any] = opened, begun: trio.Event = begun
                ) -> None:
                    opened._begun(host)
                    begun.set()

                nursery.start_soon(opening.replicate, opened._file, started)
                await begun.wait()
    except BaseExceptionGroup as group:
        reraise(group)


class _OnePort:
    """The network of all maps of a process. The first map opens the port."""

    def __init__(self, links: TcpLinks) -> None:
        self._links = links
        self._begun = False
        self._port: Any = None
        self._open = trio.Event()

    async def run(self, host: MapHost) -> None:
        """See ``PeerNetwork``."""
        name, links = host.settings.map, self._links
        if self._begun:
            await self._open.wait()
            await self._port.network(name, links.peers).run(host)
            return
        self._begun = True
        async with open_port(
            host.settings.node,
            listen=links.listen,
            tls=links.tls,
            insecure=links.insecure,
            settings=links.settings,
        ) as self._port:
            self._open.set()
            await self._port.network(name, links.peers).run(host)


def _options_of(
    one: MapConfig,
    host_id: int,
    cluster: ClusterConfig,
    types: Mapping[str, AnyCodec],
    network: PeerNetwork,
    audit: AuditLog | None,
) -> MapOptions:
    key = types.get(one.key_class, _TYPES.get(one.key_class))
    if key is None:
        raise ConfigError(
            f"maps.{one.name}.keyClass: {one.key_class} is not known: give it in types=",
            file=cluster.source,
            line=one.line,
        )
    options: dict[str, Any] = {
        "name": one.name,
        "key": key,
        "value": types.get(one.value_class, _TYPES.get(one.value_class, "json")),
        "identifier": host_id,
        "wide_identifiers": max(cluster.hosts) > 127,
        "network": network,
        "replication": Replication(
            peers=frozenset(cluster.hosts),
            watch=None if audit is None else audit.watch,
            **one.replication,
        ),
        **one.options,
    }
    return cast(MapOptions, options)


def _check_places(
    cluster: ClusterConfig, places: Mapping[int, str], addresses: Mapping[str, str]
) -> None:
    """Check that each host has a place of its own, and that each address belongs to a host."""
    names = {host.connect_uri for host in cluster.hosts.values()}
    for name in addresses:
        if name not in names:
            known = ", ".join(sorted(names))
            raise ConfigError(f'no connectUri is "{name}" ({known})', file=cluster.source)
    first: dict[str, HostConfig] = {}
    for host in cluster.hosts.values():
        other = first.setdefault(places[host.host_id], host)
        if other is not host:
            raise ConfigError(
                f"cluster.{host.name}.connectUri: {places[host.host_id]} is that of {other.name}, too",
                file=cluster.source,
                line=host.line,
            )


def _place_of(host: HostConfig, addresses: Mapping[str, str], cluster: ClusterConfig) -> str:
    place = addresses.get(host.connect_uri, host.connect_uri)
    try:
        place_from(place, "it")
    except ConfigError:
        raise ConfigError(
            f'cluster.{host.name}.connectUri: "{place}" is not HOST:PORT; a name gets one by addresses=',
            file=cluster.source,
            line=host.line,
        ) from None
    return place
