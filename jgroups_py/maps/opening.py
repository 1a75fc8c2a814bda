"""Opening a map: from arguments to a file, codecs and replication. For all three APIs."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypedDict

from jgroups_py.maps.codecs import CODECS, AnyCodec, Codec, codec_of
from jgroups_py.maps.errors import MapError, MapFileError, MapTypeError
from jgroups_py.maps.fields import Fields
from jgroups_py.maps.file_settings import FileSettings
from jgroups_py.maps.given import check_kind, check_number, check_seconds
from jgroups_py.maps.host import MapEvent, MapHost, PeerNetwork, replicate
from jgroups_py.maps.replica_settings import ReplicaSettings
from jgroups_py.maps.rules import ConflictRule, LastWriter, PerField
from jgroups_py.maps.shared import SharedFile
from jgroups_py.maps.stamp import IDENTIFIER_MAX, WIDE_IDENTIFIER_MAX
from jgroups_py.maps.tcp_links import TcpLinks
from jgroups_py.tls import TlsSettings

WINDOW_MAX: Final = 1 << 40
"""The limit of ``Replication.window``."""


@dataclass(frozen=True, kw_only=True)
class Replication:
    """Settings of a map's replication. Seconds and bytes."""

    peers: frozenset[int] = frozenset()
    """Identifiers of all hosts. A removal is forgotten when all of them have it; without this field, at
    ``tombstone_age``."""
    flush_interval: float = 0.01
    """The time for which changes are collected before they are sent."""
    max_bandwidth: float = 0.0
    """The most bytes a second to all peers together; 0: no limit."""
    window: int = 1024 * 1024
    """The most bytes on the way to one peer that it has not acknowledged."""
    tombstone_min_age: float = 0.0
    """The least seconds for which a removal is kept, even if all ``peers`` have it. A follower of changes that stops
    for longer misses removals."""
    tombstone_age: float = 7 * 86_400.0
    """Seconds after which a removal is forgotten in any case. A host that was away longer learns the removed keys when
    it comes back."""
    max_skew: float = 10.0
    """The most seconds that a clock may be ahead before there is an alarm."""
    max_ahead: float = 3600.0
    """The most seconds that a change of another host may be ahead of this host's clock. A change that is further ahead
    waits, and so do all later ones of its host; both hosts log it."""
    origins_max: int = 4096
    """The most files of hosts whose changes are taken: hosts, and for each host its former files. The same at all
    hosts."""
    watch: Callable[[MapEvent], None] | None = None
    """Called in the trio loop with ``Told``, ``Arrived`` and ``Sent``. It must not wait. Its exceptions are logged (counter
    ``watch_failures``), and replication continues."""


class MapOptions(TypedDict, total=False):
    """Options of ``open_map``."""

    name: str | None
    key: AnyCodec | None
    value: AnyCodec | None
    identifier: int | None
    network: PeerNetwork | Iterable[PeerNetwork] | None
    listen: str | None
    peers: Iterable[str]
    tls: TlsSettings | None
    insecure: bool
    replication: Replication | None
    rule: ConflictRule | None
    ttl: float | None
    durability: str
    wide_identifiers: bool
    hybrid: bool | None
    max_bytes: int | None
    max_entries: int | None
    max_live_bytes: int | None
    evict: str | None
    inbox_bytes: int
    sync_interval: float
    merger: str
    merge_interval: float
    full_timeout: float
    lock_timeout: float


_OF_THE_FILE = {field.name for field in fields(FileSettings)} - {"name", "key", "value", "rule"}


