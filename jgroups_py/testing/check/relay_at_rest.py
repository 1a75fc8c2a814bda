"""RELAY's guarantee, and its rest, checked after the faults on the oracle's data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from jgroups_py.testing.check.relay_tables import Origin, SiteTables

PATIENCE: Final = 90.0
"""Longer than any partition or pause of a simulation. If a relay does not acknowledge for this long, the larger side of
its site is not harmed."""


def given_up(
    sites: Mapping[str, SiteTables], origins: Mapping[bytes, Origin]
) -> Iterator[tuple[str, str, int, int]]:
    """Yield (receiver, origin, first, last) of messages announced as lost although RELAY promises them.
    It promises them if all this holds: no buffer overflowed; the origin's site was not split, or none
    of its members has gone (or is cut off for good); the receiver was neither on the smaller side of a
    partition nor beside a group that began anew; no site was promoted; the origin lives, or no more
    holders fell than may."""
    living = [w for site in sites.values() for w in site.living()]
    if any(w.relay.state.epoch[0] for w in living):
        return
    for watched in living:
        patient = watched.relay.config.cut_off_wait >= PATIENCE
        site = watched.site
        if watched.outvoted or site.emptied or (site.disturbed and not patient):
            continue
        for raw, spans in watched.skipped.items():
            origin = origins[raw].watched
            home = origin.site
            excused = 0 if origin in home.living() else home.excused.get(raw, 0)
            for first, last in spans:
                full = home.overflowed or any(w.relay.counters.overflowed for w in home.members)
                fallen = len(home.living()) < len(home.members)
                if not full and not (home.disturbed and fallen) and last > excused:
                    yield watched.name, origin.name, first, last


def unrest(sites: Mapping[str, SiteTables], origins: Mapping[bytes, Origin]) -> str | None:
    """Describe the parts that are not at rest: buffers, relays, sessions, digests. None: all of them are."""
    for site in sites.values():
        living = site.living()
        if not site.is_settled:
            return f"{site.name} is not in one view"
        relays = [w for w in living if w.relay.is_relay]
        if len(relays) != 1:
            return f"{site.name} has {len(relays)} relays"
        status = relays[0].relay.status()
        for other in sites:
            if other != site.name and not status.sessions.get(other):
                return f"{relays[0].name} has no session with {other}"
        alone = len(sites) == 1  # then everything is kept for the first site that comes
        for watched in living:
            if len(watched.relay.buffer) and not alone:
                return f"{watched.name} still buffers {len(watched.relay.buffer)} messages"
        if not relays[0].relay.is_relaying:
            continue
        for raw, number in site.highest(living).items():
            if raw not in relays[0].relay.state.delivered:
                continue  # the origin has departed and is forgotten
            base = relays[0].relay.state.base.get(raw, 0)
            for far in sites.values():
                for watched in far.living() if far is not site else ():
                    if watched.begun and watched.has(raw) < number > base:
                        return (
                            f"{watched.name} has {watched.has(raw)} of {origins[raw].watched.name}, "
                            f"{number} were delivered at home"
                        )
    return None
