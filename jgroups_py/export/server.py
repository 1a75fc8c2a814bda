"""open_export: opens an export port for as long as a block lasts. One task serves each client, one request after the
other."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final

import trio

from jgroups_py.cache import TreeCache
from jgroups_py.driver import files
from jgroups_py.driver.needs_trio import check_trio
from jgroups_py.driver.unwrap import reraise
from jgroups_py.errors import ConfigError, JGroupsError
from jgroups_py.export.auth import nonce, proof, proved
from jgroups_py.export.columns import CHANGES, STATE, Schema, pack
from jgroups_py.export.doorway import ExportDoorway
from jgroups_py.export.errors import (
    Behind,
    Busy,
    Diverged,
    ExportError,
    NotAllowed,
    UnknownMap,
    WrongToken,
)
from jgroups_py.export.limits import ExportLimits
from jgroups_py.export.lobby import Lobby
from jgroups_py.export.log import LogEntry, Missing
from jgroups_py.export.messages import (
    LENGTHS,
    VERSION,
    Abort,
    AskLogs,
    AskPart,
    Challenge,
    CloseSnapshot,
    Commit,
    Describe,
    Description,
    FindOffset,
    JobProgress,
    Logs,
    Message,
    Offset,
    OffsetFound,
    OpenSnapshot,
    PartOpened,
    PortProblem,
    ReadChanges,
    ReadSnapshot,
    Request,
    RequestDone,
    Rows,
    RowsStaged,
    SnapshotOpened,
    StageRows,
    Welcome,
    hello_from,
    lengths,
    request_from,
    written,
)
from jgroups_py.export.snapshots import KeptSnapshot, Snapshots
from jgroups_py.export.source import Source
from jgroups_py.export.staging import Staging
from jgroups_py.export.tokens import ExportToken
from jgroups_py.export.tree import TreeSource
from jgroups_py.stack import raised as callbacks
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.tls import TlsSettings

_log = logging.getLogger("jgroups_py.export")

DEFAULT_MAP = "cache"
"""The name of a single cache."""
TELL_EVERY = 1.0
"""Seconds between two progress messages of a commit."""
BEHIND_EVERY = 0.05
"""Seconds between two checks of a member that has to catch up."""
EXPIRE_EVERY = 30.0
"""Seconds between two looks for unused snapshots and jobs."""


EXPORT_CAUSES: Final[Mapping[str, str]] = {
    "wrong_token": "a client does not know the token",
    "no_tls": "a client did not agree on TLS: it speaks none, or has no certificate that is trusted",
    "withdrawn": "a client's token was taken out while it was connected",
    "not_allowed": "a client's token does not allow its request",
    "no_greeting": "a client sent no greeting of this version",
    "silent": "a client did not prove that it knows the token, and others wanted its place",
    "late": "a client did not prove in time that it knows the token",
    "too_many": "connections_max clients are connected",
    "no_descriptors": "this process has few descriptors left",
}


class ExportPort:
    """Made by ``open_export``."""

    def __init__(
        self, sources: Mapping[str, Source], doorway: ExportDoorway, limits: ExportLimits
    ) -> None:
        self.sources = dict(sources)
        self.limits = limits
        self._doorway = doorway
        self._snapshots = Snapshots(limits)
        self._staging = {name: Staging(source, limits) for name, source in sources.items()}
        self._connections = 0
        self._nursery: trio.Nursery
        self.address: tuple[str, int]
        """The address at which it listens."""
        self._log_limit = LogLimit(trio.current_time)
        self.counters = dict.fromkeys(
            ("clients", "refused", "failed", "rows_out", "rows_in", *EXPORT_CAUSES), 0
        )
        self._lobby = Lobby(limits, lambda host: self._turn_away("silent", host))

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Serve until cancelled."""
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._doorway.watch)
                self._nursery.start_soon(trio.serve_listeners, self._serve, listeners)
                while True:
                    await trio.sleep(EXPIRE_EVERY)
                    now = trio.current_time()
                    await self._snapshots.expire(now)
                    for staging in self._staging.values():
                        staging.expire(now)
        finally:
            for staging in self._staging.values():
                staging.close()
            with trio.CancelScope(shield=True):
                await self._snapshots.close_all()

    # --- one client

    async def _serve(self, stream: trio.SocketStream) -> None:
        client = PortClient(stream, self.limits.idle_timeout)
        self.counters["clients"] += 1
        host = _host_of(stream)
        known = False
        try:
            if files.is_scarce(stream.socket):
                self._turn_away("no_descriptors", host)
                return
            known = await self._lobby.visit(host, partial(self._let_in, client, host))
            if known:
                await self._serve_known(client, host)
        except Exception as error:
            self.counters["failed"] += 1  # the member must not suffer for it
            if (left_out := self._log_limit.admit(type(error).__name__)) is not None:
                _log.exception(
                    "the export port drops a client: %s%s", callbacks.said(error), left_out
                )
        finally:
            self._connections -= known
            await trio.aclose_forcefully(stream)

    async def _let_in(self, client: PortClient, host: str) -> bool:
        """Return whether a client proved that it knows the token and may stay."""
        try:
            with trio.fail_after(self.limits.hello_timeout):
                if not await client.encrypt(self._doorway):
                    self._turn_away("no_tls", host)
                    return False
                await self._welcome(client)
            return True
        except trio.TooSlowError:
            self._turn_away("late", host)
        except JGroupsError as error:
            self.counters["refused"] += 1
            self._turn_away(_cause_of(error), host)
            with trio.move_on_after(self.limits.hello_timeout):
                await client.complain(_problem(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client is gone
        return False

    async def _serve_known(self, client: PortClient, host: str) -> None:
        try:
            while (said := await client.next_request()) is not None:
                client.token = self._still(client.token, host)
                try:
                    await self._answer(client, *said)
                except NotAllowed as error:
                    self._turn_away("not_allowed", host)
                    await client.send(_problem(error))
                except JGroupsError as error:
                    await client.send(_problem(error))
        except JGroupsError as error:
            self.counters["refused"] += 1
            with trio.move_on_after(self.limits.hello_timeout):
                await client.complain(_problem(error))
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the client is gone, or reads nothing

    def _still(self, token: ExportToken, host: str) -> ExportToken:
        """Return the rights that a client's token gives now. Raise WrongToken if it was taken out."""
        found = self._doorway.current(token)
        if found is None:
            self._turn_away("withdrawn", host)
            raise WrongToken("the token was taken out of this export port: use a newer one")
        return found

    def _turn_away(self, cause: str, host: str) -> None:
        """Count and report a refused client, through the member's channel, or in the log if there is none."""
        self.counters[cause] += 1
        for source in self.sources.values():
            if source.turn_away("EXPORT", cause, host, EXPORT_CAUSES):
                return
        if (left_out := self._log_limit.admit(cause)) is not None:
            meaning = EXPORT_CAUSES[cause]
            _log.warning("EXPORT turned away: %s (%s), from %s%s", cause, meaning, host, left_out)

    async def _welcome(self, client: PortClient) -> None:
        ours = nonce()
        await client.send(Challenge(VERSION, ours))
        message = await client.receive(greeting=True)
        if message is None:
            raise trio.ClosedResourceError
        hello = hello_from(message[0])
        if hello.version != VERSION:
            raise ExportError(f"protocol {hello.version} of the client, {VERSION} of this port")
        bound = client.certificate
        shown = [
            token
            for token in self._doorway.tokens
            if proved(hello.proof, proof(token.secret, "client", ours, hello.nonce, bound))
        ]
        if not shown:
            raise WrongToken("the export port was given another token")
        client.token = shown[0]
        if self._connections >= self.limits.connections_max:
            raise Busy(f"{self.limits.connections_max} clients are connected (connections_max)")
        self._connections += 1
        try:
            member = next((s.member for s in self.sources.values()), "")
            answer = proof(client.token.secret, "port", ours, hello.nonce, bound)
            await client.send(Welcome(answer, member))
        except BaseException:
            self._connections -= 1
            raise

    async def _answer(self, client: PortClient, said: Request, body: bytes) -> None:
        now = trio.current_time()
        self._check_rights(client.token, said)
        match said:
            case Describe():
                await client.send(self._describe(said, client.token))
            case OpenSnapshot():
                source = self._readable(said.map, said.part)
                id, frozen = await self._snapshots.open(source, said.under, trio.current_time)
                await client.send(SnapshotOpened(id, len(frozen), frozen.offset, frozen.part))
            case AskPart():
                await client.send(_part(self._source(said.map), said.map))
            case ReadSnapshot():
                kept = self._snapshots.get(said.id, now)
                self._check_source(client.token, kept.source)
                await self._send_state(client, kept, max(0, said.start), said.stop)
            case CloseSnapshot():
                if said.id in self._snapshots:
                    self._check_source(client.token, self._snapshots.get(said.id, now).source)
                await self._snapshots.close(said.id)
                await client.send(RequestDone())
            case FindOffset():
                source = self._source(said.map)
                if said.after is not None:
                    await self._seen(source, said.after)
                await client.send(_find(source, said))
            case ReadChanges():
                await self._send_changes(client, self._source(said.map), said)
            case AskLogs():
                source = self._source(said.map)
                part = _part(source, said.map)
                await client.send(Logs(part, dict(source.logs() or {})))
            case StageRows():
                count = await self._staging_of(said.map).stage(said, body)
                self.counters["rows_in"] += said.rows
                if said.last:
                    await client.send(RowsStaged(count))
            case Commit():
                await self._commit(client, said)
            case Abort():
                self._staging_of(said.map).abort(said.job)
                await client.send(RequestDone())

    def _check_rights(self, token: ExportToken, said: Request) -> None:
        """Raise NotAllowed if the token does not allow a request. A cache that the token may not read counts as
        unknown."""
        name = getattr(said, "map", None)
        if isinstance(name, str) and not token.allows(name):
            readable = ", ".join(sorted(filter(token.allows, self.sources))) or "none"
            raise NotAllowed(f'the token does not allow map "{name}", but {readable}')
        if isinstance(said, StageRows | Commit | Abort) and not token.writes:
            raise NotAllowed("the token allows reading only (rights=read)")

    def _check_source(self, token: ExportToken, source: Source) -> None:
        if not any(one is source and token.allows(name) for name, one in self.sources.items()):
            raise NotAllowed("the token does not allow the map of this snapshot")

    def _source(self, name: str) -> Source:
        source = self.sources.get(name)
        if source is None:
            raise UnknownMap(f'no map "{name}" here; there is {", ".join(sorted(self.sources))}')
        return source

    def _readable(self, name: str, part: bool) -> Source:
        source = self._source(name)
        if part:
            _part(source, name)
        elif source.part() is not None:
            raise ExportError(
                f'map "{name}": each member has a part of it, to be read at all of them'
            )
        return source

    def _staging_of(self, name: str) -> Staging:
        self._source(name)
        return self._staging[name]

    def _describe(self, said: Describe, token: ExportToken) -> Description:
        name = said.map
        if name is None:
            readable = sorted(filter(token.allows, self.sources))
            if len(readable) != 1:
                raise UnknownMap(f"say which map: {', '.join(readable)}")
            (name,) = readable
        source = self._source(name)
        if said.kind is not None and said.kind != source.kind:
            raise UnknownMap(f'map "{name}" is of kind {source.kind}, not {said.kind}')
        return Description(
            name,
            source.kind,
            source.member,
            source.members,
            source.values,
            source.rows,
            *self._staging[name].under_way(),
            parts=source.part() is not None,
        )

    async def _send_state(
        self, client: PortClient, kept: KeptSnapshot, start: int, stop: int
    ) -> None:
        async with aclosing(kept.frozen.pages(start, stop, self.limits.frame_rows)) as pages:
            async for rows in pages:
                await self._send_rows(client, STATE, kept.source.state_columns(rows))
                kept.used = trio.current_time()
        await client.send(Rows(0, (), True))

    async def _send_changes(self, client: PortClient, source: Source, said: ReadChanges) -> None:
        await self._seen(source, said.stop)
        log = source.log_at(said.stop)
        start, stop = log.position(said.start), log.position(said.stop)
        for entries in _lots(log.between(start, stop), self.limits.frame_rows):
            columns = source.change_columns(entries)
            if columns[0]:
                await self._send_rows(client, CHANGES, columns)
        await client.send(Rows(0, (), True))

    async def _seen(self, source: Source, offset: Offset) -> None:
        """Return when this member has seen all changes up to the offset.

        Raises:
            Behind: it does not come in time.
            Diverged: it will not come.
            Trimmed: as ``ChangeLog.position``.
        """
        end = trio.current_time() + self.limits.behind_wait
        while True:
            try:
                source.log_at(offset).position(offset)
                return
            except Missing as missing:
                if trio.current_time() > end:
                    raise self._not_coming(source, missing) from None
            await trio.sleep(BEHIND_EVERY)

    def _not_coming(self, source: Source, missing: Missing) -> Diverged:
        if missing.origin in source.origins:
            waited = f"within {self.limits.behind_wait:g} s (behind_wait)"
            return Behind(f"{missing} {waited}: it is behind; try again, or another member")
        return Diverged(
            f"{missing}, which has left: it told that before others had it, so it is lost, or this member came "
            "later; take a snapshot and follow from its offset"
        )

    async def _send_rows(
        self, client: PortClient, schema: Schema, columns: Sequence[Sequence[Any]]
    ) -> None:
        """Send rows in frames that are not too large."""
        for start, stop in _cuts(columns[-1], self.limits.frame_bytes):
            part = [column[start:stop] for column in columns]
            sizes, body = pack(schema, part)
            self.counters["rows_out"] += stop - start
            await client.send(Rows(stop - start, sizes, False), body)

    async def _commit(self, client: PortClient, said: Commit) -> None:
        """Run a commit. It continues when the client is lost; a client that asks again gets its result."""
        staging = self._staging_of(said.map)
        job, mine = staging.begin(said, trio.current_time())
        if mine:
            self._nursery.start_soon(staging.commit, job, said)
        while job.result is None and job.problem is None:
            changed = job.changed
            await client.send(JobProgress(job.written, job.of))
            with trio.move_on_after(TELL_EVERY) as told:
                await changed.wait()
            if not told.cancelled_caught:
                await trio.sleep(0.01)  # this saves a message for each batch
        if job.problem is not None:
            await client.send(_problem(job.problem))
        else:
            assert job.result is not None
            await client.send(job.result)


class PortClient:
    """Messages on a connection. ``timeout`` is in seconds, for each message."""

    token: ExportToken
    """The token that it has proved to know, once it is let in."""

    def __init__(self, stream: trio.SocketStream, timeout: float) -> None:
        self._socket = stream
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream
        self._timeout = timeout
        self._buffer = bytearray()
        self.certificate = b""
        """The port's certificate that the client has seen, in DER. Empty without TLS."""

    async def encrypt(self, doorway: ExportDoorway) -> bool:
        """Agree on TLS, if the port has it. Return False if the client does not."""
        session = doorway.session()
        if session is None:
            return True
        context, self.certificate = session
        self._stream = encrypted = trio.SSLStream(self._socket, context, server_side=True)
        try:
            await encrypted.do_handshake()
        except trio.BrokenResourceError:
            return False
        return True

    async def send(self, message: Message, body: bytes = b"") -> None:
        with trio.fail_after(self._timeout):
            await self._stream.send_all(written(message, body))

    async def complain(self, problem: PortProblem) -> None:
        """Send the last message. First read the client's last bytes; otherwise the client would never see this
        message."""
        try:
            await self.send(problem)
            if self._stream is self._socket:
                await self._socket.send_eof()
            while await self._stream.receive_some():
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass

    async def next_request(self) -> tuple[Request, bytes] | None:
        message = await self.receive()
        return None if message is None else (request_from(message[0]), message[1])

    async def receive(self, greeting: bool = False) -> tuple[bytes, bytes] | None:
        """Return header and body, or None when the client has ended."""
        with trio.fail_after(self._timeout):
            if not await self._fill(LENGTHS.size):
                return None
            header, body = lengths(bytes(self._buffer[: LENGTHS.size]), greeting)
            total = LENGTHS.size + header + body
            if not await self._fill(total):
                return None
            cut = LENGTHS.size + header
            with memoryview(self._buffer) as view:
                found = bytes(view[LENGTHS.size : cut]), bytes(view[cut:total])
            del self._buffer[:total]
            return found

    async def _fill(self, size: int) -> bool:
        while len(self._buffer) < size:
            data = await self._stream.receive_some(max(65536, size - len(self._buffer)))
            if not data:
                return False
            self._buffer += data
        return True


def _cause_of(error: JGroupsError) -> str:
    match error:
        case WrongToken():
            return "wrong_token"
        case Busy():
            return "too_many"
        case _:
            return "no_greeting"


def _host_of(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:
        return ""  # the client is gone already


def _problem(error: BaseException) -> PortProblem:
    code = error.code if isinstance(error, ExportError) else ExportError.code
    return PortProblem(code, str(error) or type(error).__name__)


def _part(source: Source, name: str) -> PartOpened:
    part = source.part()
    if part is None:
        raise ExportError(f'map "{name}" has no parts: each member has all of it')
    return part


def _find(source: Source, said: FindOffset) -> OffsetFound:
    log = source.log_at(said.after)
    if said.after is None:
        offset, count = (log.first_offset() if said.earliest else log.end_offset()), 0
    else:
        offset, count = log.after(said.after, said.max_changes)
    return OffsetFound(offset, count, len(offset.origins), log.first)


def _lots(entries: Iterator[LogEntry], rows: int) -> Iterator[list[LogEntry]]:
    lot: list[LogEntry] = []
    count = 0
    for entry in entries:
        lot.append(entry)
        count += len(entry.paths)
        if count >= rows:
            yield lot
            lot, count = [], 0
    if lot:
        yield lot


def _cuts(data: Sequence[bytes], limit: int) -> Iterator[tuple[int, int]]:
    start, size = 0, 0
    for index, value in enumerate(data):
        if size and size + len(value) > limit:
            yield start, index
            start, size = index, 0
        size += len(value)
    if start < len(data):
        yield start, len(data)


@asynccontextmanager
async def open_export(
    cache: TreeCache | Mapping[str, TreeCache | Source],
    *,
    token: str | Sequence[ExportToken] | None = None,
    token_file: str | None = None,
    tls: TlsSettings | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    limits: ExportLimits | None = None,
    allow_remote: bool = False,
) -> AsyncIterator[ExportPort]:
    """Open an export port for as long as the block lasts.

    Args:
        cache: one cache (its name is "cache"), or several caches by name.
        token: a secret of at least 16 characters: every client that knows it may read and write everything. Or several
        tokens, each with fewer rights. token_file: a file with tokens in place of ``token`` (``tokens.py`` has its
        form), readable for its owner only. It is
            read again while the port is open.
        tls: certificates, with which connections are encrypted and clients prove who they are. The files are read again, too.
        host, port: the address to listen at. Port 0 means a free port; see ``ExportPort.address``.
        allow_remote: allow another host than loopback although there is no ``tls``.

    Raises:
        ConfigError: nothing was opened.
        LocalProtocolError: there is no trio loop here; nothing was opened.
    """
    check_trio("open_export", aio=False)
    doorway = ExportDoorway(token, token_file, tls)
    if not _is_loopback(host) and not allow_remote and not doorway.encrypts:
        raise ConfigError(
            f"an export port on {host} sends unencrypted rows to other hosts: give it tls, or allow_remote=True "
            "says that this is meant"
        )
    limits = limits or ExportLimits()
    given = cache if isinstance(cache, Mapping) else {DEFAULT_MAP: cache}
    sources: dict[str, Source] = {}
    try:
        for name, one in given.items():
            sources[name] = TreeSource(one, limits) if isinstance(one, TreeCache) else one
        try:
            listeners = await trio.open_tcp_listeners(port, host=host)
        except OSError as error:
            raise ConfigError(f"an export port cannot listen on {host}:{port}: {error}") from None
        served = ExportPort(sources, doorway, limits)
        served.address = listeners[0].socket.getsockname()[:2]
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(served.run, listeners)
                yield served
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            reraise(group)
    finally:
        for source in sources.values():
            source.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
