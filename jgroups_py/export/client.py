"""ExportClient: a blocking client of export ports, on a plain socket. Spark's workers use it, one in each thread."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from jgroups_py.errors import ConfigError
from jgroups_py.export.auth import checked_token, nonce, proof, proved
from jgroups_py.export.errors import (
    BY_CODE,
    Behind,
    Diverged,
    ExportError,
    NoMember,
    NotTrusted,
    Trimmed,
    WrongToken,
)
from jgroups_py.export.messages import (
    LENGTHS,
    VERSION,
    Abort,
    Answer,
    AskLogs,
    AskPart,
    Challenge,
    ClientHello,
    CloseSnapshot,
    Commit,
    Committed,
    Describe,
    Description,
    FindOffset,
    JobProgress,
    Logs,
    Marker,
    Message,
    Offset,
    OffsetFound,
    OpenSnapshot,
    PartOpened,
    PortProblem,
    ReadChanges,
    ReadSnapshot,
    RequestDone,
    Rows,
    RowsStaged,
    SnapshotOpened,
    StageRows,
    Welcome,
    answer_from,
    lengths,
    written,
)
from jgroups_py.export.tokens import only_token
from jgroups_py.tls import CredentialsError, TlsSettings, load

A = TypeVar("A")
Address = tuple[str, int]
Frame = tuple[int, tuple[int, ...], memoryview]
"""A frame: the number of rows, the sizes of the buffers, the buffers."""

CONNECT_TIMEOUT = 5.0
"""Seconds in which one member must be reached."""
CALL_TIMEOUT = 120.0
"""Seconds for which a port may be silent while it is asked."""


def parse_members(text: str) -> list[Address]:
    """Return the addresses in ``host:port,host:port``. Raise ConfigError for another form."""
    members = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f'members are written "host:port,host:port", got "{part}"')
        members.append((host.strip("[]"), int(port)))
    if not members:
        raise ConfigError('no members given: "host:port,host:port"')
    return members


@dataclass(frozen=True, slots=True)
class ExportAccess:
    """The credentials of a client for a port with TLS, instead of a token alone: the token, and the client's
    certificate. It may be pickled."""

    token: str = field(repr=False)
    tls: TlsSettings | None = None


Access = str | ExportAccess


def read_token(file: str) -> str:
    """Return the token in a client's file. Raise ConfigError when it cannot be read or has several."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the token's file {file} cannot be read: {error}") from None
    return only_token(text, file)


def connect(members: Sequence[Address], token: Access, *, first: int = 0) -> ExportClient:
    """Return a client of the first member that can be reached, beginning with number ``first``.

    Raises:
        NoMember: no member can be reached; the text has the reason for each.
        WrongToken: a member was reached and refused the token.
    """
    problems = []
    for number in range(len(members)):
        address = members[(first + number) % len(members)]
        try:
            return ExportClient(address, token)
        except NoMember as error:
            problems.append(str(error))
    raise NoMember(f"no member can be reached: {'; '.join(problems)}")


def connect_at(
    members: Sequence[Address],
    token: Access,
    places: Sequence[Offset],
    *,
    map: str | None = None,
    kind: str | None = None,
    first: int = 0,
) -> ExportClient:
    """Return a client of the first member whose change log has all these places. Another member may have begun its log later,
    be behind, or have been on the other side of a partition.

    Raises:
        Behind, Diverged, Trimmed: no member has them all. The error is the most hopeful of the members' errors; its
            text has the answer of each member.
        NoMember: no member can be reached.
        WrongToken, UnknownMap: one member raised it.
    """
    problems: list[ExportError] = []
    for number in range(len(members)):
        address = members[(first + number) % len(members)]
        try:
            client = ExportClient(address, token)
            try:
                name = client.describe(map, kind).map
                for place in places:
                    client.find_offset(name, place, max_changes=1)
            except BaseException:
                client.close()
                raise
            return client
        except (NoMember, Trimmed, Diverged) as error:
            problems.append(error)
    said = "; ".join([str(problem) for problem in problems])
    for hope in (Behind, Diverged, Trimmed):
        if any(type(problem) is hope for problem in problems):
            raise hope(said)
    raise NoMember(f"no member can be reached: {said}")


