"""JDBC_PING2: discovery through a table of a database.

Place: above the transport; with UDP as well as TCP.

Each member has a row: address, name, cluster, place, and whether it is coordinator. A joiner writes its row, reads
those of its cluster and asks them (listed.py). The coordinator writes the rows of all members of its view (stored.py).

PostgreSQL needs pg8000: pip install 'jgroups_py[postgresql]'. SQLite is for members on one host.

Source:  JGroups JDBC_PING2.java.
Differs: connection_url and no driver: jdbc:postgresql://HOST:PORT/DATABASE or jdbc:sqlite:FILE. ``sslmode`` and ``sslrootcert``
         are read behind ``?``, a password is not; without sslmode the connection is in clear, where Java's driver would try TLS.
         All rows of a view are written in one transaction. ``none`` as initialize_sql makes no table.
Limits:  max_hosts rows are read; max_hosts addresses are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

from jgroups_py.config.settings import Secret
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.discovery.entries import StoredMember, parse_row, place_text, row_address
from jgroups_py.protocols.discovery.stored import Stored
from jgroups_py.stack.directories import (
    ChangeTable,
    Database,
    DirectoryRequest,
    OpenTable,
    ReadTable,
    SqlStatement,
    shown_url,
)
from jgroups_py.stack.exposure import DIRECTORY, PortUse, TransportPlace
from jgroups_py.stack.ports import Consulted
from jgroups_py.values.address import UUID, Address
from jgroups_py.wire.headers import PROTOCOL_IDS

COLUMNS: Final = 4
"""Columns of a row that are read."""
POSTGRESQL_PORT: Final = 5432
URLS: Final = ("jdbc:postgresql://", "jdbc:sqlite:")


class JDBC_PING2(Stored):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["JDBC_PING2"]
    each_has_its_own = True

    @dataclass(frozen=True, kw_only=True)
    class Config(Stored.Config):
        connection_url: str = ""
        """The database. A password in it is refused, because a URL is shown."""
        connection_username: str = ""
        """The user of the database."""
        connection_password: Secret = field(default="", repr=False)
        """The password; best a variable, ${JGROUPS_PASSWORD}."""
        initialize_sql: str = (
            "CREATE TABLE jgroups (address varchar(200) NOT NULL, name varchar(200), cluster varchar(200) NOT NULL, "
            "ip varchar(200) NOT NULL, coord boolean, PRIMARY KEY (address) )"
        )
        """The statement that makes the table. An existing table is no error."""
        insert_single_sql: str = "INSERT INTO jgroups values (?, ?, ?, ?, ?)"
        """The statement that adds a row: address, name, cluster, place, coordinator."""
        delete_single_sql: str = "DELETE FROM jgroups WHERE address=?"
        """The statement that removes the row of an address."""
        select_all_pingdata_sql: str = (
            "SELECT address, name, ip, coord FROM jgroups WHERE cluster=?"
        )
        """The query for the rows of a cluster."""
        insert_sp: str = ""
        """The statement that makes a stored procedure which replaces a row; its values are those of
        insert_single_sql."""
        call_insert_sp: str = ""
        """The statement that calls the procedure, instead of delete_single_sql and insert_single_sql."""
        ignored: ClassVar[frozenset[str]] = frozenset(
            {"connection_driver", "clear_sql", "datasource_jndi_name", "datasource_injecter_class"}
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            url = self.connection_url
            if not any(url.startswith(start) and len(url) > len(start) for start in URLS):
                raise ConfigError(
                    "connection_url must be jdbc:postgresql://HOST:PORT/DATABASE or jdbc:sqlite:FILE, "
                    f'got "{shown_url(url)}"'
                )
            if shown_url(url) != url.partition("?")[0] or "password=" in url.lower():
                raise ConfigError(
                    f"connection_url must hold no password, which belongs into connection_password, got "
                    f'"{shown_url(url)}"'
                )
            if bool(self.insert_sp) and not self.call_insert_sp:
                raise ConfigError("call_insert_sp must be set where insert_sp is, got nothing")
            wanted = {
                "insert_single_sql": 5,
                "delete_single_sql": 1,
                "select_all_pingdata_sql": 1,
                **({"call_insert_sp": 5} if self.call_insert_sp else {}),
            }
            for name, count in wanted.items():
                if getattr(self, name).count("?") != count:
                    raise ConfigError(
                        f"{name} must have {count} ? for its values, got {getattr(self, name).count('?')}"
                    )

    config: Config

    @classmethod
    def port_uses(cls, config: JDBC_PING2.Config, place: TransportPlace) -> Sequence[PortUse]:
        if not config.connection_url.startswith("jdbc:postgresql:"):
            return ()  # a file
        url = urlsplit(config.connection_url.removeprefix("jdbc:"))
        asked = dict(parse_qsl(url.query))
        mode = asked.get("sslmode", "require" if asked.get("ssl") == "true" else "disable")
        sealed = "" if mode in ("disable", "allow", "prefer") else "TLS"
        try:
            port = url.port or POSTGRESQL_PORT
        except ValueError:
            return ()  # the database's own check reports it
        host = url.hostname or "localhost"
        why = "to the database"
        return [PortUse("tcp", "out", port, port, "", host, (DIRECTORY,), why, "", sealed)]

    def start(self) -> None:
        super().start()
        config = self.config
        self._database = Database(
            config.connection_url,
            config.connection_username,
            config.connection_password,
            config.lookup_timeout,
        )
        self._clearing = False
        """True if the table is to be read, so that rows of others can be removed."""

    # --- requests

    @property
    def directory_name(self) -> str:
        return f"database {self._database.shown}"

    def opening(self) -> DirectoryRequest:
        config = self.config
        made = [text for text in (config.initialize_sql, config.insert_sp) if text]
        made = [text for text in made if text.strip().lower() not in ("none", "null")]
        return OpenTable(self._database, tuple(made), self._rows())

    def reading(self) -> DirectoryRequest:
        return ReadTable(self._database, self._rows(), self.config.max_hosts, COLUMNS)

    def _rows(self) -> SqlStatement:
        return self.config.select_all_pingdata_sql, (self.cluster,)

    def writing(self, entries: list[StoredMember]) -> DirectoryRequest:
        statements: list[SqlStatement] = []
        # All members write in the same order, so that no two wait for each other's rows.
        for entry in sorted(entries, key=lambda entry: bytes(entry.address)):
            statements += self._replacing(entry)
        return ChangeTable(self._database, tuple(statements))

    def _replacing(self, entry: StoredMember) -> list[SqlStatement]:
        config = self.config
        address = row_address(entry.address)
        place = place_text(entry.physical)
        values = (address, entry.name, self.cluster, place, entry.coordinator)
        if config.call_insert_sp:
            return [(config.call_insert_sp, values)]
        return [(config.delete_single_sql, (address,)), (config.insert_single_sql, values)]

    def removing(self, members: list[Address]) -> DirectoryRequest:
        sql = self.config.delete_single_sql
        uuids = sorted(bytes(member) for member in members if isinstance(member, UUID))
        return ChangeTable(
            self._database, tuple((sql, (row_address(UUID(uuid)),)) for uuid in uuids)
        )

    # --- answers

    def entries_of(self, reply: Consulted) -> list[StoredMember]:
        entries: list[StoredMember] = []
        for row in reply.answer:
            try:
                entries.append(parse_row(row))
            except ValueError as error:
                self.dropped_entries += 1
                self.trace("garbage", problem=str(error))
        return entries

    # --- views

    def is_ours_to_write(self) -> bool:
        return True  # each member has a row of its own

    def follow(self, was_coordinator: bool) -> None:
        if was_coordinator:
            self.save()

    def clear(self) -> None:
        if not self._clearing:
            self._clearing = True
            self.consult(self.reading, self._on_read_to_clear)

    def _on_read_to_clear(self, reply: Consulted) -> None:
        self._clearing = False
        if reply.problem:
            self.removed(reply)
        elif self._coordinator and self.view is not None:
            others = [e.address for e in self.entries_of(reply) if e.address not in self.view]
            if others:
                self.remove(others)
