"""Tokens: joiners show them, and members check them.

    FixedMembershipToken    the sender's network address must be in a list
    RegexMembership         the sender's network address or logical name must match a regular expression
    X509Token               the sender has a certificate that all members have (x509_token.py)

The first two check the sender's own report in discovery, which can be forged. They keep out misconfigured members, but
no attacker.

Source:  JGroups AuthToken, FixedMembershipToken, RegexMembership; WIRE.md 10.
Differs: a token of another class is refused by RegexMembership, too. Addresses are numeric or localhost, because a protocol
         resolves no names. The expression is one of Python's ``re``, which covers the usual expressions of such files.
"""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from typing import ClassVar, Final, NamedTuple

from jgroups_py.errors import ConfigError
from jgroups_py.protocols.security.ciphers import RandomBytes
from jgroups_py.values.address import IpAddress
from jgroups_py.values.payloads import Streamable
from jgroups_py.wire.objects import REGEX_MEMBERSHIP_CLASS

_FIXED_MAGIC: Final = 16


class SenderFacts(NamedTuple):
    """Facts about a sender: its network address and its logical name. None: not known."""

    physical: IpAddress | None
    name: str | None


class Token(ABC):
    """One kind of check for joiners."""

    attributes: ClassVar[tuple[str, ...]]
    """Attributes of AUTH that are the arguments, in this order."""

    def load(self) -> None:
        """Read the files that the token needs. Call it before the next two.

        Raises:
            ConfigError: a file cannot be used.
        """

    @abstractmethod
    def show(self, random_bytes: RandomBytes) -> Streamable:
        """Return the token that this member shows to others."""

    @abstractmethod
    def admits(self, token: Streamable | None, claim: SenderFacts) -> bool:
        """Return whether a sender with such a token may join."""


class FixedMembershipToken(Token):
    """Members at listed addresses may join. The token itself is empty, as in JGroups."""

    attributes: ClassVar[tuple[str, ...]] = ("fixed_members_value", "fixed_members_seperator")

    def __init__(self, value: str, separator: str) -> None:
        if not separator:
            raise ConfigError("fixed_members_seperator must be one or more characters, got none")
        # Each character of the text separates, as in Java's StringTokenizer.
        parts = re.split(f"[{re.escape(separator)}]", value)
        self._members = tuple(m for part in parts if part.strip() for m in _members(part.strip()))
        if not self._members:
            raise ConfigError(
                "fixed_members_value must name the members that may join, as 10.0.0.1/7800,10.0.0.2 "
                "(without a port any port is good)"
            )

    def show(self, random_bytes: RandomBytes) -> Streamable:
        return Streamable(_FIXED_MAGIC, "emptyToken")

    def admits(self, token: Streamable | None, claim: SenderFacts) -> bool:
        physical = claim.physical
        if token is None or token.magic != _FIXED_MAGIC or physical is None:
            return False
        return any(
            packed == physical.packed_host and port in (0, physical.port)
            for packed, port in self._members
        )


def _members(text: str) -> tuple[tuple[bytes, int], ...]:
    """Return the packed hosts and the port of one entry such as ``10.0.0.1/7800``; without a port it is 0.
    ``localhost`` is two hosts."""
    host, slash, port = text.rpartition("/")
    if not slash:
        host, port = text, "0"
    try:
        hosts = ("127.0.0.1", "::1") if host.lower() == "localhost" else (host,)
        packed = tuple(ipaddress.ip_address(one).packed for one in hosts)
        number = int(port) if port.isdecimal() else -1
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise ConfigError(
            "fixed_members_value must be numeric addresses or localhost, as 10.0.0.1/7800 or ::1, "
            f'got "{text}"'
        )
    return tuple((one, number) for one in packed)


class RegexMembership(Token):
    """Members whose network address or logical name matches an expression as a whole may join."""

    attributes: ClassVar[tuple[str, ...]] = (
        "match_string",
        "match_ip_address",
        "match_logical_name",
    )

    def __init__(self, match_string: str, match_ip_address: bool, match_logical_name: bool) -> None:
        if not match_string:
            raise ConfigError("match_string must be a regular expression, got none")
        if not match_ip_address and not match_logical_name:
            raise ConfigError("match_ip_address or match_logical_name must be true, both are false")
        try:
            self._pattern = re.compile(match_string)
        except re.error as error:
            raise ConfigError(f"match_string must be a regular expression: {error}") from None
        self._address = match_ip_address
        self._name = match_logical_name

    def show(self, random_bytes: RandomBytes) -> Streamable:
        return Streamable(-1, None, REGEX_MEMBERSHIP_CLASS)

    def admits(self, token: Streamable | None, claim: SenderFacts) -> bool:
        if token is None or token.class_name != REGEX_MEMBERSHIP_CLASS:
            return False
        texts = []
        if self._address and claim.physical is not None:
            texts.append(java_text(claim.physical))
        if self._name and claim.name is not None:
            texts.append(claim.name)
        return any(self._pattern.fullmatch(text) for text in texts)


def java_text(physical: IpAddress) -> str:
    """Return a network address as Java's IpAddress prints it: 10.0.0.1:7800, 0:0:0:0:0:0:0:1:7800. Expressions are
    written for it."""
    packed = physical.packed_host
    if len(packed) == 16:
        words = (int.from_bytes(packed[i : i + 2], "big") for i in range(0, 16, 2))
        host = ":".join(f"{word:x}" for word in words)
    else:
        host = physical.host or "<null>"
    return f"{host}:{physical.port}"
