"""AUTH: a member that joins, or merges its group with ours, shows a token; without a good one it is refused.

Place: directly below GMS.

    JOIN_REQ, MERGE_REQ       the sender adds its token. A member that gets one without a good token drops the request
                              and tells the sender: JOIN_RSP with a reason, MERGE_RSP with a refusal
    JOIN_RSP, MERGE_RSP,      the same with auth_coord, so that no member joins a coordinator that has no token. A
      INSTALL_MERGE_VIEW      message without one is dropped, and its sender gets no answer
    JOIN_RSP with a reason    goes without a token: a refusal is no secret

auth_class names the kind of token (tokens.py). All members need the same. A refused member ends with the reason.

AUTH decides who may join. It does not protect the group's traffic: an attacker who reaches the network can forge later
packets. Only encryption prevents that.

Source:  JGroups AUTH.java, AuthHeader.java; WIRE.md 11.1, 11.10.
Differs: a refusal is not sent again by UNICAST3, since a member keeps no memory for strangers. A sender that did not
         get it asks again, and is refused again. Krb5Token is not built.
Limits: none of its own, because it has no tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from jgroups_py.config.settings import Secret
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.membership.gms.wire import is_refusal
from jgroups_py.protocols.security.tokens import (
    FixedMembershipToken,
    RegexMembership,
    SenderFacts,
    Token,
)
from jgroups_py.protocols.security.x509_token import X509Token
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import UNICAST, VIEWS
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import GetPhysical
from jgroups_py.values.message import Flag
from jgroups_py.values.payloads import JoinRsp
from jgroups_py.wire.headers import PROTOCOL_IDS, AuthHeader, GmsHeader, GmsType
from jgroups_py.wire.primitives import encode_whole
from jgroups_py.wire.values import write_join_rsp

_GMS: Final = PROTOCOL_IDS["GMS"]
_PACKAGE: Final = "org.jgroups.auth."
_JOINS: Final = (GmsType.JOIN_REQ, GmsType.JOIN_REQ_WITH_STATE_TRANSFER)
_REQUESTS: Final = (*_JOINS, GmsType.MERGE_REQ)
_ANSWERS: Final = (GmsType.JOIN_RSP, GmsType.MERGE_RSP, GmsType.INSTALL_MERGE_VIEW)
_OTHERS: Final = ("Krb5Token",)
_NOT_BUILT: Final = ("client_principal_name", "client_password", "service_principal_name")
"""Attributes of tokens that are not built. The error is about auth_class, and names accepted ones."""
_TOKENS: Final[tuple[type[Token], ...]] = (FixedMembershipToken, RegexMembership, X509Token)
_KINDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[..., Token]]]] = {
    kind.__name__: (kind.attributes, kind) for kind in _TOKENS
}
"""Name in a stack file -> its attributes, in the order of its arguments, and its maker."""
_REFUSAL_FLAGS: Final = int(Flag.OOB | Flag.NO_RELIABILITY)


class AUTH(Protocol):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["AUTH"]
    needs_below = (UNICAST,)
    needs_above = (VIEWS,)
    turns_away: ClassVar[Mapping[str, str]] = {
        "no_token": "would join, merge or let us in, and shows no token",
        "wrong_token": "would join, merge or let us in, and its token or address is not one that is admitted",
    }

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        """Attributes of the protocol. Those of the token may be written ``auth_token.NAME``, too."""

        auth_class: str
        """The kind of token: org.jgroups.auth.FixedMembershipToken, RegexMembership or X509Token. The package may
        be left out."""
        auth_coord: bool = True
        """A coordinator must show a token, too, when it lets a member in or merges."""
        fixed_members_value: str = ""
        """FixedMembershipToken: the numeric addresses of members that may join, with a port or for any port, as
        10.0.0.1/7800,10.0.0.2."""
        fixed_members_seperator: str = ","
        """FixedMembershipToken: the characters between addresses. (JGroups spells it so.)"""
        match_string: str = ""
        """RegexMembership: a regular expression that the whole address (10.0.0.1:7800) or logical name must match."""
        match_ip_address: bool = True
        """RegexMembership: compare the address."""
        match_logical_name: bool = False
        """RegexMembership: compare the logical name. One match of both is enough."""
        keystore_path: str = ""
        """X509Token: PKCS12 file with the key and the certificate that all members have."""
        keystore_type: str = "JKS"
        """X509Token: the format of the file, for JGroups. Here it is PKCS12."""
        keystore_password: Secret = field(default="", repr=False)
        """X509Token: the password of the file. Better a variable than a text in the file."""
        cert_alias: str = ""
        """X509Token: the name of the key in the file. Empty: any."""
        cert_password: Secret = field(default="", repr=False)
        """X509Token: the password of the key. Empty: that of the file."""
        auth_value: Secret = field(default="", repr=False)
        """X509Token: the value that members show to each other, encrypted under the certificate."""
        cipher_type: str = "RSA"
        """X509Token: the encryption of the value: RSA, RSA/ECB/PKCS1Padding or RSA/ECB/OAEPWith... with SHA-1 or
        SHA-256."""

        ignored: ClassVar[frozenset[str]] = frozenset(f"auth_token.{name}" for name in _NOT_BUILT)
        aliases: ClassVar[dict[str, str]] = {
            f"auth_token.{name}": name for kind in _TOKENS for name in kind.attributes
        }

        def __post_init__(self) -> None:
            self.token()

        def verify(self) -> None:
            self.token().load()

        def token(self) -> Token:
            """The kind of token that the attributes name.

            Raises:
                ConfigError: there is no kind of that name, or an attribute does not belong to it.
            """
            name = self.auth_class.removeprefix(_PACKAGE)
            kind = _KINDS.get(name)
            if kind is None:
                problem = "is not built here" if name in _OTHERS else "is not known"
                raise ConfigError(
                    f'auth_class must be one of {", ".join(_KINDS)}: "{self.auth_class}" {problem}'
                )
            for other, (attributes, _) in _KINDS.items():
                for attribute in attributes if other != name else ():
                    if getattr(self, attribute) != getattr(AUTH.Config, attribute):
                        raise ConfigError(f"{attribute} is an attribute of {other}, not of {name}")
            attributes, make = kind
            return make(*(getattr(self, attribute) for attribute in attributes))

    config: Config

    def start(self) -> None:
        self._token = self.config.token()
        self._token.load()
        self._shown = self._token.show(self.machine.secrets)
        self.tokens_sent = 0
        self.tokens_taken = 0
        """Requests and answers whose token was good."""

    # --- sending

    def down(self, batch: Batch) -> None:
        header = batch.headers.get(_GMS)
        if isinstance(header, GmsHeader) and self._is_checked(header.type, batch.payloads[0]):
            self.tokens_sent += len(batch)
            batch = batch.with_header(self.protocol_id, AuthHeader(self._shown))
        self.pass_down(batch)

    def _is_checked(self, type: GmsType, payload: Any) -> bool:
        """Return whether such a message needs a token."""
        if type in _REQUESTS:
            return True
        if type not in _ANSWERS or not self.config.auth_coord:
            return False
        return type != GmsType.JOIN_RSP or not is_refusal(payload)

    # --- receiving

    def up(self, batch: Batch) -> None:
        header = batch.headers.get(_GMS)
        if not isinstance(header, GmsHeader) or header.type not in (*_REQUESTS, *_ANSWERS):
            self.pass_up(batch)
            return
        for index in range(len(batch)):
            one = batch.slice(index, index + 1)
            if not self._is_checked(header.type, one.payloads[0]) or self._is_good(one, header):
                self.pass_up(one)
            else:
                self.consume(one)

    def _is_good(self, one: Batch, header: GmsHeader) -> bool:
        """Return whether the token of a message is good. If not, count the message and answer its sender."""
        src = one.src
        shown = one.headers.get(self.protocol_id)
        if not isinstance(shown, AuthHeader) or src is None:
            self._refuse("no_token", "it shows no token (AUTH)", src, header)
            return False
        if not self._token.admits(shown.token, self._claim(src)):
            self._refuse("wrong_token", "its token or address is not admitted (AUTH)", src, header)
            return False
        self.tokens_taken += 1
        return True

    def _claim(self, src: Address) -> SenderFacts:
        name = self.name_of(src)
        return SenderFacts(self.ask_down(GetPhysical(src)), None if name == str(src) else name)

    def _refuse(self, cause: str, reason: str, src: Address | None, header: GmsHeader) -> None:
        self.turn_away(cause, src)
        if src is None:
            return
        if header.type in _JOINS:
            payload = encode_whole(write_join_rsp, JoinRsp(fail_reason=reason))
            self._say(src, GmsHeader(GmsType.JOIN_RSP), payload)
        elif header.type == GmsType.MERGE_REQ:
            refusal = GmsHeader(GmsType.MERGE_RSP, merge_id=header.merge_id, rejected=True)
            self._say(src, refusal, None)

    def _say(self, dest: Address, header: GmsHeader, payload: bytes | None) -> None:
        self.down(Batch.of(dest, _GMS, header, payload=payload, flags=_REFUSAL_FLAGS))
