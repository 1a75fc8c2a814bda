"""A relay tells its site to trim and to forget. This part knows which of that is still under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from jgroups_py.protocols.relay.state import Numbers


class Trimming:
    """A departed origin is forgotten in three steps (RELAY.md, "Joiners, restarts, forgetting"): its last trim has
    reached all members; FORGET has reached them; other sites are told."""

    def __init__(self) -> None:
        self.trim_all = False
        """The next Trim repeats everything (for joiners, after a take-over)."""
        self.forget_all = False
        """The next COLLECT is followed by all that is forgotten (after a merge)."""
        self.trim_serials: dict[bytes, int] = {}
        """Which of our records told the newest trim of an origin."""
        self.forgetting: dict[bytes, int] = {}
        """Origins for which FORGET is on its way, and its serial number."""

    def repeat(self) -> None:
        """The next Trim says all that is trimmed."""
        self.trim_all = True

    def merged(self) -> None:
        """Members that come back by a merge have missed what was forgotten meanwhile."""
        self.forget_all = True

    def take_merge(self) -> bool:
        """Is all that is forgotten to be said again? It is asked once."""
        forget_all, self.forget_all = self.forget_all, False
        return forget_all

    def step_down(self) -> None:
        """Another member is relay now."""
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
        """The numbers of the next Trim: those that all sites have ``acknowledged`` beyond ``trimmed``, or all."""
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
        """Record ``serial`` was a Trim that said ``news``."""
        self.trim_all = False
        for origin in news:
            self.trim_serials[origin] = serial

    # --- FORGET

    def may_forget(
        self, origin: bytes, acknowledged: int, kept: int, is_stable: Callable[[int], bool]
    ) -> bool:
        """``acknowledged``: by all other sites. ``kept``: what is known of the origin, or held."""
        if acknowledged < kept:
            return False
        serial = self.trim_serials.get(origin)
        if serial is None:
            self.trim_all = True
            return False
        return is_stable(serial)

    def forgets(self, origins: Iterable[bytes], serial: int) -> None:
        """Record ``serial`` was a FORGET of ``origins``."""
        for origin in origins:
            self.forgetting[origin] = serial

    def forgotten_by_all(self, is_stable: Callable[[int], bool]) -> list[bytes]:
        """Origins whose FORGET has reached all members."""
        return [o for o, serial in self.forgetting.items() if is_stable(serial)]

    def end(self, origins: Iterable[bytes]) -> None:
        """Nothing of ``origins`` is under way any more."""
        for origin in origins:
            self.forgetting.pop(origin, None)
            self.trim_serials.pop(origin, None)

    def forget(self, origin: bytes) -> None:
        self.trim_serials.pop(origin, None)
