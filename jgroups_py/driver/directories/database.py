"""A table of a database, which JDBC_PING2 reads and changes. PostgreSQL (pg8000), and SQLite for one host.

Each request opens a connection and closes it, as JGroups does: members ask rarely.
"""

from __future__ import annotations

import sqlite3
import ssl
from contextlib import closing
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from jgroups_py.driver.directories.asking import DirectoryProblem
from jgroups_py.stack.directories import (
    ChangeTable,
    Database,
    OpenTable,
    ReadTable,
    SqlStatement,
)

POSTGRESQL: Final = "jdbc:postgresql:"
SQLITE: Final = "jdbc:sqlite:"
FORMS: Final = f"{POSTGRESQL}//HOST:PORT/DATABASE or {SQLITE}FILE"
_REFUSED: Final = ("28", "3D")
"""SQLSTATE classes that only the operator can mend: wrong user, wrong database."""
_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def answer(request: OpenTable | ReadTable | ChangeTable) -> Any:
    """Carry out a request on a connection of its own."""
    try:
        with closing(_connect(request.database)) as connection:
            return carry_out(request, connection)
    except DirectoryProblem:
        raise
    except OSError as error:
        raise DirectoryProblem(error.strerror or type(error).__name__) from None
    except Exception as error:
        raise _problem(error) from None


def carry_out(request: OpenTable | ReadTable | ChangeTable, connection: Any) -> Any:
    """Carry out a request on a connection of the Python DB-API."""
    style = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    match request:
        case OpenTable(statements=statements, check=check):
            refused = _try_all(statements, connection)
            _check(check, refused, connection, style)
            return None
        case ReadTable(statement=statement, max_rows=most, max_columns=width):
            rows = _run(_limited(statement, most), connection, style).fetchmany(most)
            connection.rollback()
            return tuple(tuple(row[:width]) for row in rows)
        case ChangeTable(statements=changes):
            try:
                for statement in changes:
                    _run(statement, connection, style)
            except Exception:
                connection.rollback()
                raise
            connection.commit()
            return None


def _try_all(statements: tuple[str, ...], connection: Any) -> Exception | None:
    """Try all statements. Return the last refusal."""
    refused = None
    for text in statements:
        try:
            connection.cursor().execute(text)
            connection.commit()
        except Exception as error:  # any error of the driver: most likely the table exists
            connection.rollback()
            refused = error
    return refused


def _check(check: SqlStatement, refused: Exception | None, connection: Any, style: str) -> None:
    try:
        _run(_limited(check, 1), connection, style).fetchmany(1)
    except Exception as error:
        first = f"{_words(refused)}; " if refused is not None else ""
        raise DirectoryProblem(
            f"the table cannot be read, initialize_sql and select_all_pingdata_sql must fit this database: {first}"
            f"{_words(error)}",
            final=True,
        ) from None
    finally:
        connection.rollback()


def _run(statement: SqlStatement, connection: Any, style: str) -> Any:
    text, values = statement
    cursor = connection.cursor()
    cursor.execute(text if style == "?" else _with_style(text, style), values)
    return cursor


def _limited(statement: SqlStatement, most: int) -> SqlStatement:
    text, values = statement
    return f"SELECT * FROM ({text.strip().rstrip(';')}) AS listed LIMIT {most}", values


def _with_style(text: str, style: str) -> str:
    """Replace ``?`` by the driver's own mark, but not inside quotes."""
    parts, quote = [], ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "?":
            char = style
        parts.append(char)
    return "".join(parts)


# --- connecting


def _connect(database: Database) -> Any:
    if database.url.startswith(SQLITE):
        file = database.url.removeprefix(SQLITE).partition("?")[0]
        return sqlite3.connect(file, timeout=database.timeout)
    if database.url.startswith(POSTGRESQL):
        return _connect_postgresql(database)
    raise DirectoryProblem(f"connection_url must be {FORMS}, got {database.shown}", final=True)


def _connect_postgresql(database: Database) -> Any:
    try:
        import pg8000.dbapi as driver
    except ImportError:
        raise DirectoryProblem(
            f"connection_url {database.shown} needs pg8000: pip install 'jgroups_py[postgresql]'",
            final=True,
        ) from None
    parts = urlsplit(database.url.removeprefix("jdbc:"))
    try:
        host, port = parts.hostname, parts.port or 5432
    except ValueError:
        host, port = None, 0
    name = unquote(parts.path.removeprefix("/"))
    if not host or not name:
        raise DirectoryProblem(f"connection_url must be {FORMS}, got {database.shown}", final=True)
    asked = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return driver.connect(
        user=database.user or asked.get("user", ""),
        password=database.password or None,
        host=host,
        port=port,
        database=name,
        ssl_context=_encryption(asked, database),
        timeout=database.timeout,
        application_name="jgroups_py",
    )


def _encryption(asked: dict[str, str], database: Database) -> ssl.SSLContext | None:
    """Return the TLS context for PostgreSQL's ``sslmode``; without one the connection is in clear."""
    mode = asked.get("sslmode", "require" if asked.get("ssl") == "true" else "disable")
    if mode not in _MODES:
        raise DirectoryProblem(
            f"connection_url {database.shown}: sslmode must be one of {', '.join(_MODES)}, got {mode}",
            final=True,
        )
    if mode in ("disable", "allow", "prefer"):
        return None
    root = asked.get("sslrootcert")
    try:
        context = ssl.create_default_context(cafile=root)
    except OSError as error:
        raise DirectoryProblem(
            f"connection_url {database.shown}: sslrootcert {root}: {error.strerror or error}",
            final=True,
        ) from None
    context.check_hostname = mode == "verify-full"
    if mode == "require" and root is None:
        context.verify_mode = ssl.CERT_NONE
    return context


# --- problems


def _problem(error: Exception) -> DirectoryProblem:
    code = _told(error).get("C", "")
    return DirectoryProblem(_words(error), final=code[:2] in _REFUSED)


def _told(error: Exception) -> dict[str, str]:
    """Return the fields of PostgreSQL's error, by its letters: M the message, C the SQLSTATE."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, dict) else {}


def _words(error: Exception | None) -> str:
    """Return an error in one line, without values of the statement, which a driver might put there."""
    if error is None:
        return ""
    message = _told(error).get("M") or (str(error) if isinstance(error, sqlite3.Error) else "")
    cause = error.__cause__ or error.__context__
    if not message and isinstance(cause, OSError):
        message = cause.strerror or type(cause).__name__
    return " ".join(message.split())[:200] or type(error).__name__
