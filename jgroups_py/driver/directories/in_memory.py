"""Directories in memory: for tests, MemoryNetwork and the simulator.

directories = MemoryDirectories()
directories.files("/tmp/jgroups", "demo")["x.list"] = b"..."    a file of a folder
directories.names["db"] = [("10.0.0.1", 0)]                     names of the DNS
directories.pods = b'{"items": []}'                             the answer of Kubernetes
directories.private["ring.keys"] = b"..."                       a file with secrets
directories.fails["folder"] = "Input/output error"              a kind of directory is out of order
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from jgroups_py.config.private_file import PrivateFile
from jgroups_py.driver.directories.asking import KINDS, DirectoryProblem
from jgroups_py.driver.directories.credentials import answer
from jgroups_py.stack.directories import (
    ChangeTable,
    DirectoryRequest,
    FolderContents,
    ListPods,
    LoadCredentials,
    OpenFolder,
    OpenTable,
    QueryDns,
    ReadFolder,
    ReadPrivate,
    ReadTable,
    RemoveFiles,
    WriteFile,
)
from jgroups_py.stack.ports import Endpoint

if TYPE_CHECKING:
    import sqlite3


class MemoryDirectories:
    """See the module's docstring. It answers at once. Equal requests get equal answers."""

    def __init__(self) -> None:
        self.folders: dict[tuple[str, str], dict[str, bytes]] = {}
        self.names: dict[str, list[Endpoint]] = {}
        self.pods: bytes | None = None
        """None: there is no API server."""
        self.fails: dict[str, str] = {}
        """The reason why a directory does not answer, by kind (folder, names, kubernetes, database, private,
        credentials)."""
        self.private: dict[str, bytes] = {}
        """Contents of files that hold secrets, by path."""
        self.asked: dict[str, int] = {}
        """Number of requests, by kind of directory."""
        self._tables: sqlite3.Connection | None = None

    def files(self, location: str, cluster: str) -> dict[str, bytes]:
        """Return the contents of a folder's files, by name."""
        return self.folders.setdefault((location, cluster), {})

    @property
    def tables(self) -> sqlite3.Connection:
        """The one database, for every URL."""
        if self._tables is None:
            import sqlite3  # a megabyte, which only tests of JDBC_PING2 need

            self._tables = sqlite3.connect(":memory:", check_same_thread=False)
        return self._tables

    def __call__(self, request: DirectoryRequest) -> Any:
        kind = KINDS[type(request)]
        self.asked[kind] = self.asked.get(kind, 0) + 1
        if kind in self.fails:
            raise DirectoryProblem(self.fails[kind])
        match request:
            case OpenFolder(location, cluster):
                self.files(location, cluster)
            case ReadFolder(location, cluster):
                return self._read(request, self.files(location, cluster))
            case WriteFile(location, cluster, name, data):
                self.files(location, cluster)[name] = data
            case RemoveFiles(location, cluster, suffix, prefixes, but):
                files = self.files(location, cluster)
                for name in list(files):
                    if name.endswith(suffix) and name.startswith(prefixes) != but:
                        del files[name]
            case QueryDns(names):
                found = [place for name in names for place in self.names.get(name, ())]
                return tuple(found[: request.max_records])
            case ReadPrivate(path, _, but):
                if path not in self.private:
                    raise DirectoryProblem(f"{path}: cannot be read: No such file or directory")
                data = self.private[path]
                stamp = (0, 0, len(data), zlib.crc32(data))
                return None if stamp == but else PrivateFile(data, stamp)
            case ListPods():
                if self.pods is None:
                    raise DirectoryProblem("there is no API server")
                return self.pods
            case OpenTable() | ReadTable() | ChangeTable():
                return self._ask_tables(request)
            case LoadCredentials():
                return answer(request)  # keys are files, also in a simulation
        return None

    def _read(self, request: ReadFolder, files: dict[str, bytes]) -> FolderContents:
        names = sorted(name for name in files if name.endswith(request.suffix))
        kept, left = [], request.max_total
        for name in names[: request.max_files]:
            if len(files[name]) <= min(request.max_size, left):
                left -= len(files[name])
                kept.append((name, files[name]))
        return FolderContents(tuple(kept), len(names) - len(kept))

    def _ask_tables(self, request: OpenTable | ReadTable | ChangeTable) -> Any:
        from jgroups_py.driver.directories.database import carry_out

        return carry_out(request, self.tables)
