"""The facts about other sites that all members of this site have been told."""

from __future__ import annotations

from jgroups_py.buddy.site_messages import Walk


class KnownSites:
    """``Sites`` changes it. Other parts read it."""

    def __init__(self) -> None:
        self.epoch = 0
        """The epoch of this site. It rises when the site is promoted."""
        self.known = 0
        """The highest epoch of any site."""
        self.up: dict[str, None] = {}
        """Sites that the relay of this site can reach."""
        self.walks: dict[Walk, None] = {}
        """Bootstraps, reconciliations and repairs that are under way."""
        self.out_of_sync: dict[str, None] = {}
        """Sites that lack removals which could not be kept for them."""