class ExportClient:
    """A client, connected when it is made. Use it with ``with``, or call ``close``. Every call may raise ExportError."""

    def __init__(self, address: Address, token: Access) -> None:
        access = token if isinstance(token, ExportAccess) else ExportAccess(token)
        secret = checked_token(access.token)
        self.address = address
        self._said = f"{address[0]}:{address[1]}"
        try:
            self._socket = socket.create_connection(address, CONNECT_TIMEOUT)
        except OSError as error:
            raise NoMember(f"{self._said}: {error.strerror or error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            certificate = b"" if access.tls is None else self._encrypt(access.tls)
            self._welcome(secret, certificate)
            self._socket.settimeout(CALL_TIMEOUT)
        except BaseException:
            self._socket.close()
            raise

    def _encrypt(self, settings: TlsSettings) -> bytes:
        """Speak TLS from now on, and return the certificate of the port."""
        try:
            context = load(settings).client
        except CredentialsError as error:
            raise ConfigError(f"TLS to an export port: {error}") from None
        try:
            encrypted = context.wrap_socket(self._socket)
        except ssl.SSLCertVerificationError as error:
            raise NotTrusted(f"{self._said}: {error.verify_message}") from None
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error.strerror or error
            raise NotTrusted(
                f"{self._said} does not speak TLS with this client: {reason}"
            ) from None
        self._socket = encrypted
        return encrypted.getpeercert(binary_form=True) or b""

    def _welcome(self, secret: bytes, certificate: bytes) -> None:
        challenge = self._next(Challenge)
        if challenge.version != VERSION:
            raise ExportError(f"{self._said} speaks protocol {challenge.version}, not {VERSION}")
        ours = nonce()
        self._send(
            ClientHello(VERSION, ours, proof(secret, "client", challenge.nonce, ours, certificate))
        )
        welcome = self._next(Welcome)
        if not proved(welcome.proof, proof(secret, "port", challenge.nonce, ours, certificate)):
            raise WrongToken(f"{self._said} does not know the token")
        self.member = welcome.member
        """The logical name of the member."""

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- reading

    def describe(self, map: str | None = None, kind: str | None = None) -> Description:
        """Return the description of a map. Raise UnknownMap if there is none of that name and kind."""
        return self._ask(Describe(map, kind), Description)

    def open_snapshot(
        self, map: str, under: Sequence[str] = ("/",), *, part: bool = False
    ) -> SnapshotOpened:
        """Open a snapshot of one moment. The member keeps it until it is closed or not read for too long. With ``part`` it has
        this member's part only (``parts.open_parts``)."""
        return self._ask(OpenSnapshot(map, tuple(under), part), SnapshotOpened)

    def part(self, map: str) -> PartOpened:
        """Return the state of the member's part."""
        return self._ask(AskPart(map), PartOpened)

    def logs(self, map: str) -> Logs:
        """Return the logs of owners that this member of a cache with buddies has."""
        return self._ask(AskLogs(map), Logs)

    def read_snapshot(self, id: str, start: int, stop: int) -> Iterator[Frame]:
        """Yield frames of ``columns.STATE``."""
        return self._frames(ReadSnapshot(id, start, stop))

    def close_snapshot(self, id: str) -> None:
        self._ask(CloseSnapshot(id), RequestDone)

    def find_offset(
        self,
        map: str,
        after: Offset | None = None,
        *,
        max_changes: int | None = None,
        earliest: bool = False,
    ) -> OffsetFound:
        """Find a place; see ``FindOffset``. Raise Trimmed or Diverged if ``after`` is not in this member's log."""
        return self._ask(FindOffset(map, after, max_changes, earliest), OffsetFound)

    def read_changes(self, map: str, start: Offset, stop: Offset) -> Iterator[Frame]:
        """Yield frames of ``columns.CHANGES``."""
        return self._frames(ReadChanges(map, start, stop))

    def _frames(self, request: ReadSnapshot | ReadChanges) -> Iterator[Frame]:
        self._send(request)
        while True:
            rows, body = self._receive(Rows)
            if rows.last:
                return
            yield rows.rows, rows.sizes, body

    # --- writing

    def stage(self, frame: StageRows, body: bytes) -> int:
        """Send rows (``columns.WRITES``). With the last ones it returns the number of rows that the attempt has
        staged."""
        self._send(frame, body)
        return self._next(RowsStaged).rows if frame.last else 0

    def commit(
        self,
        map: str,
        job: str,
        parts: Sequence[tuple[int, int]],
        *,
        replace: bool = False,
        marker: Marker | None = None,
        skip_equal: bool = False,
    ) -> Iterator[JobProgress | Committed]:
        """Commit, and yield its progress. The last item is Committed. See ``Commit``."""
        self._send(Commit(map, job, tuple(parts), replace, marker, skip_equal))
        while True:
            answer, _ = self._receive_any()
            if isinstance(answer, JobProgress):
                yield answer
            elif isinstance(answer, Committed):
                yield answer
                return
            else:
                raise ExportError(f"{self._said} answered {type(answer).__name__} to a commit")

    def abort(self, map: str, job: str) -> None:
        self._ask(Abort(map, job), RequestDone)

    # --- inside

    def _ask(self, request: Message, kind: type[A]) -> A:
        self._send(request)
        return self._next(kind)

    def _next(self, kind: type[A]) -> A:
        return self._receive(kind)[0]

    def _receive(self, kind: type[A]) -> tuple[A, memoryview]:
        answer, body = self._receive_any()
        if not isinstance(answer, kind):
            raise ExportError(f"{self._said} answered {type(answer).__name__}, not {kind.__name__}")
        return answer, body

    def _receive_any(self) -> tuple[Answer, memoryview]:
        header, body = lengths(bytes(self._read(LENGTHS.size)))
        answer = answer_from(bytes(self._read(header)))
        columns = self._read(body)
        if isinstance(answer, PortProblem):
            raise BY_CODE.get(answer.code, ExportError)(f"{self._said}: {answer.message}")
        return answer, columns

    def _send(self, message: Message, body: bytes = b"") -> None:
        try:
            self._socket.sendall(written(message, body))
        except OSError as error:
            raise self._gone(error) from None

    def _read(self, size: int) -> memoryview:
        # Each message has a buffer of its own, so that values made of it need no copy.
        view = memoryview(bytearray(size))
        at = 0
        while at < size:
            try:
                got = self._socket.recv_into(view[at:])
            except OSError as error:
                raise self._gone(error) from None
            if not got:
                raise NoMember(f"{self._said}: the member has closed the connection")
            at += got
        return view

    def _gone(self, error: OSError) -> ExportError:
        if isinstance(error, TimeoutError):
            return NoMember(f"{self._said}: no answer within {self._socket.gettimeout():g} s")
        return NoMember(f"{self._said}: {error.strerror or error}")
