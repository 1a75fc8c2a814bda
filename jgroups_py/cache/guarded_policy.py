"""A wrapper for a user's eviction policy: its exceptions harm no call."""

from __future__ import annotations

import logging
from collections.abc import Callable

from jgroups_py.cache.fqn import Fqn
from jgroups_py.cache.policies import AllOf, EvictionPolicy, LeastRecentlyUsed, TimeToLive
from jgroups_py.stack.log_limit import LogLimit
from jgroups_py.stack.raised import loggable, said

_log = logging.getLogger("jgroups_py.cache")
_OURS = (AllOf, LeastRecentlyUsed, TimeToLive)


class GuardedPolicy(EvictionPolicy):
    """Asks ``policy``. If it raises, no node is evicted at this call, and the call continues. It is asked again the next
    time."""

    def __init__(self, policy: EvictionPolicy, clock: Callable[[], float]) -> None:
        self._policy = policy
        self._log_limit = LogLimit(clock)
        self.failures = 0

    def touched(self, path: Fqn, size: int, now: float, *, written: bool) -> None:
        try:
            self._policy.touched(path, size, now, written=written)
        except Exception as error:
            self._raised("touched", error)

    def gone(self, path: Fqn) -> None:
        try:
            self._policy.gone(path)
        except Exception as error:
            self._raised("gone", error)

    def is_over(self, now: float) -> bool:
        try:
            return bool(self._policy.is_over(now))
        except Exception as error:
            self._raised("is_over", error)
            return False

    def victims(self, now: float, can_take: Callable[[Fqn], bool]) -> list[Fqn]:
        try:
            return [*self._policy.victims(now, can_take)]
        except Exception as error:
            self._raised("victims", error)
            return []

    def _raised(self, method: str, error: Exception) -> None:
        self.failures += 1
        if (left_out := self._log_limit.admit((method, type(error)))) is not None:
            text = "the eviction policy %s: %s() raised %s; nothing is evicted for it%s"
            name = type(self._policy).__name__
            _log.warning(text, name, method, said(error), left_out, exc_info=loggable(error))


def guarded(policy: EvictionPolicy, clock: Callable[[], float]) -> EvictionPolicy:
    """Wrap a user's policy. Policies of this package stay unwrapped: they run at every read."""
    return policy if type(policy) in _OURS else GuardedPolicy(policy, clock)
