"""``jgroups-py maps``: reads and writes multi-master maps, and serves those of a cluster file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec
import trio

from jgroups_py.errors import ConfigError
from jgroups_py.tools.options import JsonCommand, examples, json_option
from jgroups_py.tools.outputs import show as show_result


def _tls_options(command: Any) -> Any:
    """Add the options for this side's credentials, which hosts on other machines need."""
    for option in (
        click.option(
            "--insecure",
            is_flag=True,
            help="Allow hosts beyond this machine, in clear: everybody in that network may read and change the maps.",
        ),
        click.option("--ca", default="", metavar="FILE", help="PEM file: the trusted authorities."),
        click.option(
            "--key",
            "key_file",
            default="",
            metavar="FILE",
            help="PEM file: the key of the certificate, if it is not in its file.",
        ),
        click.option(
            "--certificate",
            default="",
            metavar="FILE",
            help="PEM file: this side's certificate; needs --ca.",
        ),
    ):
        command = option(command)
    return command


def _tls(certificate: str, key: str, ca: str) -> Any:
    from jgroups_py.tls import TlsSettings

    if not (certificate or key or ca):
        return None
    tls = TlsSettings(certificate=certificate, key=key, ca=ca)
    problem = tls.problem()
    if problem is not None:
        raise ConfigError(f"--{problem[0]} {problem[1]}")
    return tls


@click.group(
    epilog=examples(
        "jgroups-py maps ls data/fx",
        "jgroups-py maps put data/fx EUR/USD 1.16",
        "jgroups-py maps serve cluster.yaml 1",
    )
)
def maps() -> None:
    """Read, write and serve multi-master maps.

    FOLDER is the folder of a map, which other processes may have open. Keys and values are written as the map's codecs have them: texts and
    numbers as they are, bytes as text or as 0x and hexadecimal digits, everything else as JSON.
    """


@maps.command(epilog=examples("jgroups-py maps get data/fx EUR/USD"))
@click.argument("folder")
@click.argument("key")
def get(folder: str, key: str) -> int:
    """Print the value of KEY. The exit code is 1 if there is none."""
    with _opened(folder) as found:
        data = found.file.get(found.key(key))
        if data is None:
            return 1
        click.echo(_line(found.shown(data)))
        return 0


@maps.command(epilog=examples("jgroups-py maps put data/fx EUR/USD 1.16"))
@click.argument("folder")
@click.argument("key")
@click.argument("value")
def put(folder: str, key: str, value: str) -> None:
    """Write VALUE for KEY. It replicates like any other change, if a process of this host replicates."""
    with _opened(folder) as found:
        found.put(found.key(key), value)


@maps.command(epilog=examples("jgroups-py maps rm data/fx EUR/USD"))
@click.argument("folder")
@click.argument("key")
def rm(folder: str, key: str) -> int:
    """Remove KEY. The exit code is 1 if it is not there."""
    with _opened(folder) as found:
        raw = found.key(key)
        if found.file.get(raw) is None:
            return 1
        found.file.write(raw, None)
        return 0


@maps.command(
    cls=JsonCommand,
    epilog=examples("jgroups-py maps ls data/fx", "jgroups-py maps ls data/fx --json --limit 10"),
)
@click.argument("folder")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only the first N keys.")
@json_option
def ls(folder: str, limit: int | None, json_out: str | None) -> None:
    """Show keys and values, in the order of keys."""
    with _opened(folder) as found:
        rows: list[tuple[Any, Any]] = []
        for raw, entry in found.file.items():
            if limit is not None and len(rows) >= limit:
                break
            assert entry.value is not None
            rows.append((found.shown_key(raw), found.shown(entry.value)))
    show_result(
        json_out,
        lambda: _json([{"key": key, "value": value} for key, value in rows]),
        lambda: "\n".join(f"{_line(key)}  {_line(value)}" for key, value in rows),
    )


