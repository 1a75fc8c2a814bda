"""Diagnostics: a transport answers probes, those of JGroups' Probe and of ``jgroups-py probe``.

Place: a part of TP. It is off unless ``diag.enabled``.

    diag.enable_udp     hear requests at diag.mcast_addr:diag.port, answer each from a socket of its own
    diag.enable_tcp     listen on the first free port of diag.port .. diag.port + diag.port_range; one request a connection

    request from elsewhere          refused unless diag.allow_remote, which needs diag.passcode
    request without the passcode    refused if there is one
    change of a setting             refused if there is no passcode

A refused request gets no answer. The refusal is counted by cause (``turned_away["PROBE.bad_passcode"]``).

Its sockets do not pass the door of the stack (SEAL, TLS), because a probe that speaks JGroups' protocol has no key.

Source:  JGroups DiagnosticsHandler.java.
Differs: off by default, and only for this machine. The address of TCP is loopback by default. A port that cannot be opened is
         logged, and the member continues without it. No regular expressions for clusters (wire/probe.py).
Limits:  REQUEST_MAX bytes a request; CONNECTIONS_MAX connections, REQUEST_TIMEOUT for each; DATAGRAM_MAX and ANSWER_MAX
         bytes an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.errors import ConfigError, RemoteProtocolError
from jgroups_py.protocols.transport.probe_answers import ProbeAnswers
from jgroups_py.stack.doorkeeper import Doorkeeper, text_of
from jgroups_py.stack.exposure import (
    DIAGNOSTICS,
    PortUse,
    TransportPlace,
    is_loopback,
    is_multicast,
)
from jgroups_py.stack.machine import Timer
from jgroups_py.stack.ports import (
    Accepted,
    Bind,
    BindFailed,
    Bound,
    Close,
    Closed,
    Datagram,
    Endpoint,
    Handle,
    In,
    JoinGroup,
    Received,
    SendTo,
    Write,
)
from jgroups_py.stack.sides import StackSide
from jgroups_py.wire import probe

BY: Final = "PROBE"
"""The name under which refused requests are counted and logged."""
CONNECTIONS_MAX: Final = 8
"""Connections at the same time. Further ones are closed."""
REQUEST_TIMEOUT: Final = 5.0
"""Seconds in which a request must be complete."""
DATAGRAM_MAX: Final = 60_000
"""Bytes of an answer over UDP."""
ANSWER_MAX: Final = 1_000_000
"""Bytes of an answer over TCP."""
PROBE_CAUSES: Final[Mapping[str, str]] = {
    "remote": "a probe from another machine, and diag.allow_remote is off",
    "bad_passcode": "a probe without the passcode",
    "read_only": "a probe that would change something, and diag.passcode is not set",
    "malformed": "a probe that is no request",
    "too_many_connections": "probes over more connections than there may be",
    "too_slow": "a probe whose request did not come in time",
}


@dataclass(frozen=True, slots=True)
class DiagnosticsSettings:
    """The ``diag.*`` attributes of a transport; see TP.Config."""

    enable_udp: bool
    enable_tcp: bool
    mcast_addr: str
    port: int
    port_range: int
    bind_addr: str
    allow_remote: bool
    passcode: str

    def __repr__(self) -> str:
        return "DiagnosticsSettings(...)"  # the passcode stays secret

    def host(self, transport: str) -> str:
        """Return the address of its sockets, for a transport that is bound to ``transport``."""
        if self.bind_addr:
            return self.bind_addr
        if self.allow_remote:
            return transport
        return "::1" if ":" in transport else "127.0.0.1"

    def group(self, transport: str) -> Endpoint:
        """Return where requests over UDP are sent to."""
        default = probe.GROUP_IPV6 if ":" in self.host(transport) else probe.GROUP
        return self.mcast_addr or default, self.port


def settings_from(config: Any) -> DiagnosticsSettings | None:
    """Return the settings of a TP.Config. None: diagnostics are off.

    Raises:
        ConfigError: the settings do not fit together.
    """
    if not config.diag_enabled:
        return None
    found = DiagnosticsSettings(
        config.diag_enable_udp,
        config.diag_enable_tcp,
        config.diag_mcast_addr,
        config.diag_port,
        config.diag_port_range,
        config.diag_bind_addr,
        config.diag_allow_remote,
        config.diag_passcode,
    )
    if not (found.enable_udp or found.enable_tcp):
        raise ConfigError("diag.enable_udp or diag.enable_tcp must be true where diag.enabled is")
    if found.enable_udp and not found.port:
        raise ConfigError("diag.port must be within 1..65535 with diag.enable_udp, got 0")
    if found.mcast_addr and not is_multicast(found.mcast_addr):
        raise ConfigError(
            f'diag.mcast_addr must be a multicast address such as {probe.GROUP}, got "{found.mcast_addr}"'
        )
    if found.allow_remote and not found.passcode:
        raise ConfigError("diag.allow_remote needs diag.passcode, got none")
    if found.bind_addr and not found.allow_remote and not is_loopback(found.bind_addr):
        raise ConfigError(
            f"diag.bind_addr must be an address of this machine alone unless diag.allow_remote is true, "
            f'got "{found.bind_addr}"'
        )
    return found


def probe_ports(config: Any, place: TransportPlace) -> list[PortUse]:
    """Return the ports of diagnostics, for ``port_uses`` of a transport."""
    settings = settings_from(config)
    if settings is None:
        return []
    host = settings.host(place.host)
    uses = []
    if settings.enable_udp:
        group, port = settings.group(place.host)
        uses.append(PortUse("udp", "in", port, port, host, group, (DIAGNOSTICS,), "probes"))
    if settings.enable_tcp:
        first = settings.port
        last = min(first + settings.port_range, 65535) if first else 0
        setting = "" if first else "diag.port"
        uses.append(
            PortUse("tcp", "in", first, last, host, host, (DIAGNOSTICS,), "probes", setting)
        )
    return uses


class _Refused(Exception):
    """A request is not answered; ``cause`` is one of PROBE_CAUSES."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class _Client:
    """One connection whose request is not complete."""

    __slots__ = ("due", "incoming", "peer")

    def __init__(self, peer: Endpoint, due: float, head_size: int) -> None:
        self.peer = peer
        self.due = due
        self.incoming = probe.ProbeInput(head_size)


