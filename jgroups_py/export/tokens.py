"""Tokens of an export port, and what each of them allows: which caches, and whether they may be written.

A file has one token, which has all rights, or lines such as

    # of Spark's readers
    token=Qw5...  name=spark  rights=read  caches=users,orders
    token=Zu8...  name=loader

``name`` is shown in logs. Without ``rights`` a token allows reading and writing, without ``caches`` all caches. To rotate a
token, add the new one, give it to the clients, and take the former one out.

Limits: TOKENS_MAX tokens, TOKENS_FILE_MAX bytes of a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jgroups_py.errors import ConfigError
from jgroups_py.export.auth import checked_token
from jgroups_py.values.shown import shown

TOKENS_MAX: Final = 100
"""The most tokens of one port. A client's proof is compared with each."""
TOKENS_FILE_MAX: Final = 65_536
"""The most bytes of a file with tokens."""
_RIGHTS: Final = {"read": False, "read,write": True}
_KEYS: Final = ("token", "name", "rights", "caches")


@dataclass(frozen=True, slots=True)
class ExportToken:
    """A token and its rights. ``caches``: names of caches, None: all. ``name``: for logs."""

    token: str = field(repr=False)
    name: str = ""
    writes: bool = True
    caches: frozenset[str] | None = None

    @property
    def secret(self) -> bytes:
        """The token as it is used. Raise ConfigError if it could be guessed."""
        return checked_token(self.token)

    def allows(self, cache: str) -> bool:
        """Return whether a cache may be read."""
        return self.caches is None or cache in self.caches


def checked_tokens(given: str | Sequence[ExportToken]) -> tuple[ExportToken, ...]:
    """Return the argument of ``open_export`` as tokens.

    Raises:
        ConfigError: there is no token, there are too many, or a token comes twice or could be guessed.
    """
    tokens = (ExportToken(given),) if isinstance(given, str) else tuple(given)
    if not 0 < len(tokens) <= TOKENS_MAX:
        raise ConfigError(f"an export port has 1 to {TOKENS_MAX} tokens, got {len(tokens)}")
    if len({token.secret for token in tokens}) < len(tokens):
        raise ConfigError("two tokens of an export port are the same")
    return tokens


def parse_tokens(text: str, file: str) -> tuple[ExportToken, ...]:
    """Return the tokens in the text of a file.

    Raises:
        ConfigError: a line is malformed. The error has its number, and no token.
    """
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(number, line) for number, line in lines if line and not line.startswith("#")]
    if len(lines) == 1 and not lines[0][1].startswith("token="):
        return _placed(file, None, lines[0][1])
    return _placed(file, None, [_token_of(file, number, line) for number, line in lines])


def only_token(text: str, file: str) -> str:
    """Return the one token in the text of a client's file. Raise ConfigError if there are several."""
    tokens = parse_tokens(text, file)
    if len(tokens) > 1:
        raise ConfigError(
            f"has {len(tokens)} tokens: a client needs a file with its own one only", file=file
        )
    return tokens[0].token


def _token_of(file: str, number: int, line: str) -> ExportToken:
    found: dict[str, str] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals or key not in _KEYS:
            # The word may be a token, so it is not shown.
            accepted = ", ".join(f"{key}=..." for key in _KEYS)
            raise ConfigError(
                f"a line of tokens has words of the form {accepted}", file=file, line=number
            )
        if key in found or not value:
            raise ConfigError(f"{key}= needs one value", file=file, line=number)
        found[key] = value
    if "token" not in found:
        raise ConfigError("a line of tokens needs token=...", file=file, line=number)
    rights = found.get("rights", "read,write")
    if rights not in _RIGHTS:
        raise ConfigError(
            f'rights= is "read" or "read,write", got "{shown(rights)}"', file=file, line=number
        )
    caches = frozenset(found["caches"].split(",")) if "caches" in found else None
    token = ExportToken(found["token"], found.get("name", ""), _RIGHTS[rights], caches)
    _placed(file, number, [token])
    return token


def _placed(
    file: str, line: int | None, given: str | Sequence[ExportToken]
) -> tuple[ExportToken, ...]:
    try:
        return checked_tokens(given)
    except ConfigError as error:
        raise ConfigError(error.problem, file=file, line=line) from None
