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
    """The name of the global cluster."""
    bridge_attributes: str = ""
    """Attributes of the bridge stack that differ from its file: ``TCP.bind_port=7950;...``"""
    bridge_properties: str = ""
    """Values for ``${name}`` in the bridge's file: ``name=value;...``"""
    sites: tuple[str, ...] = ()
    """All sites, including this site. They must acknowledge from the start; other sites are refused on the bridge. Empty:
    all sites that appear."""
    primary: str = ""
    """The site that relays to the others, the same at every member of every site; ``all``: every
    site relays. Empty: the first of ``sites``, or ``all`` where none are named. Other sites do not relay: their
    multicasts stay there. Each member logs the primary site at its start."""
    buffering_members: int = 3
    """Members that keep unacknowledged messages: the relay and the next in line. One crash less than this, between two
    moments of "holders complete", loses no message. Each holder costs a copy of the tail."""
    max_messages: int = 200_000
    """The most messages that a buffer holds."""
    max_bytes: Bytes = 100_000_000
    """The most bytes that a buffer holds in memory (64 a message beside the payload, 280 a run)."""
    max_age: Seconds = 600.0
    """The longest time for which a message is held; 0: without limit."""
    overflow: Literal["drop_oldest", "block", "spill"] = "drop_oldest"
    """A full buffer: lose the oldest (the sites are then out of sync), let senders wait, or
    write to a file."""
    block_credits: Bytes = 2_000_000
    """Bytes that a member may have sent when senders must wait: flow control's ``max_credits``."""
    spill_dir: str = ""
    """Directory of the spill file. Empty: the system's directory for temporary files."""
    max_spill: Bytes = 1_000_000_000
    """Size of the spill file."""
    ack_every: int = 1000
    """Messages after which a member reports to its relay at once."""
    ack_interval: Seconds = 0.1
    """Time after which a member reports anyway. Acknowledgements and trims use it, too."""
    relay_when: Literal["received", "stable"] = "received"
    """``stable``: relay only messages that all members of the site have. That is later, but no other site ever has a
    message that its home site has lost."""
    leave_timeout: Seconds = 5.0
    """The longest time that a leaving relay waits for acknowledgements."""
    gap_wait: Seconds = 15.0
    """Time after which a missing number is given up. It must be longer than any merge takes."""
    cut_off_wait: Seconds = 120.0
    """Time for which a relay acknowledges nothing after it has lost at least half of its site without knowing whether
    they are dead. It must be longer than partitions inside a site last; the other sites' buffers must hold as much."""
    max_origins: int = 10_000
    """The number of known origins above which a warning is logged."""
    join_queue: int = 20_000
    """Messages that a joiner keeps until it knows where to begin."""
    chunk_bytes: Bytes = 100_000
    """The largest run that is sent to another site."""
    fetch_bytes: Bytes = 1_000_000
    """The most bytes sent to a collecting member before it asks again."""
    post_bytes: Bytes = 16_000_000
    """Bytes of posts (a cache's events) that may wait for the bridge's flow control, for each site. More are dropped,
    and the block on top sends them again."""
    retry_interval: Seconds = 1.0
    """The time after which an unanswered question is asked again."""

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
        """Check the names: a mistyped primary would silently end all relaying."""
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
    """Return ``a=b;c=d`` as a dict.

    Raises:
        ConfigError: the text has another form.
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