@maps.command(
    cls=JsonCommand,
    epilog=examples("jgroups-py maps stats data/fx", "jgroups-py maps stats data/fx --json"),
)
@click.argument("folder")
@json_option
def stats(folder: str, json_out: str | None) -> None:
    """Show a map's format, its fill, and its replication.

    newest_ahead_s: seconds by which the newest change is ahead of this host's clock; above 0 some host's clock is or
    was ahead. peers, lag (changes of this host that each has not acknowledged) and counters are those of the process of
    this host that replicates, as of a second ago.
    """
    with _opened(folder) as found:
        file = found.file
        result = {
            "name": file.name,
            "identifier": file.identifier,
            "key": file.key_codec,
            "value": file.value_codec,
            "rule": file.rule.name,
            "entries": file.count(),
            "tombstones": file.tombstone_count(),
            "file_bytes": file.file_bytes(),
            "max_bytes": file.max_bytes(),
            "max_entries": file.limits.max_entries,
            "max_live_bytes": file.limits.max_live_bytes,
            "live_bytes": file.store.live_bytes(),
            "evict": file.limits.evict,
            "evicted": file.evicted(),
            "waiting_bytes": file.waiting_of_all(),
            "inbox_bytes": file.inbox_bytes,
            "newest_ahead_s": found.ahead(),
            "replicates": file.is_replicated(),
            "changes": changes_of_hosts(file.vector()),
            **found.replication(),
        }
    show_result(
        json_out,
        lambda: json.dumps(result, indent=2),
        lambda: "\n".join(f"{name:14} {value}" for name, value in result.items()),
    )


@maps.command(
    cls=JsonCommand,
    epilog=examples(
        "jgroups-py maps diff data/1/fx data/2/fx",
        "jgroups-py maps diff data/1/fx 127.0.0.1:8077/fx",
    ),
)
@click.argument("here")
@click.argument("there")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Show only the first N keys.")
@_tls_options
@json_option
def diff(
    here: str,
    there: str,
    limit: int | None,
    certificate: str,
    key_file: str,
    ca: str,
    insecure: bool,
    json_out: str | None,
) -> int:
    """Show which keys of two maps differ, and why.

    HERE and THERE are folders of this machine, or HOST:PORT/NAME for the map NAME of the host that listens there. Keys
    are compared in buckets by digests; values are not read. Both maps may be in use. Changes under way appear as
    differences for a moment.

    Exit 0: they are equal; 1: they differ.
    """
    from jgroups_py.tools.commands.maps_sides import Local, differences, remote_named

    tls = _tls(certificate, key_file, ca)
    with ExitStack() as stack:

        def side(text: str) -> Any:
            remote = remote_named(text, tls, insecure)
            return remote or Local(stack.enter_context(_opened(text)).file)

        one, other = side(here), side(there)
        found = trio.run(differences, one, other, limit)
        shown = [(_shown(one.key_codec, it.key), it.why) for it in found]
    show_result(
        json_out,
        lambda: _json([{"key": key, "why": why} for key, why in shown]),
        lambda: "\n".join(f"{_line(key)}  {why}" for key, why in shown) or "no key differs",
    )
    return 1 if shown else 0


@maps.command(epilog=examples("jgroups-py maps audit logs/1"))
@click.argument("folder")
@click.option("--peer", type=click.IntRange(1, 65_535), help="Only messages to or from this host.")
def audit(folder: str, peer: int | None) -> None:
    """Print the messages to and from peers.

    FOLDER has audit files: each change that was sent to a peer or came from one, and its age at that time.

    A program writes them with ``Replication(watch=AuditLog(FOLDER).watch)``, a cluster file with enableReplicationLogging.
    """
    from jgroups_py.maps.audit import read_audit

    for record in read_audit(folder):
        if peer is None or record.node == peer:
            click.echo(record.line())


@maps.command(
    epilog=examples(
        "jgroups-py maps serve cluster.yaml 1",
        "jgroups-py maps serve cluster.yaml 2 --address hostport1=127.0.0.1:8076 --address hostport2=127.0.0.1:8077",
    )
)
@click.argument("file")
@click.argument("host_id", type=click.IntRange(1, 65_535))
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="NAME=HOST:PORT",
    help="The address of a connectUri that is a name. May be given several times.",
)
@click.option("--folder", default=".", help="The folder to which mapFileDataDirectory is relative.")
@_tls_options
def serve(
    file: str,
    host_id: int,
    addresses: Sequence[str],
    folder: str,
    certificate: str,
    key_file: str,
    ca: str,
    insecure: bool,
) -> None:
    """Replicate the maps of the cluster file FILE as host HOST_ID.

    It runs until it is interrupted. Other processes of this host open the maps' folders, and need no network. A second
    ``serve`` waits, and takes over when the first one ends.
    """
    given: dict[str, str] = {}
    for address in addresses:
        name, equals, place = address.partition("=")
        if not equals or not name or not place:
            raise ConfigError(f'--address must be NAME=HOST:PORT, got "{address}"')
        given[name] = place
    tls = _tls(certificate, key_file, ca)
    trio.run(_serve, file, host_id, given, folder, tls, insecure)


