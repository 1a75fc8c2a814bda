"""Computes from a stack's settings how long it can take to notice that a member is gone.

crash   the process died and its connections were closed: FD_SOCK2 sees it at once, and its refusing ports are
        proof (unless its address went with it, or both its neighbours fell, too)
silent  the member hangs, or its host is unplugged: it takes FD_ALL3's time-out, and up to one more interval
        because FD_ALL3 looks once per interval

Both then wait for VERIFY_SUSPECT2 (its time-out and window; with proof gone_timeout and half of it). If the latency of the network is
given, the figures include TRIPS one-way trips. They do not include retries after losses, nor the delays of a busy computer.

A crash is proved by neighbours that have met the member before. One that crashes in the first moments of its membership takes VERIFY_SUSPECT2's
time-out and window.

A take-over by the next relay begins after the detection in its site. Then the next relay joins the bridge.
When the old relay was the bridge's coordinator, the others there must notice its loss, too, in parallel. One
attempt to join may have been sent to the dead relay just before. So the figure has two attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

TRIPS: Final = 24
"""The number of successive one-way trips over the network, from a fault to the view without the member. Simulated
faults have had 21 at most."""
BRIDGE_TRIPS: Final = 24
"""The same, from that view until the next relay has met the relays of other sites."""
Built = Sequence[tuple[type[Any], Any]]


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Worst-case seconds after a crash and after a silent failure. None means never."""

    crash: float | None
    silent: float | None

    @property
    def worst(self) -> float | None:
        """The larger of the two; None if one of them is None."""
        if self.crash is None or self.silent is None:
            return None
        return max(self.crash, self.silent)


def detection(stack: Built, latency: float = 0.0) -> WorstCase:
    """Return the time until no survivor has the member in its view.

    ``stack`` is the result of ``config.build``. ``latency``: seconds for one way between two hosts, the slowest one.
    """
    settings = _settings(stack)
    verify = settings.get("VERIFY_SUSPECT2")
    asking = 0.0 if verify is None else verify.timeout + getattr(verify, "window", 0.0)
    heartbeat = settings.get("FD_ALL3")
    silent = None if heartbeat is None else heartbeat.timeout + heartbeat.interval + asking
    sockets = settings.get("FD_SOCK2")
    crash = silent if sockets is None else asking
    soon = getattr(verify, "gone_timeout", None)
    if soon is not None and getattr(sockets, "prove_death", False):
        crash = min(asking, soon + min(getattr(verify, "window", 0.0), soon / 2))
    trips = TRIPS * latency
    return WorstCase(_plus(crash, trips), _plus(silent, trips))


def takeover(site: Built, bridge: Built, latency: float = 0.0) -> WorstCase:
    """Return the time until another member of the site relays, for a site's stack and that of its bridge.

    ``latency``: as for ``detection``, between the sites, too.
    """
    here, there = detection(site, latency), detection(bridge, latency)
    gms = _settings(bridge).get("GMS")
    joining = (0.0 if gms is None else 2 * gms.join_timeout) + BRIDGE_TRIPS * latency
    return WorstCase(
        _sum(here.crash, there.crash, joining), _sum(here.silent, there.silent, joining)
    )


def _settings(stack: Built) -> dict[str, Any]:
    return {cls.__name__: config for cls, config in stack}


def _plus(seconds: float | None, more: float) -> float | None:
    return None if seconds is None else seconds + more


def _sum(here: float | None, there: float | None, joining: float) -> float | None:
    return None if here is None or there is None else max(here, there) + joining
