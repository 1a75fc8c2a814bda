"""The orders of a relay to its site to trim and to forget. This part tracks the records on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from jgroups_py.protocols.relay.state import Numbers


class Trimming:
    """A departed origin is forgotten in three steps (RELAY.md, "Joiners, restarts, forgetting"): its last trim has
    reached all members; FORGET has reached them; other sites are notified."""

    def __init__(self) -> None:
        self.trim_all = False
        """True: the next Trim repeats all numbers (for joiners, after a take-over)."""
        self.forget_all = False
        """True: after the next COLLECT all forgotten origins are repeated (after a merge)."""
        self.trim_serials: dict[bytes, int] = {}
        """By origin, the serial number of our record with its newest trim."""
        self.forgetting: dict[bytes, int] = {}
        """Origins with a FORGET on its way, and its serial number."""

    def repeat(self) -> None:
        """Repeat all trims with the next Trim."""
        self.trim_all = True

    def merged(self) -> None:
        """Repeat all forgotten origins, because members that come back by a merge have missed them."""
        self.forget_all = True

    def take_merge(self) -> bool:
        """Must all trims and forgotten origins be repeated? The answer is true once."""
        forget_all, self.forget_all = self.forget_all, False
        return forget_all

    def step_down(self) -> None:
        """Drop all: another member is relay now."""
        self.forget_all = False
        self.forgetting = {}
        self.trim_serials = {}

    # --- trims

    def due(
        self,
        origins: Iterable[bytes],
        trimmed: Mapping[bytes, int],
        acknowledged: Callable[[bytes], int],
    ) -> Numbers:
        """Return the numbers of the next Trim: those ``acknowledged`` by all sites beyond ``trimmed``, or all."""
        news: Numbers = {}
        for origin, have in trimmed.items() if self.trim_all else ():
            if origin not in self.forgetting:
                news[origin] = have
        for origin in origins:
            if origin in self.forgetting:
                continue
            number = acknowledged(origin)
            if number > trimmed.get(origin, 0):
                news[origin] = number
        return news

    def told(self, news: Iterable[bytes], serial: int) -> None:
        """Note that record ``serial`` was a Trim with ``news``."""
        self.trim_all = False
        for origin in news:
            self.trim_serials[origin] = serial

    # --- FORGET

    def may_forget(
        self, origin: bytes, acknowledged: int, kept: int, is_stable: Callable[[int], bool]
    ) -> bool:
        """May the origin be forgotten? ``acknowledged``: by all other sites. ``kept``: its highest known or held
        number."""
        if acknowledged < kept:
            return False
        serial = self.trim_serials.get(origin)
        if serial is None:
            self.trim_all = True
            return False
        return is_stable(serial)

    def forgets(self, origins: Iterable[bytes], serial: int) -> None:
        """Note that record ``serial`` was a FORGET of ``origins``."""
        for origin in origins:
            self.forgetting[origin] = serial

    def forgotten_by_all(self, is_stable: Callable[[int], bool]) -> list[bytes]:
        """Return the origins whose FORGET has reached all members."""
        return [o for o, serial in self.forgetting.items() if is_stable(serial)]

    def end(self, origins: Iterable[bytes]) -> None:
        """End the tracking of ``origins``."""
        for origin in origins:
            self.forgetting.pop(origin, None)
            self.trim_serials.pop(origin, None)

    def forget(self, origin: bytes) -> None:
        self.trim_serials.pop(origin, None)
