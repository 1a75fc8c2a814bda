"""SHARED_LOOPBACK_PING: discovery among members in one process.

Place: above SHARED_LOOPBACK.

It works as PING, but a member cannot be slow to answer there. A member that has not answered within ``wait`` does not
exist, and a search without an answer proves that we are alone.

Source:  JGroups SHARED_LOOPBACK_PING.java, LOCAL_PING.java, which look into a table of the process.
Limits:  if a round trip in the simulated network takes longer than ``wait``, present members are not seen, and their
         groups merge later: raise ``wait``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jgroups_py.config.settings import Seconds
from jgroups_py.protocols.discovery.ping import PING
from jgroups_py.values.events import FindMembers
from jgroups_py.wire.headers import PROTOCOL_IDS


class SHARED_LOOPBACK_PING(PING):
    """See the module's docstring."""

    protocol_id = PROTOCOL_IDS["SHARED_LOOPBACK_PING"]
    silence_is_certain: ClassVar[bool] = True

    @dataclass(frozen=True, kw_only=True)
    class Config(PING.Config):
        wait: Seconds = 0.01
        """A member that has not answered after this time counts as absent."""

        def __post_init__(self) -> None:
            super().__post_init__()
            self._above(0, "wait")

    config: Config

    def timeout_of(self, request: FindMembers) -> float:
        return min(request.timeout, self.config.wait)
