"""The options of one call, which replace those of the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from jgroups_py.errors import CacheRefused


@dataclass(frozen=True, slots=True)
class Options:
    """Options of one call. ``None``: as configured."""

    gravitation: bool | None = None
    """May a miss move the data from another member to this one? (autoDataGravitation)"""
    new: bool = False
    """The caller knows that no member has these paths (random ids), so there is no search, also not in a store. If that
    is wrong, two members own them."""
    sync: bool | None = None
    """True: return when the other members have the change. False: return at once. (cacheMode)"""
    local_only: bool = False
    """Neither replicate nor search: use this member's copy only."""
    lock_timeout: float | None = None
    """Seconds to wait for other calls on the same paths (lockAcquisitionTimeout)."""


class CallOptions(TypedDict, total=False):
    """``Options`` as keyword arguments of the calls."""

    gravitation: bool | None
    new: bool
    sync: bool | None
    local_only: bool
    lock_timeout: float | None


DEFAULT = Options()


def options_of(given: CallOptions) -> Options:
    """Make the options of a call. CacheRefused: options contradict each other or do not exist."""
    if not given:
        return DEFAULT
    try:
        options = Options(**given)
    except TypeError:
        known = ", ".join(CallOptions.__annotations__)
        raise CacheRefused(f"options are {known}; got {', '.join(given)}") from None
    if options.local_only and (options.gravitation or options.sync):
        raise CacheRefused("local_only excludes gravitation and sync")
    if options.new and options.gravitation:
        raise CacheRefused("new=True says nobody has the path; gravitation=True searches for it")
    limit = options.lock_timeout
    if limit is not None and not (isinstance(limit, int | float) and limit > 0):
        raise CacheRefused(f"lock_timeout must be > 0 seconds, got {limit!r}")
    return options
