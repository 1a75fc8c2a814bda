"""The buddy machine's link to other sites, in a cache whose stack has RELAY, and its view for users.

    machine --> SendSite --> RELAY's post --> the other relay's machine
    RELAY ----> link, post, epoch --> queue of the manager --> machine

RELAY relays the multicasts of applications. A cache's messages are unicasts with NO_RELAY. Changes for other sites
travel as posts, from relay to relay. A post names a site and a path, but no member there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from jgroups_py.buddy.codec import encode_site
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.site_messages import AnySiteMessage
from jgroups_py.cache.buddy_wire import site_message_of
from jgroups_py.cache.fqn import Fqn
from jgroups_py.errors import CacheRefused, ConfigError, RemoteProtocolError

if TYPE_CHECKING:
    from jgroups_py.buddy.machine import BuddyMachine
    from jgroups_py.channel.relay import RelayControl


@dataclass(frozen=True, slots=True)
class SiteLink:
    """A link to a site begins, or has ended."""

    site: str
    up: bool


@dataclass(frozen=True, slots=True)
class Post:
    """A message from the relay of another site."""

    site: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Epoch:
    """A site was promoted."""

    number: int
    site: str


FromRelay = SiteLink | Post | Epoch


@dataclass(frozen=True, slots=True)
class SitesStatus:
    """``reachable``: sites to which the relay of this site has a link. ``out_of_sync``: sites that lack removals, until they
    are reconciled. ``under_way``: by site, the bootstrap, reconciliation or repair."""

    site: str
    others: tuple[str, ...]
    epoch: int
    reachable: tuple[str, ...]
    out_of_sync: tuple[str, ...]
    under_way: Mapping[str, str]


class CacheSites:
    """The other sites, for a member of a cache with buddies. ``hear`` puts RELAY's items into the queue of the manager.
    ``settled`` runs after each call of the machine."""

    def __init__(
        self,
        relay: RelayControl,
        hear: Callable[[FromRelay], None],
        settled: Callable[[], None],
    ) -> None:
        self._relay = relay
        self._hear = hear
        self._settled = settled
        self.machine: BuddyMachine
        self.garbage = 0
        relay.listen(self)

    # --- for users

    @property
    def status(self) -> SitesStatus:
        """Return this member's knowledge of the sites."""
        machine = self.machine
        known = machine.known
        return SitesStatus(
            site=machine.config.site,
            others=machine.config.sites,
            epoch=known.epoch,
            reachable=tuple(known.up),
            out_of_sync=tuple(known.out_of_sync),
            under_way={walk.site: walk.kind for walk in known.walks},
        )

    def unsent(self, site: str, *, backups: bool = False) -> Mapping[Fqn, int]:
        """Return the nodes whose value or removal ``site`` has not acknowledged, with the event's number. Includes
        nodes being handed over and unadopted nodes of departed members. The lists of all members together name the
        nodes that ``site`` lacks if this site is lost now. See "Across sites" in design/buddy-replication.md.

        Args:
            backups: include nodes that are kept here for other members. They stand in for a crashed member that is
                still in the view. Holders learn of acknowledgements up to a second late.
        """
        self._check(site)
        missing = self.machine.missing(site, backups=backups)
        return {Fqn(path): n for path, n in missing.items()}

    def promote(self) -> None:
        """Make this site the first one: later writes here outrank all earlier writes elsewhere. RELAY's direction
        turns, too. This returns at once; ``status.epoch`` rises at all members. With several other sites, the living
        ones compare their nodes and send each other missing ones.

        Raises:
            LocalProtocolError: this member has no view yet.
        """
        if self._relay.active:
            self.machine.promote(trio.current_time())
            self._settled()
        else:
            self._relay.promote()

    def bootstrap(self, site: str) -> None:
        """Send all nodes of this site to ``site``, which begins empty. This returns at once. ``status.under_way``
        names the bootstrap until the last acknowledgement."""
        self._check(site)
        self.machine.bootstrap(site, trio.current_time())
        self._settled()

    def _check(self, site: str) -> None:
        if site not in self.machine.config.sites:
            raise CacheRefused(f"no other site is called {site!r}: {self.machine.config.sites}")

    # --- called by RELAY (PostListener)

    def site_link(self, site: str, up: bool) -> None:
        self._hear(SiteLink(site, up))

    def site_post(self, site: str, payload: bytes) -> None:
        self._hear(Post(site, payload))

    def site_epoch(self, number: int, site: str) -> None:
        self._hear(Epoch(number, site))

    # --- called by the manager

    def post(self, site: str, message: AnySiteMessage) -> None:
        """Post a message. If it cannot be sent now, the machine sends it again."""
        self._relay.post(site, encode_site(message))

    def take(self, item: FromRelay) -> None:
        """Hand an item from RELAY to the machine. RemoteProtocolError: the item is no message, and nothing was done."""
        machine, now = self.machine, trio.current_time()
        match item:
            case SiteLink(site, up):
                machine.link(site, up, now)
            case Epoch():
                self.look()
            case Post(site, payload):
                try:
                    message = site_message_of(payload)
                except RemoteProtocolError:
                    self.garbage += 1
                    raise
                machine.receive_site(site, message, now)

    def look(self) -> None:
        """Tell the machine of a promotion that only RELAY knows. A joiner's machine has missed earlier ones."""
        number, site = self._relay.epoch
        machine = self.machine
        if site == machine.config.site and number > machine.known.epoch and machine.members:
            machine.promote(trio.current_time(), number)


def config_with_sites(config: BuddyConfig, relay: RelayControl, source: str) -> BuddyConfig:
    """Return the settings with the sites of the stack. ConfigError: the stack names no other sites."""
    if not relay.sites:
        raise ConfigError(
            "RELAY names no other site: a cache must know them all (RELAY sites=...)",
            file=source,
            where="stack",
        )
    return replace(config, site=relay.site, sites=relay.sites)
