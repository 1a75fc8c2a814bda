"""SEAL: every whole packet of the stack is encrypted and authenticated, with a key that all members have.

Place: directly above the transport. It seals the packets of all protocols of the stack: messages with their headers,
discovery, the connections of TCP and FD_SOCK2, and RELAY's bridge if its stack has SEAL, too.

    all packets, out and in             pass a door (door.py): datagrams.py, streams.py
    every reload_interval               the key ring is read again, if its file has changed

A packet is dropped and counted by its cause if it is in clear, under a key that this member lacks, altered, or a
repetition. A recording does not get into a member that has just started: a sender proves its presence before its first
packet goes in (senders.py).

Source:  our own; design/seal.md.
Differs: JGroups has no such protocol. Members that have it and others are not in one group.
Limits: ``max_senders``, ``max_pending``, ``max_held``, ``replay_window``, ``max_handshakes``, ``handshake_timeout``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jgroups_py.config.private_file import PrivateFile, Stamp, read_private
from jgroups_py.config.settings import Seconds, Secret
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.seal.datagrams import DatagramLimits
from jgroups_py.protocols.seal.door import SealDoor
from jgroups_py.protocols.seal.ring import RING_SIZE_MAX, Ring, parse_ring
from jgroups_py.protocols.seal.wire import SUITES
from jgroups_py.stack.directories import ReadPrivate
from jgroups_py.stack.exposure import DISCOVERY, FAILURES, HEADERS, MESSAGES
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.ports import Consult, Consulted, In
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.services import TRANSPORT
from jgroups_py.values.events import Event, TransportReady

READ_TIMEOUT = 5.0
"""Seconds in which the key ring must be read again."""
COMPLAIN_INTERVAL = 60.0
"""Seconds between two lines of the log about a key ring that cannot be used."""


class SEAL(Protocol):
    """See the module's docstring."""

    needs_below = (TRANSPORT,)
    turns_away: ClassVar[Mapping[str, str]] = {
        "unsealed": "came in clear, or is nothing that a member sends",
        "malformed": "is no packet of SEAL, or no member would send it now",
        "other_version": "is of another version of SEAL",
        "unknown_key": "was made with a key that this member has not got",
        "retired_key": "its connection began with a key that was taken out of the ring",
        "altered": "is forged, was altered, or is of another cluster",
        "replayed": "has come before; networks double packets, too",
        "late": "is older than the window of counters reaches",
        "stale": "was sent before this member could have known its sender",
        "unproved": "its sender does not answer, so it may be a recording",
        "too_many_senders": "has no place in the table of senders",
        "too_many_handshakes": "made room for a newer connection before its peer had proved itself",
        "handshake_late": "the peer has not proved itself in time",
    }

    @classmethod
    def protects(cls, config: Any) -> Mapping[str, str]:
        kinds = (MESSAGES, HEADERS, DISCOVERY, FAILURES)
        return dict.fromkeys(kinds, str(config.cipher))

    @dataclass(frozen=True, kw_only=True)
    class Config(Protocol.Config):
        """Attributes of the protocol."""

        key_file: str = ""
        """Path of the key ring (``jgroups-py keys new``). Only its owner may read it."""
        keys: Secret = field(default="", repr=False)
        """The lines of a key ring, in place of a file, with ``;`` between them. Better a variable than a text in the
        file. They do not change while the member runs."""
        cipher: str = "AES-256-GCM"
        """The cipher of this member: AES-256-GCM or ChaCha20-Poly1305. It reads both."""
        reload_interval: Seconds = 5.0
        """The time after which the key ring is read again, if its file has changed. 0: never."""
        freshness: Seconds = 5.0
        """Older packets are dropped when their sender is new to this member."""
        max_senders: int = 2000
        """Senders of datagrams whose counters are remembered. Each start of a member is a sender."""
        max_pending: int = 100
        """Senders of datagrams that have yet to prove their presence."""
        max_held: int = 64
        """Datagrams of each such sender that are kept until then."""
        replay_window: int = 4096
        """The number of newer datagrams of a sender, whatever their receivers, that may come before a delayed one."""
        max_handshakes: int = 100
        """Connections whose peers have yet to prove themselves. The oldest makes room."""
        handshake_timeout: Seconds = 2.0
        """The longest time in which a peer must prove itself."""

        def __post_init__(self) -> None:
            if self.cipher not in SUITES:
                raise ConfigError(f'cipher must be {" or ".join(SUITES)}, got "{self.cipher}"')
            self._at_least(0, "reload_interval")
            self._above(0, "handshake_timeout")
            if not 0 < self.freshness <= 30:
                raise ConfigError(f"freshness must be > 0 and <= 30 s, got {self.freshness}")
            self._at_least(1, "max_senders", "max_pending", "max_held", "max_handshakes")
            self._at_least(64, "replay_window")
            if self.key_file and self.keys:
                raise ConfigError("key_file and keys are both given; one of them must be empty")
            if self.keys:
                self.ring()

        def verify(self) -> None:
            self.ring()

        def ring(self) -> tuple[Ring, Stamp | None]:
            """Read the key ring, and the stamp of its file.

            Raises:
                ConfigError: the ring cannot be used. The error contains no part of a key.
            """
            try:
                if self.keys:
                    return parse_ring(self.keys.replace(";", "\n").encode(), "keys"), None
                if not self.key_file:
                    raise ConfigError(
                        "is not given; it must name a key ring (jgroups-py keys new FILE makes one), or keys must "
                        "hold its lines"
                    )
                found = read_private(self.key_file, RING_SIZE_MAX)
                assert found is not None
                return parse_ring(found.data, self.key_file), found.stamp
            except ConfigError as error:
                raise ConfigError(str(error) if self.keys else f"key_file: {error}") from None

    config: Config

    def start(self) -> None:
        config = self.config
        ring, self._stamp = config.ring()
        limits = DatagramLimits(
            config.max_senders,
            config.max_pending,
            config.max_held,
            config.replay_window,
            config.freshness,
        )
        self._look = self.timer(self._on_look)
        self._reload = self.timer(self._on_reload)
        self._complaints = LogLimit(lambda: self.now, interval=COMPLAIN_INTERVAL)
        self.keys_in_ring = len(ring.keys)
        self.ring_reloads = 0
        self.ring_problems = 0
        self.door = SealDoor(
            self,
            ring,
            SUITES[config.cipher],
            limits,
            config.max_handshakes,
            config.handshake_timeout,
            self._wake,
        )
        self.stack.install(self.door)

    def stop(self) -> None:
        self._look.cancel()
        self._reload.cancel()

    # --- due work

    def _wake(self, at: float) -> None:
        if self._look.deadline is None or at < self._look.deadline:
            self._look.start_at(at)

    def _on_look(self) -> None:
        self.door.look_again()

    # --- the key ring

    def event_up(self, event: Event) -> None:
        if isinstance(event, TransportReady) and not self._reload.armed:
            self._read_later()
        self.pass_event_up(event)

    def _read_later(self) -> None:
        if self.config.key_file and self.config.reload_interval:
            self._reload.start(self.config.reload_interval)

    def _on_reload(self) -> None:
        request = ReadPrivate(self.config.key_file, RING_SIZE_MAX, self._stamp)
        self.open_port(Consult(self.new_handle(), request, READ_TIMEOUT))

    def on_input(self, item: In) -> None:
        assert isinstance(item, Consulted)
        self.forget_port(item.handle)
        self._read_later()
        found = item.answer
        if item.problem:
            self._keep_ring(item.problem)
        elif isinstance(found, PrivateFile):
            self._stamp = found.stamp
            try:
                self.take_ring(parse_ring(found.data, self.config.key_file))
            except ConfigError as error:
                self._keep_ring(str(error))

    def _keep_ring(self, problem: str) -> None:
        self.ring_problems += 1
        left_out = self._complaints.admit("ring")
        if left_out is not None:
            self.log.error("the key ring stays as it is: %s%s", problem, left_out)

    def take_ring(self, ring: Ring) -> None:
        """Use another ring from now on. Connections change their keys as they run."""
        self.ring_reloads += 1
        self.keys_in_ring = len(ring.keys)
        ids = [key.id.hex() for key in ring.keys]
        self.log.info("key %s writes; keys that read: %s", ids[0], ", ".join(ids))
        self.trace("key ring", writes=ids[0], keys=len(ids))
        self.door.take_ring(ring)

    # --- looking

    def statistics(self) -> dict[str, int | float]:
        door, datagrams = self.door, self.door.datagrams
        return {
            **super().statistics(),
            "datagrams_sealed": datagrams.sealed,
            "datagrams_opened": datagrams.opened,
            "datagrams_own": datagrams.own,
            "dropped_held": datagrams.dropped_held,
            "dropped_too_large": datagrams.dropped_too_large,
            "challenges_sent": datagrams.challenges_sent,
            "answers_sent": datagrams.answers_sent,
            "answers_held_back": datagrams.answers_held_back,
            "senders_known": len(datagrams.senders.known),
            "senders_pending": len(datagrams.senders.pending),
            "connections_sealed": door.connections_sealed,
            "connections_open": door.connections,
            "keys_changed": door.keys_changed,
        }

    def check(self) -> None:
        self.door.check()
