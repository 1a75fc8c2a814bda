"""FILE_PING: discovery through a folder that all hosts share (NFS, a volume of containers).

Place: above the transport; with UDP as well as TCP.

Each coordinator has a file ``location/CLUSTER/UUID.NAME.list`` with a line for each member of its view (entries.py). A joiner reads all files and
asks the members that they name (listed.py, stored.py).

Source:  JGroups FILE_PING.java, CloudBasedDiscovery.txt.
Differs: a file is written whole or not at all, so no member reads half of one; Java reads again instead
    (num_read_loops).
Limits:  max_files files of at most max_file_size bytes are read; max_hosts addresses are asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jgroups_py.config.settings import Bytes
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.entries import (
    StoredMember,
    file_name,
    file_prefix,
    lines_of,
    parse_lines,
)
from jgroups_py.protocols.discovery.stored import Stored
from jgroups_py.stack.directories import (
    DirectoryRequest,
    FolderContents,
    OpenFolder,
    ReadFolder,
    RemoveFiles,
    WriteFile,
)
from jgroups_py.stack.ports import Consulted
from jgroups_py.values.address import UUID, Address
from jgroups_py.wire.headers import PROTOCOL_IDS

SUFFIX: Final = ".list"
TOTAL_MAX: Final = 4_000_000
"""Bytes of all files together that are read at once."""


class FILE_PING(Stored):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["FILE_PING"]

    @dataclass(frozen=True, kw_only=True)
    class Config(Stored.Config):
        location: str = "/tmp/jgroups"
        """The folder, which all members see. It is made if it is missing."""
        max_files: int = 1000
        """Files that are read."""
        max_file_size: Bytes = 1_000_000
        """A larger file is not read; a member needs about 80 bytes."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(1, "max_files", "max_file_size")
            if not self.location.strip() or "\0" in self.location:
                raise ConfigError(f'location must be the path of a folder, got "{self.location}"')

    config: Config

    def start(self) -> None:
        super().start()
        self.dropped_files = 0
        """Files that were not read: too many, too large, or not files."""
        self._clearing = False
        """True if a removal of all other files waits for its turn."""

    @property
    def directory_name(self) -> str:
        return f"folder {self.config.location}"

    def opening(self) -> DirectoryRequest:
        return OpenFolder(self.config.location, self.cluster)

    def reading(self) -> DirectoryRequest:
        config = self.config
        return ReadFolder(
            config.location,
            self.cluster,
            SUFFIX,
            config.max_files,
            config.max_file_size,
            TOTAL_MAX,
        )

    def entries_of(self, reply: Consulted) -> list[StoredMember]:
        contents = reply.answer
        assert isinstance(contents, FolderContents)
        self.dropped_files += contents.refused
        entries: list[StoredMember] = []
        for name, data in contents.files:
            found, bad = parse_lines(data, self.config.max_hosts)
            if bad:
                self.dropped_entries += bad
                self.trace("garbage", file=name, lines=bad)
            entries += found
        return entries

    def writing(self, entries: list[StoredMember]) -> DirectoryRequest:
        name = file_name(self.stack.name, self.local_address)
        return WriteFile(self.config.location, self.cluster, name, lines_of(entries))

    def removing(self, members: list[Address]) -> DirectoryRequest:
        prefixes = _prefixes(members)
        return RemoveFiles(self.config.location, self.cluster, SUFFIX, prefixes)

    def clear(self) -> None:
        if not self._clearing:
            self._clearing = True
            self.consult(self._make_clearing, self.removed)

    def _make_clearing(self) -> DirectoryRequest | None:
        self._clearing = False
        if not self.is_ours_to_write():
            return None
        prefixes = _prefixes([self.local_address])
        return RemoveFiles(self.config.location, self.cluster, SUFFIX, prefixes, but=True)

    def follow(self, was_coordinator: bool) -> None:
        if self._saved:
            self.remove([self.local_address])


def _prefixes(members: list[Address]) -> tuple[str, ...]:
    return tuple(file_prefix(member) for member in members if isinstance(member, UUID))