class Opening:
    """The checked arguments of ``open_map``. Errors: MapError, with the accepted values."""

    def __init__(self, path: str | os.PathLike[str], options: MapOptions) -> None:
        self.path = Path(path)
        given: dict[str, Any] = dict(options)
        unknown = sorted(set(given) - set(MapOptions.__annotations__))
        if unknown:
            raise MapError(
                f"open_map has no option {unknown[0]}; it has {', '.join(sorted(MapOptions.__annotations__))}"
            )
        if not os.fspath(path):
            raise MapError("the path of a map's folder is empty")
        name = given.get("name")
        if name is not None and not (isinstance(name, str) and 0 < len(name) <= 100):
            raise MapError(f"name must be a text of 1 to 100 characters, got {name!r}")
        self.rule: ConflictRule | None = given.get("rule")
        if self.rule is not None:
            _check_rule(self.rule)
        key, value = given.get("key"), given.get("value")
        self._key = None if key is None else codec_of(key, "key")
        self._value = None if value is None else codec_of(value, "value")
        if self.rule is not None and not isinstance(self.rule, LastWriter):
            if self._value is not None and isinstance(self.rule, PerField):
                Fields(self._value)
            elif self._value is not None and self._value.name not in ("json", "own"):
                raise MapError(
                    f'the rule {self.rule.name} is for values of "json" or of a pair of functions, got {self._value.name}'
                )
        self.ttl: float | None = given.get("ttl")
        network = given.get("network")
        if network is None:
            self.networks: list[PeerNetwork] = []
        elif hasattr(network, "run"):
            self.networks = [network]
        else:
            check_kind("network", network, Iterable, "a network or a list of them")
            self.networks = list(network)
        for one in self.networks:
            if not callable(getattr(one, "run", None)):
                raise MapTypeError(f"network must have a method run, got {one!r:.80}")
        listen, peers = given.get("listen"), given.get("peers", ())
        if isinstance(peers, str):
            raise MapError(f'peers must be a list of HOST:PORT, got the text "{peers}"')
        check_kind("peers", peers, Iterable, "a list of HOST:PORT")
        peers = tuple(peers)
        for text in (*peers, *(() if listen is None else (listen,))):
            check_kind("listen" if text is listen else "a peer", text, str, "HOST:PORT")
        tls, insecure = given.get("tls"), given.get("insecure", False)
        check_kind("insecure", insecure, bool, "True or False")
        if tls is not None:
            check_kind("tls", tls, TlsSettings, "TlsSettings")
        if listen is not None or peers:
            self.networks.append(TcpLinks(listen=listen, peers=peers, tls=tls, insecure=insecure))
        if self.networks and given.get("identifier") is None:
            raise MapError(
                "a map that replicates needs an identifier, from 1 to 127: another one at each host, the same in all processes of a host"
            )
        replication = given.get("replication")
        if replication is not None:
            check_kind("replication", replication, Replication, "Replication")
            _check_replication(replication, bool(given.get("wide_identifiers")))
        self._replication = replication or Replication()
        self._settings = FileSettings(
            name=name,
            rule=self.rule,
            key=None if self._key is None else self._key.name,
            value=None if self._value is None else self._value.name,
            **{n: v for n, v in given.items() if n in _OF_THE_FILE},
        )
        # A wrong number is refused before the file is opened.
        self._replica_settings(map="", origin=1, file=b"")

    def open_file(self) -> SharedFile:
        """Open the file, with reads and writes on the disk."""
        return SharedFile(self.path, self._settings)

    def codecs(self, file: SharedFile) -> tuple[Codec[Any], Codec[Any]]:
        return (
            _chosen(self._key, file.key_codec, file.folder, "key"),
            _chosen(self._value, file.value_codec, file.folder, "value"),
        )

    async def replicate(self, file: SharedFile, started: Callable[[MapHost], None]) -> None:
        """Replicate until cancelled."""
        settings = self._replica_settings(
            map=file.name,
            origin=file.origin,
            file=file.file_id,
            rule=file.rule.name,
            key=file.key_codec,
            value=file.value_codec,
        )
        await replicate(
            file, settings, self.networks, watch=self._replication.watch, started=started
        )

    def _replica_settings(self, **of_the_file: Any) -> ReplicaSettings:
        given = self._replication
        try:
            return ReplicaSettings(
                **of_the_file,
                node=self._settings.identifier or 1,
                name=socket.gethostname(),
                peers=frozenset(given.peers),
                flush_interval=given.flush_interval,
                max_bandwidth=given.max_bandwidth,
                window=given.window,
                tombstone_min_age=given.tombstone_min_age,
                tombstone_age=given.tombstone_age,
                max_skew=given.max_skew,
                max_ahead=given.max_ahead,
                origins_max=given.origins_max,
                identifier_max=WIDE_IDENTIFIER_MAX
                if self._settings.wide_identifiers
                else IDENTIFIER_MAX,
            )
        except ValueError as error:
            raise MapError(str(error)) from None


def _check_rule(rule: ConflictRule) -> None:
    if isinstance(rule, type):
        raise MapTypeError(f"rule must be an object: {rule.__name__}(), got the class")
    if not (isinstance(getattr(rule, "name", None), str) and callable(getattr(rule, "merge", 0))):
        raise MapTypeError(f"rule must have a name and a method merge, got {rule!r:.80}")


def _check_replication(given: Replication, wide: bool) -> None:
    for name in ("flush_interval", "tombstone_age"):
        check_seconds(name, getattr(given, name))
    for name in ("tombstone_min_age", "max_skew"):
        check_seconds(name, getattr(given, name), zero=True)
    check_kind("max_bandwidth", given.max_bandwidth, (int, float), "bytes a second")
    if not (given.max_bandwidth >= 0 and math.isfinite(given.max_bandwidth)):
        raise MapError(f"max_bandwidth must be 0 or more, got {given.max_bandwidth}")
    check_number("window", given.window, 1, WINDOW_MAX, "1 byte")
    check_kind("Replication.peers", given.peers, Set, "a set of identifiers")
    most = WIDE_IDENTIFIER_MAX if wide else IDENTIFIER_MAX
    for peer in given.peers:
        check_number("an identifier of Replication.peers", peer, 1, most, "1")
    if given.watch is not None and not callable(given.watch):
        raise MapTypeError(f"watch must be a function, got {given.watch!r:.80}")


def _chosen(given: Codec[Any] | None, name: str, folder: Path, what: str) -> Codec[Any]:
    if given is not None:
        return given
    if name not in CODECS:
        raise MapFileError(f"{folder} was made with {what} {name}: give the same {what}=")
    return CODECS[name]
