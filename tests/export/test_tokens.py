"""Tokens with rights: the permissions of clients, and files of tokens."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from export_kit import TOKEN, in_thread, state_of
from msgspec import structs

from jgroups_py.cache import open_tree_cache
from jgroups_py.config.private_file import write_private
from jgroups_py.errors import ConfigError
from jgroups_py.export import (
    ExportClient,
    ExportPort,
    ExportToken,
    NotAllowed,
    UnknownMap,
    WrongToken,
    doorway,
    open_export,
)
from jgroups_py.export.columns import WRITES, pack
from jgroups_py.export.messages import StageRows
from jgroups_py.export.tokens import TOKENS_MAX, checked_tokens, only_token, parse_tokens

READER = "token of the reader"
USERS = "token of the users' owner"
TOKENS = (
    ExportToken(TOKEN),
    ExportToken(READER, "reader", writes=False),
    ExportToken(USERS, "users", caches=frozenset({"users"})),
)

NOTHING = StageRows("users", "job", 0, 0, 0, pack(WRITES, [[], [], []])[0], True)


@asynccontextmanager
async def two_caches() -> AsyncIterator[ExportPort]:
    async with (
        open_tree_cache("local.xml") as users,
        open_tree_cache("local.xml") as orders,
        open_export({"users": users, "orders": orders}, token=TOKENS) as port,
    ):
        await users.put("/u", "name", b"Ann")
        await orders.put("/o", "item", b"book")
        yield port


def client_with(port: ExportPort, token: str) -> ExportClient:
    return ExportClient(port.address, token)


@pytest.mark.sockets
async def test_a_token_for_reading_reads_everything_and_writes_nothing() -> None:
    async with two_caches() as port:

        def tries() -> None:
            with client_with(port, READER) as client:
                snapshot = client.open_snapshot("orders")
                assert list(state_of(client, snapshot.id)["/o"]) == ["item"]
                client.find_offset("users")
                for refused in (
                    lambda: client.stage(NOTHING, b""),
                    lambda: list(client.commit("users", "job", [(0, 0)])),
                    lambda: client.abort("users", "job"),
                ):
                    with pytest.raises(NotAllowed, match="allows reading only"):
                        refused()
            with client_with(port, TOKEN) as client:
                client.abort("users", "job")

        await in_thread(tries)
        assert port.counters["not_allowed"] == 3 and port.counters["rows_in"] == 0


@pytest.mark.sockets
async def test_a_token_of_one_cache_learns_nothing_of_the_other() -> None:
    async with two_caches() as port:

        def tries() -> None:
            with client_with(port, TOKEN) as other, client_with(port, USERS) as client:
                assert client.describe().map == "users"  # the only token for it
                with pytest.raises(UnknownMap, match="say which map: orders, users"):
                    other.describe()
                theirs = other.open_snapshot("orders").id
                for refused in (
                    lambda: client.describe("orders"),
                    lambda: client.open_snapshot("orders"),
                    lambda: client.find_offset("orders"),
                    lambda: client.part("orders"),
                    lambda: client.logs("orders"),
                    lambda: client.abort("orders", "job"),
                    lambda: client.stage(structs.replace(NOTHING, map="orders"), b""),
                    lambda: list(client.read_snapshot(theirs, 0, 10)),
                    lambda: client.close_snapshot(theirs),
                ):
                    with pytest.raises(NotAllowed, match="does not allow"):
                        refused()
                assert "/o" in state_of(other, theirs)  # it was not closed
                with pytest.raises(NotAllowed, match='map "nothing", but users'):
                    client.describe("nothing")

        await in_thread(tries)
        assert port.counters["not_allowed"] == 10


@pytest.mark.sockets
async def test_tokens_rotate_while_clients_are_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(doorway, "TOKENS_EVERY", 0.02)
    file = str(tmp_path / "tokens")
    write_private(file, b"former-token-of-all\n")
    async with open_tree_cache("local.xml") as cache, open_export(cache, token_file=file) as port:
        client = await in_thread(client_with, port, "former-token-of-all")
        write_private(file, b"token=former-token-of-all\ntoken=newer-token-of-all rights=read\n")
        await connected(port, "newer-token-of-all")
        assert (await in_thread(client.describe)).map == "cache"  # both tokens are valid
        write_private(file, b"token=oops\n")
        with trio.fail_after(30):
            while "goes on with what it had" not in caplog.text:  # noqa: ASYNC110 - a file's reader tells nobody
                await trio.sleep(0.01)
        assert "oops" not in caplog.text and f"{file}:1: a token of an export" in caplog.text
        await connected(port, "newer-token-of-all")
        write_private(file, b"token=newer-token-of-all\n")
        with trio.fail_after(30):
            while "former" in doorway_of(port).tokens[0].token:  # noqa: ASYNC110 - as above
                await trio.sleep(0.01)
        with pytest.raises(WrongToken, match="was taken out"):
            await in_thread(client.describe)
        with pytest.raises(WrongToken, match="another token"):
            await in_thread(client_with, port, "former-token-of-all")
        assert port.counters["withdrawn"] == 1
        client.close()


def doorway_of(port: ExportPort) -> doorway.ExportDoorway:
    return port._doorway


async def connected(port: ExportPort, token: str) -> None:
    """Wait until a client with the token is admitted."""
    with trio.fail_after(30):
        while True:
            try:
                (await in_thread(client_with, port, token)).close()
                return
            except WrongToken:
                await trio.sleep(0.01)


def test_a_file_has_one_token_or_lines_with_their_rights() -> None:
    assert parse_tokens(" a token of sixteen \n", "f") == (ExportToken("a token of sixteen"),)
    text = """
    # Spark
    token=0123456789abcdef  name=spark rights=read caches=users,orders
    token=fedcba9876543210 rights=read,write
    """
    spark, other = parse_tokens(text, "f")
    assert spark == ExportToken("0123456789abcdef", "spark", False, frozenset({"users", "orders"}))
    assert other == ExportToken("fedcba9876543210")
    assert only_token("token=0123456789abcdef rights=read", "f") == "0123456789abcdef"
    with pytest.raises(ConfigError, match=r"^f: has 2 tokens: a client needs a file with its own"):
        only_token(text, "f")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f: an export port has 1 to 100 tokens, got 0"),
        ("short", "f: a token of an export port has at least 16 characters"),
        ("token=short", "f:1: a token of an export port has at least 16 characters"),
        (
            "# x\ntoken=0123456789abcdef readonly",
            "f:2: a line of tokens has words of the form token=",
        ),
        ("token=0123456789abcdef mode=read", "f:1: a line of tokens has words of the form token="),
        ("name=x rights=read\n#\nname=y", "f:1: a line of tokens needs token=..."),
        ("token=0123456789abcdef rights=all", 'f:1: rights= is "read" or "read,write", got "all"'),
        ("token=0123456789abcdef rights=", "f:1: rights= needs one value"),
        ("token=0123456789abcdef token=x", "f:1: token= needs one value"),
        ("token=0123456789abcdef\n" * 2, "f: two tokens of an export port are the same"),
        (
            "0123456789abcdef\nfedcba9876543210",
            "f:1: a line of tokens has words of the form token=",
        ),
    ],
)
def test_a_wrong_line_is_told_with_its_place_and_without_its_token(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tokens(text, "f")
    assert str(caught.value).startswith(problem)
    assert "abcdef" not in str(caught.value) and "readonly" not in str(caught.value)


def test_tokens_are_bounded_and_not_shown() -> None:
    many = [ExportToken(f"{number:016}") for number in range(TOKENS_MAX + 1)]
    assert len(checked_tokens(many[:-1])) == TOKENS_MAX
    with pytest.raises(ConfigError, match="1 to 100 tokens, got 101"):
        checked_tokens(many)
    assert READER not in repr(TOKENS)


@pytest.mark.sockets
async def test_a_file_that_others_may_read_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "token"
    file.write_text("a token of sixteen characters")
    file.chmod(0o644)
    async with open_tree_cache("local.xml") as cache:
        with pytest.raises(ConfigError, match="chmod 600"):
            async with open_export(cache, token_file=str(file)):
                pass
        for both in ({}, {"token": TOKEN, "token_file": str(file)}):
            with pytest.raises(ConfigError, match="needs either token or token_file"):
                async with open_export(cache, **both):  # type: ignore[arg-type]
                    pass
    assert "sixteen" not in caplog.text
