"""The requests of a protocol to a directory. A directory is outside the group and lists its members.

It is a folder, the DNS, Kubernetes or a database. A request goes to the driver in ``Consult``,
and its answer comes back in ``Consulted`` (ports.py). Answers are raw: the protocol judges them.

    OpenFolder, ReadFolder, WriteFile, RemoveFiles      files of one cluster
    QueryDns                                            records of names
    ListPods                                            Kubernetes' API server
    OpenTable, ReadTable, ChangeTable                   rows of a table
    ReadPrivate                                         a file with secrets, such as a key ring
    LoadCredentials                                     keys and certificates of TLS, files of this host

Secrets are left out of ``repr``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jgroups_py.config.private_file import Stamp
from jgroups_py.tls.credentials import Credentials
from jgroups_py.tls.settings import TlsSettings


@dataclass(frozen=True, slots=True)
class OpenFolder:
    """Make the folder of ``cluster`` below ``location``, if it is not there. The answer is None."""

    location: str
    cluster: str


@dataclass(frozen=True, slots=True)
class ReadFolder:
    """Read the files of ``cluster`` whose names end with ``suffix``. The answer is FolderContents."""

    location: str
    cluster: str
    suffix: str
    max_files: int
    max_size: int
    max_total: int


@dataclass(frozen=True, slots=True)
class FolderContents:
    """``files``: name and contents, sorted by name. ``refused``: files beyond ``max_files`` or ``max_total`` bytes of
    all files, larger than ``max_size``, or that are no regular files."""

    files: tuple[tuple[str, bytes], ...]
    refused: int = 0


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file, whole or not at all, in place of one of that name. The answer is None."""

    location: str
    cluster: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class RemoveFiles:
    """Remove the files that end with ``suffix`` and begin with one of ``prefixes``; ``but``: only files whose names
    begin with none of these. The answer is None."""

    location: str
    cluster: str
    suffix: str
    prefixes: tuple[str, ...]
    but: bool = False


@dataclass(frozen=True, slots=True)
class QueryDns:
    """Look up each name. ``server``: HOST or HOST:PORT; empty: the system's. The answer is a tuple of endpoints;
    the port is 0 but for SRV records. An unknown name has no endpoints."""

    names: tuple[str, ...]
    kind: Literal["A", "AAAA", "SRV"]
    server: str
    timeout: float
    max_records: int


@dataclass(frozen=True, slots=True)
class ListPods:
    """Ask Kubernetes' API server for pods. The answer is its JSON text, in bytes.

    An empty field is read from the environment of the process (KUBERNETES_SERVICE_HOST ...)."""

    protocol: str
    host: str
    port: int
    api_version: str
    namespace: str
    labels: str
    token_file: str
    ca_file: str
    certificate_file: str
    key_file: str
    key_password: str = field(repr=False)
    connect_timeout: float
    read_timeout: float
    max_answer: int


@dataclass(frozen=True, slots=True)
class Database:
    """The place of a table, and the user that asks. ``url`` as in JDBC: jdbc:postgresql://HOST:PORT/NAME,
    jdbc:sqlite:FILE."""

    url: str
    user: str
    password: str = field(repr=False)
    timeout: float

    @property
    def shown(self) -> str:
        """The URL without its parts that may be secret."""
        return shown_url(self.url)


def shown_url(url: str) -> str:
    """Return the URL without the parts before ``@`` and behind ``?``, where people write passwords."""
    before, slashes, rest = url.partition("?")[0].partition("//")
    return before + slashes + rest.rpartition("@")[2]


SqlValue = str | int | float | bool | bytes | None
SqlStatement = tuple[str, tuple[SqlValue, ...]]
"""A statement with ``?`` where the values go, and the values."""


@dataclass(frozen=True, slots=True)
class OpenTable:
    """Try to carry out ``statements`` (CREATE TABLE ...). A refused statement is skipped, because the table may exist;
    ``check``, a query, must then work. The answer is None."""

    database: Database
    statements: tuple[str, ...]
    check: SqlStatement


@dataclass(frozen=True, slots=True)
class ReadTable:
    """The answer is a tuple of at most ``max_rows`` rows, each a tuple of at most ``max_columns`` values."""

    database: Database
    statement: SqlStatement
    max_rows: int
    max_columns: int


@dataclass(frozen=True, slots=True)
class ChangeTable:
    """Carry out all statements, or none. The answer is None."""

    database: Database
    statements: tuple[SqlStatement, ...]


@dataclass(frozen=True, slots=True)
class ReadPrivate:
    """Read a file that holds secrets. The answer is PrivateFile, or None if the file still has the stamp ``but``."""

    path: str
    max_size: int
    but: Stamp | None = None


@dataclass(frozen=True, slots=True)
class LoadCredentials:
    """Read the files that ``settings`` names. The answer is CredentialsFound. ``known``: the fingerprint of the asker's
    present credentials."""

    settings: TlsSettings
    known: str = ""


@dataclass(frozen=True, slots=True)
class CredentialsFound:
    """``credentials`` is None if they are those that the asker has. ``left``: seconds until the certificate expires."""

    credentials: Credentials | None = field(repr=False)
    left: float


DirectoryRequest = (
    OpenFolder
    | ReadFolder
    | WriteFile
    | RemoveFiles
    | QueryDns
    | ListPods
    | OpenTable
    | ReadTable
    | ChangeTable
    | ReadPrivate
    | LoadCredentials
)