class Diagnostics:
    """See the module's docstring. To the machine it stands for its transport.

    ``transport`` gives its machine, its stack and its log. ``host``: where the transport is bound.
    """

    def __init__(
        self, transport: Any, settings: DiagnosticsSettings, host: str, answers: ProbeAnswers
    ) -> None:
        self.name = transport.name
        self.stack: StackSide = transport.stack
        self._machine = transport.machine
        self._log = transport.log
        self._trace = transport.trace
        self._settings = settings
        self._host = host
        self._answers = answers
        self._head_size = probe.HEAD_SIZE if settings.passcode else 0
        self._group: Handle = 0
        self._sender: Handle = 0
        self._listener: Handle = 0
        self._clients: dict[Handle, _Client] = {}
        self._timer: Timer = self._machine.timer(self._on_too_slow, "_on_too_slow", transport)
        self._doorkeeper = Doorkeeper(BY, self._machine, self._log, PROBE_CAUSES, owner=transport)
        self.answered = 0

    def open(self) -> None:
        """Open its sockets. A second call does nothing."""
        if self._group or self._listener:
            return
        settings, machine = self._settings, self._machine
        host = settings.host(self._host)
        if settings.enable_udp:
            self._sender, self._group = machine.new_handle(), machine.new_handle()
            machine.open(self, Bind(self._sender, "udp", host, 0))
            machine.open(self, JoinGroup(self._group, settings.group(self._host), host))
        if settings.enable_tcp:
            self._listener = machine.new_handle()
            range_ = settings.port_range if settings.port else 0
            machine.open(self, Bind(self._listener, "tcp", host, settings.port, range_))

    def close(self) -> None:
        """Close its sockets."""
        for handle in (self._group, self._sender, self._listener, *self._clients):
            if handle:
                self._machine.unroute(handle)
                self._machine.put(Close(handle))
        self._clients.clear()
        self._group = self._sender = self._listener = 0

    def check(self) -> None:
        """Assert its invariants."""
        assert len(self._clients) <= CONNECTIONS_MAX

    # --- events of its handles

    def on_input(self, item: In) -> None:
        match item:
            case Datagram(_, data, source):
                answer = self._answered(data, source, DATAGRAM_MAX)
                if answer is not None:
                    self._machine.put(SendTo(self._sender, answer, source))
            case Accepted(_, handle, peer):
                self._on_accepted(handle, peer)
            case Received(handle, data):
                self._on_received(handle, data)
            case Closed(handle, _):
                self._machine.unroute(handle)
                self._clients.pop(handle, None)
            case Bound(_, local):
                self._log.debug("probes are answered at %s:%d", *local)
            case BindFailed(handle, problem):
                self._on_bind_failed(handle, problem)

    def _on_bind_failed(self, handle: Handle, problem: str) -> None:
        self._machine.unroute(handle)
        self._log.warning("probes are not answered: %s", problem)
        if handle == self._listener:
            self._listener = 0
        elif handle == self._group:
            self._group = 0

    def _on_accepted(self, handle: Handle, peer: Endpoint) -> None:
        if len(self._clients) >= CONNECTIONS_MAX:
            self._refuse("too_many_connections", peer)
            self._machine.put(Close(handle, True))
            return
        due = self._machine.now + REQUEST_TIMEOUT
        self._clients[handle] = _Client(peer, due, self._head_size)
        self._machine.route(handle, self)
        if not self._timer.armed:
            self._timer.start_at(due)

    def _on_received(self, handle: Handle, data: bytes) -> None:
        client = self._clients[handle]
        try:
            request = client.incoming.feed(data)
        except RemoteProtocolError:
            self._refuse("malformed", client.peer)
            self._end(handle, abort=True)
            return
        if request is None:
            return
        answer = self._answered(request, client.peer, ANSWER_MAX)
        if answer is not None:
            self._machine.put(Write(handle, answer))
        self._end(handle, abort=answer is None)

    def _end(self, handle: Handle, *, abort: bool) -> None:
        del self._clients[handle]
        self._machine.unroute(handle)
        self._machine.put(Close(handle, abort))

    def _on_too_slow(self) -> None:
        now = self._machine.now
        for handle, client in list(self._clients.items()):
            if client.due <= now:
                self._refuse("too_slow", client.peer)
                self._end(handle, abort=True)
        if self._clients:
            self._timer.start_at(min(client.due for client in self._clients.values()))

    # --- requests

    def _answered(self, data: bytes, source: Endpoint, most: int) -> bytes | None:
        """Return the answer to a request. None: it was refused, or is meant for others."""
        try:
            request = self._admitted(data, source)
            if not request.is_for(self.stack.cluster):
                return None
            may_write = bool(self._settings.passcode)
            values = self._answers.values(request.words, may_write=may_write)
        except PermissionError:
            self._refuse("read_only", source)
        except _Refused as refused:
            self._refuse(refused.cause, source)
        else:
            self.answered += 1
            self._trace("probed", source=text_of(source), words=len(request.words))
            head = self._answers.head(detailed=not request.words)
            return probe.encode_answer(head, values, most)
        return None

    def _admitted(self, data: bytes, source: Endpoint) -> probe.ProbeRequest:
        """Return the words of a request that is allowed."""
        settings = self._settings
        if not settings.allow_remote and not is_loopback(source[0]):
            raise _Refused("remote")
        if settings.passcode:
            if not probe.authentic(data, settings.passcode):
                raise _Refused("bad_passcode")
            data = data[probe.HEAD_SIZE :]
        try:
            return probe.decode_words(data)
        except RemoteProtocolError:
            raise _Refused("malformed") from None

    def _refuse(self, cause: str, source: Endpoint) -> None:
        self._doorkeeper.turn_away(cause, source)
        self._trace("turned away", cause=cause, source=text_of(source))