async def _serve(
    file: str, host_id: int, addresses: dict[str, str], folder: str, tls: Any, insecure: bool
) -> None:
    from jgroups_py.maps import open_cluster

    async with open_cluster(
        file, host_id, addresses=addresses, folder=folder, tls=tls, insecure=insecure
    ) as hosts:
        names = ", ".join(hosts)
        click.echo(f"host {host_id} ({hosts.host.name}) has {names}")
        await trio.sleep_forever()


class _Found:
    """The map's description in its file."""

    def __init__(self, file: Any) -> None:
        from jgroups_py.maps.described import DescribedMap

        self.file = file
        self._described = DescribedMap(file)

    def ahead(self) -> float:
        from jgroups_py.maps.stamp import TICKS_PER_S

        ahead = self.file.newest_time() - self.file.clock.wall_time()
        return round(max(0.0, float(ahead) / TICKS_PER_S), 3)

    def replication(self) -> dict[str, Any]:
        from jgroups_py.maps.replication_status import read_status

        status = read_status(self.file.folder) if self.file.is_replicated() else None
        if status is None:
            return {}
        told = msgspec.to_builtins(status, str_keys=True)
        return {name: told[name] for name in ("peers", "lag", "held_bytes", "counters")}

    def key(self, text: str) -> bytes:
        return self._bytes(self.file.key_codec, text, "key")

    def put(self, key: bytes, text: str) -> None:
        from jgroups_py.maps.stamp import MapStamp

        file, fields = self.file, self._described.fields
        if self._described.counter is not None:
            raise ConfigError("values of this map are counters: they change by increment only")
        if fields is None:
            file.write(key, self._bytes(file.value_codec, text, "value"))
            return
        data = self._bytes("json", text, "value")

        def write() -> None:
            stamp = MapStamp(file.clock.next(), file.identifier)
            file.write_now(key, fields.changed(file.get(key), data, stamp))

        file.alone(write)

    def shown_key(self, data: bytes) -> Any:
        return _shown(self.file.key_codec, data)

    def shown(self, data: bytes) -> Any:
        described = self._described
        if described.counter is not None or described.fields is not None:
            return described.value(data)
        return _shown(self.file.value_codec, data)

    def _bytes(self, codec: str, text: str, what: str) -> bytes:
        from jgroups_py.maps.codecs import CODECS, encoded

        if codec == "bytes":
            if not text.startswith("0x"):
                return text.encode()
            try:
                return bytes.fromhex(text[2:])
            except ValueError:
                raise ConfigError(f"{what} {text}: not hexadecimal digits after 0x") from None
        if codec == "str":
            return text.encode()
        if codec == "own":
            raise ConfigError(f"{what}s of this map have a codec of their program's own")
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{what} {text}: not JSON, which {what}s of this map are ({error}); a text is written '\"text\"'"
            ) from None
        if codec.startswith("struct "):
            return msgspec.msgpack.encode(value)
        return encoded(CODECS[codec], value, what)


def _shown(codec: str, data: bytes) -> Any:
    from jgroups_py.maps.codecs import CODECS, decoded

    if codec == "bytes":
        return (
            data.decode() if data.isascii() and data.decode().isprintable() else "0x" + data.hex()
        )
    if codec == "own":
        return "0x" + data.hex()
    if codec.startswith("struct "):
        return msgspec.msgpack.decode(data)
    return decoded(CODECS[codec], data, "value")


@contextmanager
def _opened(folder: str) -> Iterator[_Found]:
    from jgroups_py.maps.file_settings import FileSettings
    from jgroups_py.maps.shared import SharedFile

    if not (Path(folder) / "data.mdb").exists():
        raise ConfigError("there is no map in this folder", file=folder)
    file = SharedFile(Path(folder), FileSettings())
    try:
        yield _Found(file)
    finally:
        file.close()


def _line(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _json(rows: object) -> str:
    """Return JSON with the values as ``_line`` shows them: structs may have bytes, times and NaN."""
    return json.dumps(json.loads(msgspec.json.encode(rows)), indent=2)


def changes_of_hosts(vector: Mapping[int, int]) -> dict[str, int]:
    """Return identifier -> number of the host's changes that a map has, summed over all lives of the host."""
    found: Counter[str] = Counter()
    for origin, number in vector.items():
        found[str(origin >> 48)] += number
    return dict(found)
