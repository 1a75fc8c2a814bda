"""The settings of RELAY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jgroups_py.config.settings import Bytes, Seconds, StackConfig, load_stack
from jgroups_py.errors import ConfigError
from jgroups_py.protocols.relay.state import ALL
from jgroups_py.stack.protocol import Protocol


@dataclass(frozen=True, kw_only=True)
class RelayConfig(Protocol.Config):
    """Settings of RELAY. See its module."""

    site: str
    """The name of this site."""
    bridge: str
    """Stack file of the global cluster."""
    bridge_cluster: str = "global"
    """Its name."""
    bridge_attributes: str = ""
    """Attributes of the bridge stack that differ from its file: ``TCP.bind_port=7950;...``"""
    bridge_properties: str = ""
    """Values for ``${name}`` in the bridge's file: ``name=value;...``"""
    sites: tuple[str, ...] = ()
    """All sites, this one among them, that must acknowledge from the start on; others are refused on the
    bridge. Empty: those that appear."""
    primary: str = ""
    """The site that relays to the others, the same at every member of every site; ``all``: every
    site relays. Empty: the first of ``sites``, or ``all`` where none are named. Other sites do not
    relay: what is sent there stays there. Each member logs at its start which site is primary."""
    buffering_members: int = 3
    """The relay and the next in line that keep what is not acknowledged. One crash less than this
    between two moments of "holders complete" loses nothing; each costs a copy of the tail."""
    max_messages: int = 200_000
    """Messages a buffer holds at most."""
    max_bytes: Bytes = 100_000_000
    """Bytes a buffer holds at most in memory (64 a message beside the payload, 280 a run)."""
    max_age: Seconds = 600.0
    """How long a message is held at most; 0: without limit."""
    overflow: Literal["drop_oldest", "block", "spill"] = "drop_oldest"
    """A full buffer: lose the oldest (the sites are then out of sync), let senders wait, or
    write to a file."""
    block_credits: Bytes = 2_000_000
    """Bytes that a member may have under way when senders must wait: flow control's ``max_credits``."""
    spill_dir: str = ""
    """Directory of the spill file; empty: the system's for temporary files."""
    max_spill: Bytes = 1_000_000_000
    """Size of the spill file."""
    ack_every: int = 1000
    """Messages after which a member reports to its relay at once."""
    ack_interval: Seconds = 0.1
    """Time after which it does so anyway; also of acknowledgements and trims."""
    relay_when: Literal["received", "stable"] = "received"
    """``stable``: relay only what all members of the site have. Later, but no other site ever has
    what nobody at home has."""
    leave_timeout: Seconds = 5.0
    """How long a relay that leaves waits for acknowledgements."""
    gap_wait: Seconds = 15.0
    """How long a number must be missing before it is given up. Longer than the longest time a
    merge takes."""
    cut_off_wait: Seconds = 120.0
    """How long a relay that has lost as many members as are left, and cannot know that they are dead,
    acknowledges nothing. Longer than partitions inside a site last; the other sites' buffers
    hold as much."""
    max_origins: int = 10_000
    """Origins known above which a warning is logged."""
    join_queue: int = 20_000
    """Messages kept by a joiner that does not know yet where to begin."""
    chunk_bytes: Bytes = 100_000
    """Largest run sent to another site."""
    fetch_bytes: Bytes = 1_000_000
    """Most sent to a collecting member before it asks again."""
    post_bytes: Bytes = 16_000_000
    """Posts of blocks on top (a cache's events) that may wait for the bridge's flow control, for each
    site; more are dropped, and the block sends them again."""
    retry_interval: Seconds = 1.0
    """After this long an unanswered question is asked again."""

    def __post_init__(self) -> None:
        if not self.site or self.site == ALL:
            raise ConfigError(f'site must be a name other than "{ALL}"')
        if not self.site.isprintable():
            raise ConfigError(f"site must be printable text, got {self.site!r}")
        self._at_least(1, "buffering_members", "max_messages", "max_bytes", "max_origins")
        self._at_least(1, "chunk_bytes", "fetch_bytes", "post_bytes", "block_credits", "ack_every")
        self._at_least(0, "max_age", "max_spill", "join_queue")
        self._at_least(0, "leave_timeout", "gap_wait", "cut_off_wait")
        self._above(0, "ack_interval", "retry_interval")
        self._named()
        pairs(self.bridge_attributes, "bridge_attributes")
        pairs(self.bridge_properties, "bridge_properties")

    def _named(self) -> None:
        """A site that is not there cannot relay: a mistyped name would end all relaying, unnoticed."""
        sites = ", ".join(self.sites)
        if self.sites and self.site not in self.sites:
            raise ConfigError(f'site "{self.site}" is not among sites ({sites})')
        if self.sites and self.primary not in ("", ALL, *self.sites):
            raise ConfigError(
                f'primary "{self.primary}" is not among sites ({sites});'
                f' one of them, or "{ALL}": every site relays'
            )

    @property
    def first_primary(self) -> str:
        return self.primary or (self.sites[0] if self.sites else ALL)


def pairs(text: str, name: str) -> dict[str, str]:
    """``a=b;c=d`` as a dict.

    Raises:
        ConfigError: something else.
    """
    out = {}
    for part in text.split(";"):
        if part.strip():
            key, equals, value = part.partition("=")
            if not equals:
                raise ConfigError(
                    f'{name}: not key=value: "{part.strip()}" (pairs, separated by ;)'
                )
            out[key.strip()] = value.strip()
    return out


def bridge_stack(
    built: Sequence[tuple[type[Any], Any]],
    properties: Mapping[str, str],
    *,
    compat: str | None = None,
    beside: Path | None = None,
) -> StackConfig | None:
    """Return the stack of the bridge, as RELAY of the stack ``built`` opens it. None: there is no RELAY.

    Raises:
        ConfigError: the bridge's file or its overrides are wrong.
    """
    relay = next((config for _, config in built if isinstance(config, RelayConfig)), None)
    if relay is None:
        return None
    given = pairs(relay.bridge_attributes, "bridge_attributes")
    values = {**properties, **pairs(relay.bridge_properties, "bridge_properties")}
    return load_stack(relay.bridge, values, given, compat=compat, beside=beside)
