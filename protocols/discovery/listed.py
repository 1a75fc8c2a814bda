"""Listed: base of discoveries that get the addresses to ask from outside the group.

    FindMembers, FindPhysical     look at the list, unless it is fresh; ask all hosts on it
    the list has come             ask its new hosts
    it has not                    the hosts of the last one have been asked; the search lasts its time
    all on it have refused or     the search ends; if none has answered we are certainly alone
      answered

A list only has addresses to ask. The asked members say who is present and who is coordinator.

Limits:  max_hosts addresses are asked; WAITING_MAX requests wait for a list.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from jgroups_py.protocols.discovery.base import Discovery
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.values.address import IpAddress
from jgroups_py.values.batch import Batch
from jgroups_py.values.events import Event, FindMembers, Unreachable

WARN_EVERY: Final = 60.0
"""Seconds between two lines in the log about a list that does not come."""
FRESH: Final = 0.25
"""Seconds for which a list that has come is used for further requests."""
WAITING_MAX: Final = 20
"""The most requests that wait for a list. Beyond, the oldest is dropped: its search has asked the members that we
know."""


class Listed(Discovery):
    """See the module's docstring. A subclass overrides ``look``, and then calls ``listed`` or ``not_listed``."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Discovery.Config):
        max_hosts: int = 2000
        """Addresses that are asked."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self._at_least(1, "max_hosts")

    config: Config

    def start(self) -> None:
        super().start()
        self._hosts: dict[IpAddress, None] = {}
        """The hosts in the order of the list."""
        self._refused: dict[IpAddress, None] = {}
        self._waiting: list[Batch] = []
        self._looking = False
        self._looked_at: float | None = None
        """The time when the last list came."""
        self._whole = False
        """True if the last list was complete."""
        self._lines = LogLimit(lambda: self.now, interval=WARN_EVERY)
        self.lookups = 0
        self.lookups_failed = 0
        self.dropped_entries = 0
        """Parts of lists that cannot be read."""
        self.dropped_hosts = 0
        """Addresses beyond ``max_hosts``."""

    # --- for subclasses

    def look(self) -> None:
        """Begin to read the list."""
        raise NotImplementedError

    def listed_some(self, hosts: Sequence[IpAddress]) -> None:
        """Take a part of the list, and ask new addresses."""
        before = self._hosts
        self._keep([*before, *(host for host in hosts if _can_be_asked(host))])
        new = [host for host in self._hosts if host not in before]
        for batch in self._waiting:
            self._ask(batch, new)

    def listed(self, hosts: Sequence[IpAddress], *, whole: bool = True) -> None:
        """Take the list. ``whole``: it is complete."""
        before = self._hosts
        self._looking = False
        self._looked_at = self.now
        self._whole = whole
        self._keep(hosts)
        self._refused = {host: None for host in self._refused if host in self._hosts}
        self.trace("listed", hosts=[str(host) for host in self._hosts], whole=whole)
        new = [host for host in self._hosts if host not in before]
        waiting, self._waiting = self._waiting, []
        for batch in waiting:
            self._ask(batch, new)
        self._check_complete()

    def _keep(self, hosts: Sequence[IpAddress]) -> None:
        fit = [host for host in hosts if _can_be_asked(host)]
        self.dropped_entries += len(hosts) - len(fit)
        found = list(dict.fromkeys(host for host in fit if host != self.physical))
        most = self.config.max_hosts
        self.dropped_hosts += max(0, len(found) - most)
        self._hosts = dict.fromkeys(found[:most])

    def not_listed(self, what: str, problem: str) -> None:
        """Go on without a list. ``what``: the request, in words."""
        self._looking = False
        self._whole = False
        self._waiting.clear()
        self.failed_lookup(what, problem)

    def failed_lookup(self, what: str, problem: str) -> None:
        """Count a failed look-up, and log it sparingly."""
        self.lookups_failed += 1
        self.trace("not listed", directory=what, problem=problem)
        if (left_out := self._lines.admit(what)) is not None:
            self.log.warning("%s: %s%s", what, problem, left_out)

    # --- searching

    def send_request(self, batch: Batch) -> None:
        self._ask(batch, self._hosts)
        if self._looked_at is not None and self.now < self._looked_at + FRESH:
            return
        self._waiting.append(batch)
        del self._waiting[:-WAITING_MAX]
        self.look_again()

    def look_again(self) -> None:
        """Read the list, unless it is being read."""
        if not self._looking:
            self._looking = True
            self.lookups += 1
            self.look()

    def _ask(self, batch: Batch, hosts: Sequence[IpAddress] | dict[IpAddress, None]) -> None:
        for host in hosts:
            self.pass_down(replace(batch, dest=host))

    def searching(self, request: FindMembers) -> None:
        self._refused.clear()
        self._check_complete()

    def event_up(self, event: Event) -> None:
        if isinstance(event, Unreachable):
            if event.physical in self._hosts:
                self._refused[event.physical] = None
            self._check_complete()
        super().event_up(event)

    def answer_came(self) -> None:
        self._check_complete()

    def _check_complete(self) -> None:
        if self._looking or not self._whole:
            return
        answered = self.answered()
        if all(host in self._refused or host in answered for host in self._hosts):
            self.complete()

    def check(self) -> None:
        super().check()
        assert len(self._hosts) <= self.config.max_hosts
        assert len(self._waiting) <= WAITING_MAX
        assert self._refused.keys() <= self._hosts.keys()


def _can_be_asked(host: IpAddress) -> bool:
    """Return whether ``host`` is the address of one host, with a port."""
    if host.host is None or host.port == 0:
        return False
    address = ipaddress.ip_address(host.packed_host)
    return not (address.is_multicast or address.is_unspecified or host.host == "255.255.255.255")
