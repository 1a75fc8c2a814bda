"""TlsDoor: speaks TLS on the connections of a stack. Not a protocol; TCP installs it (stack/doors.py).

    Bind, Connect of a protocol       wait until the credentials are there, then go out
    Accepted                          hold the connection; no protocol knows it
    Connected                         begin the handshake; the protocol hears of it later
    Received                          feed the handshake, or decrypt and hand in
    handshake done                    hand in Accepted or Connected, and later bytes
    refused, late, one too many       turn away by cause; ConnectFailed for a connection of our own
    Write                             encrypt
    Close                             say goodbye, close

It covers the stream sockets of the protocol that installs it, and of those whose Config has ``use_tls`` (FD_SOCK2). Others
(questions to a gossip router) pass as they are. Datagrams pass, too.

Files are read by the driver (LoadCredentials), at the start and each ``reload_interval``. A connection keeps the
credentials with which it began.

Limits: ``max_handshakes`` of others at the same time; ``handshake_timeout``; HANDSHAKE_MAX bytes of a handshake. All counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from jgroups_py.stack.directories import CredentialsFound, LoadCredentials
from jgroups_py.stack.doorkeeper import Doorkeeper
from jgroups_py.stack.doors import Door
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Close,
    Closed,
    Connect,
    Connected,
    ConnectFailed,
    Consult,
    Consulted,
    Endpoint,
    Handle,
    In,
    Out,
    Received,
    Writable,
    Write,
)
from jgroups_py.stack.protocol import Protocol
from jgroups_py.tls import Credentials, TlsRefused, TlsSession, TlsSettings, fits
from jgroups_py.tls.session import TLS_CAUSES
from jgroups_py.values.events import CertificateExpires

LOAD_TIMEOUT: Final = 10.0
"""Seconds in which files must be read."""
WARN_EVERY: Final = 86400.0
"""Seconds between two warnings that a certificate will expire."""


@dataclass(slots=True)
class _Talk:
    """TLS on one connection. ``opening``: the input that reports the connection to the protocol; None: it was handed
    in."""

    session: TlsSession
    peer: Endpoint
    opening: Accepted | Connected | None
    names: tuple[str, ...] = ()
    speakers: dict[bytes, None] = field(default_factory=dict)
    """Addresses of members that may speak on it."""


class TlsDoor(Door):
    """See the module's docstring. ``owner`` is the protocol that installs it."""

    name = "TLS"

    def __init__(
        self,
        owner: Protocol,
        settings: TlsSettings,
        *,
        check_names: bool,
        handshake_timeout: float,
        max_handshakes: int,
        reload_interval: float,
        expiry_warning: float,
    ) -> None:
        super().__init__()
        self._owner = owner
        self._settings = settings
        self._check_names = check_names
        self._handshake_timeout = handshake_timeout
        self._max_handshakes = max_handshakes
        self._reload_interval = reload_interval
        self._expiry_warning = expiry_warning
        self._credentials: Credentials | None = None
        self._waiting: list[Bind | Connect] = []
        """Requests that wait for the credentials."""
        self._question: Handle = 0
        """The handle of the question for credentials that is under way."""
        self._places: dict[Handle, Endpoint] = {}
        """Connections of our own that are not open yet."""
        self._talks: dict[Handle, _Talk] = {}
        self._due: dict[Handle, float] = {}
        """The times by which handshakes must be done, the earliest first."""
        self._problem = ""
        self._hinted = False
        self._warned_at: float | None = None
        self._late = owner.timer(self._on_late, "_on_tls_late")
        self._reload = owner.timer(self._ask, "_on_tls_reload")
        self._doorkeeper = Doorkeeper(self.name, owner.machine, owner.log, TLS_CAUSES, owner=owner)
        self.counts = dict.fromkeys(
            ("tls_handshakes", "tls_handshakes_lost", "tls_reloads", "tls_reloads_failed"), 0
        )

    # --- outputs of protocols

    def outgoing(self, item: Out) -> None:
        match item:
            case Write(handle, data):
                talk = self._talks.get(handle)
                if talk is not None:
                    if talk.opening is not None:
                        return  # the protocol has closed the connection and forgotten it
                    item = Write(handle, talk.session.encrypt(data))
                self.outside(item)
            case Close(handle, abort):
                self._places.pop(handle, None)
                self._waiting = [other for other in self._waiting if other.handle != handle]
                talk = self._forget(handle)
                if talk is not None and not abort:
                    self._say(handle, talk.session.close())
                self.outside(item)
            case Bind(kind="tcp") | Connect() if self._covers(item.handle):
                if isinstance(item, Connect):
                    self._places[item.handle] = item.dest
                if self._credentials is None:
                    self._waiting.append(item)
                    self._ask()
                else:
                    self.outside(item)
            case _:
                self.outside(item)

    def _covers(self, handle: Handle) -> bool:
        protocol = self._way.stack.ports.get(handle)
        return protocol is self._owner or bool(
            protocol is not None and getattr(protocol.config, "use_tls", False)
        )

    # --- inputs of the driver

    def incoming(self, item: In) -> None:
        match item:
            case Received(handle, data) if handle in self._talks:
                self._received(handle, self._talks[handle], data)
            case Accepted(listener) if self._covers(listener):
                self._accepted(item)
            case Connected(handle) if handle in self._places:
                assert self._credentials is not None
                session = TlsSession(self._credentials.client, server_side=False)
                self._begin(handle, _Talk(session, self._places.pop(handle), item))
                self._say(handle, session.start())
            case ConnectFailed(handle):
                self._places.pop(handle, None)
                self.inside(item)
            case Writable(handle) if (
                handle in self._talks and self._talks[handle].opening is not None
            ):
                pass  # a handshake is small
            case Closed(handle):
                self._closed(item)
            case Consulted(handle) if handle == self._question:
                self._answered(item)
            case _:
                self.inside(item)

    def _accepted(self, item: Accepted) -> None:
        assert self._credentials is not None
        if sum(1 for handle in self._due if handle < 0) >= self._max_handshakes:
            self._turn_away("handshake_crowd", item.peer)
            self.outside(Close(item.handle, True))
            return
        self.hold(item.handle)
        session = TlsSession(self._credentials.server, server_side=True)
        self._begin(item.handle, _Talk(session, item.peer, item))

    def _begin(self, handle: Handle, talk: _Talk) -> None:
        self._talks[handle] = talk
        self._due[handle] = self._owner.now + self._handshake_timeout
        if not self._late.armed:
            self._late.start_at(self._due[handle])

    def _received(self, handle: Handle, talk: _Talk, data: bytes) -> None:
        try:
            plain = talk.session.receive(data)
        except TlsRefused as refused:
            self._refuse(handle, talk, refused)
            return
        self._say(handle, talk.session.take())
        if talk.opening is not None:
            if not talk.session.established:
                return
            self._let_in(handle, talk)
        if self._talks.get(handle) is not talk:
            return
        if plain:
            self.inside(Received(handle, plain))
        if talk.session.ended and self._talks.get(handle) is talk:
            self._forget(handle)
            self.outside(Close(handle))
            self.inside(Closed(handle, False))

    def _let_in(self, handle: Handle, talk: _Talk) -> None:
        opening, talk.opening = talk.opening, None
        assert opening is not None
        self._due.pop(handle, None)
        self.counts["tls_handshakes"] += 1
        talk.names = talk.session.names()
        self._owner.trace("TLS", peer=_text(talk.peer), version=talk.session.version)
        self.inside(opening)

    def _closed(self, item: Closed) -> None:
        talk = self._forget(item.handle)
        if talk is None or talk.opening is None:
            self.inside(item)
            return
        self.counts["tls_handshakes_lost"] += 1
        self._give_up(item.handle, talk, "closed during the handshake of TLS")

    def _refuse(self, handle: Handle, talk: _Talk, refused: TlsRefused) -> None:
        self._forget(handle)
        self._turn_away(refused.cause, talk.peer, str(refused))
        if refused.cause == "clear":
            self._hint(talk)
        self._say(handle, talk.session.take())  # an alert gives the reason
        self.outside(Close(handle, talk.opening is None))
        if talk.opening is None:
            self.inside(Closed(handle, True))
        else:
            self._give_up(handle, talk, str(refused))

    def _hint(self, talk: _Talk) -> None:
        """Log once why Java members do not reach FD_SOCK2: theirs has no TLS, even if their transport has it."""
        if self._hinted or not isinstance(talk.opening, Accepted):
            return
        protocol = self._way.stack.ports.get(talk.opening.listener)
        if protocol is None or protocol is self._owner:
            return
        self._hinted = True
        self._owner.log.warning(
            '%s was spoken to without TLS; Java members always do: with them, set %s.use_tls="false"',
            protocol.name,
            protocol.name,
        )

    def _give_up(self, handle: Handle, talk: _Talk, problem: str) -> None:
        """Give up a connection whose handshake failed. Protocols do not know of a failed one from outside."""
        if isinstance(talk.opening, Accepted):
            self.drop(handle)
        else:
            self.inside(ConnectFailed(handle, False, f"{_text(talk.peer)}: {problem}"))

    def _on_late(self) -> None:
        now = self._owner.now
        for handle in [handle for handle, due in self._due.items() if due <= now]:
            talk = self._talks.get(handle)
            if talk is not None:
                self._refuse(handle, talk, TlsRefused("handshake_late", ""))
        if self._due:
            self._late.start_at(next(iter(self._due.values())))

    def _forget(self, handle: Handle) -> _Talk | None:
        self._due.pop(handle, None)
        return self._talks.pop(handle, None)

    def _say(self, handle: Handle, data: bytes) -> None:
        if data:
            self.outside(Write(handle, data))

    def _turn_away(self, cause: str, peer: Endpoint, problem: str = "") -> None:
        self._doorkeeper.turn_away(cause, peer)
        self._owner.trace("turned away", cause=cause, source=_text(peer), problem=problem)

    # --- names of speakers

    def may_speak(self, handle: Handle, member: bytes, name: str | None) -> bool:
        """Return whether ``member``, which is known as ``name``, may speak on a connection. If not, count that.

        A member whose name is not known yet may. A side that was not asked for a certificate may, too."""
        talk = self._talks.get(handle)
        if talk is None or not self._check_names or member in talk.speakers:
            return True
        if name is None or (not talk.names and self._settings.client_auth != "NEED"):
            return True
        if not fits(talk.names, self._plain_name(name)):
            self._turn_away("wrong_name", talk.peer, f"{name}: {', '.join(talk.names)}")
            return False
        if len(talk.speakers) < len(self._way.stack.names) + 1:
            talk.speakers[member] = None
        return True

    def has_spoken(self, handle: Handle) -> bool:
        """Return whether a member has spoken on this connection in a name that its certificate has."""
        talk = self._talks.get(handle)
        return talk is None or bool(talk.speakers)

    def _plain_name(self, name: str) -> str:
        """Return a name without RELAY's additions. On a bridge RELAY calls a member ``_A``, in JGroups also
        ``_A:NYC``."""
        if self._way.stack.parent is None:
            return name
        return name.removeprefix("_").partition(":")[0]

    # --- credentials

    def _ask(self) -> None:
        """Ask for credentials, unless that is under way."""
        if self._question:
            return
        known = "" if self._credentials is None else self._credentials.fingerprint
        self._question = self._owner.new_handle()
        request = LoadCredentials(self._settings, known)
        self._owner.open_port(Consult(self._question, request, LOAD_TIMEOUT))

    def _answered(self, item: Consulted) -> None:
        self._owner.forget_port(self._question)
        self._question = 0
        found = item.answer
        problem = item.problem
        if isinstance(found, CredentialsFound):
            problem = self._found(found)
        if problem:
            self._not_found(problem)
        else:
            self._problem = ""
        if self._credentials is not None and self._reload_interval:
            self._reload.start(self._reload_interval)
        waiting, self._waiting = self._waiting, []
        for out in waiting:
            self._go_on(out, problem)

    def _found(self, found: CredentialsFound) -> str:
        """Use the found credentials, and return their fault, if any."""
        credentials = found.credentials
        if credentials is not None:
            name = self._plain_name(self._way.stack.name)
            if self._check_names and not fits(credentials.names, name):
                named = ", ".join(f'"{name}"' for name in credentials.names) or "nobody"
                return (
                    f'the certificate names {named}, and this member is called "{name}" '
                    "(tls.check_names=false takes any name)"
                )
            if self._credentials is not None:
                self.counts["tls_reloads"] += 1
                self._owner.log.info("new certificate, valid until %s", credentials.expires)
                self._owner.trace("certificate reloaded", until=credentials.expires)
                self._warned_at = None
            self._credentials = credentials
        self._warn(found.left)
        return ""

    def _warn(self, left: float) -> None:
        """Log that the certificate will expire soon."""
        now = self._owner.now
        told = self._warned_at
        if left > self._expiry_warning or (told is not None and now - told < WARN_EVERY):
            return
        assert self._credentials is not None
        self._warned_at = now
        event = CertificateExpires(self._credentials.names, self._credentials.expires, left)
        self._owner.log.warning("%s", event)
        self._owner.trace("certificate expires", until=event.until)
        self._owner.machine.soon(partial(self._owner.pass_event_up, event))

    def _not_found(self, problem: str) -> None:
        """Note that the files cannot be used. The former ones stay in use."""
        if self._credentials is None:
            return
        self.counts["tls_reloads_failed"] += 1
        if problem != self._problem:
            self._problem = problem
            self._owner.log.warning("the former certificate is used on: %s", problem)

    def _go_on(self, out: Bind | Connect, problem: str) -> None:
        if self._credentials is not None:
            self.outside(out)
        elif isinstance(out, Bind):
            self.inside(BindFailed(out.handle, f"TLS: {problem}"))
        else:
            self._places.pop(out.handle, None)
            self.inside(ConnectFailed(out.handle, False, f"TLS: {problem}"))

    # --- looking

    def statistics(self) -> dict[str, int]:
        """Return counters and sizes, for the statistics of the owner."""
        return {
            **self.counts,
            "tls_connections": len(self._talks),
            **{f"turned_away_{cause}": n for cause, n in self._doorkeeper.counts.items()},
        }

    def check(self) -> None:
        """Assert the invariants."""
        assert self._due.keys() <= self._talks.keys()
        assert all((t.opening is not None) == (h in self._due) for h, t in self._talks.items())
        assert sum(1 for handle in self._due if handle < 0) <= self._max_handshakes
        assert not self._due or self._late.armed


def _text(peer: Sequence[object]) -> str:
    return f"{peer[0]}:{peer[1]}"
