"""How long it can take a stack to notice that a member is gone, computed from its settings.

crash   the process died, its connections were closed: FD_SOCK2 sees it at once, and that its ports
        refuse is proof (unless its address went with it, or both its neighbours fell, too)
silent  the member hangs, or its host is unplugged: FD_ALL3's time-out, and up to one more interval
        because it looks once per interval

Both then wait for VERIFY_SUSPECT2 (its time-out and window, with proof gone_timeout and half of it).
What the network needs, and retries after losses, are not in the figures.

Take-over by the next RELAY begins with that in its site. It then joins the bridge. When the old
relay was the bridge's coordinator, the others there have to notice its loss too, in parallel, and
one attempt to join may have been sent to the dead one just before; hence two attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Built = Sequence[tuple[type[Any], Any]]


@dataclass(frozen=True, slots=True)
class WorstCase:
    """Worst-case seconds after a crash and after a silent failure; None = never."""

    crash: float | None
    silent: float | None

    @property
    def worst(self) -> float | None:
        """The larger of the two, None when one of them is."""
        if self.crash is None or self.silent is None:
            return None
        return max(self.crash, self.silent)


def detection(stack: Built) -> WorstCase:
    """Until the coordinator removes a member; ``stack`` as ``config.build`` returns it."""
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
    return WorstCase(crash, silent)


def takeover(site: Built, bridge: Built) -> WorstCase:
    """Until another member of the site relays, for a site's stack and that of its bridge."""
    here, there = detection(site), detection(bridge)
    gms = _settings(bridge).get("GMS")
    joining = 0.0 if gms is None else 2 * gms.join_timeout
    return WorstCase(
        _sum(here.crash, there.crash, joining), _sum(here.silent, there.silent, joining)
    )


def _settings(stack: Built) -> dict[str, Any]:
    return {cls.__name__: config for cls, config in stack}


def _sum(here: float | None, there: float | None, joining: float) -> float | None:
    return None if here is None or there is None else max(here, there) + joining
