"""The multicasts of this site: each sender numbers its own; delivered ones are noted and kept for other sites."""

from __future__ import annotations

from collections import deque

from jgroups_py.errors import LocalProtocolError
from jgroups_py.protocols.relay.home.keep import CopyKeeping
from jgroups_py.protocols.relay.site.roles import Roles
from jgroups_py.protocols.relay.state import RelayState
from jgroups_py.protocols.relay.wire import DONT_LOOPBACK, ID, OOB, SEQNO_MAX, MessageKind
from jgroups_py.values.batch import Batch
from jgroups_py.wire.headers import FragHeader


class HomeStream:
    """Own numbers, and own runs that the application does not want back. Digests are in ``state``, copies in ``keeping``."""

    def __init__(self, roles: Roles, state: RelayState, keeping: CopyKeeping) -> None:
        self.next = 1
        """The number of the next own multicast."""
        self._quiet: deque[tuple[int, int]] = deque()
        """Own runs that the application does not want back."""
        self._me = bytes(roles.me)
        self._roles = roles
        self._state = state
        self._keeping = keeping

    def number(self, batch: Batch, relaying: bool) -> Batch:
        """Number an own multicast. A site that is ``relaying`` keeps a copy.

        Raises:
            LocalProtocolError: no numbers are left. Nothing was numbered or kept.
        """
        first = self.next
        last = first + len(batch) - 1
        if last > SEQNO_MAX:
            raise LocalProtocolError("no numbers are left for multicasts")
        self.next = last + 1
        numbered = batch.with_header(ID, FragHeader(first, MessageKind.DATA, 0))
        numbered.transient = batch.transient & ~DONT_LOOPBACK
        if batch.transient & DONT_LOOPBACK:
            self._quiet.append((first, last))
        if relaying:
            self._keeping.keep(self._me, first, batch)
        return numbered

    def take(self, batch: Batch, first: int, relaying: bool) -> bool:
        """Note a delivered run from number ``first`` on. False: these are no numbers of a member."""
        assert batch.src is not None
        origin, last = bytes(batch.src), first + len(batch) - 1
        if not 0 < first <= last <= SEQNO_MAX or len(origin) != 16:
            return False
        self._state.note_delivered(origin, first, last, not batch.flags & OOB)
        if relaying and self._roles.is_holder:
            self._keeping.keep(origin, first, batch)
        return True

    def may_be_unwanted(self, batch: Batch) -> bool:
        """Is this an own run that the application may not want back as a whole?"""
        return bool(self._quiet) and batch.src == self._roles.me

    def wanted(self, batch: Batch, first: int) -> tuple[list[Batch], bool]:
        """Return the parts of an own run from number ``first`` on that the application wants back, and whether they
        include its end."""
        quiet, last, parts = self._quiet, first + len(batch) - 1, []
        while quiet and quiet[0][1] < first:
            quiet.popleft()
        at = first
        for low, high in quiet:
            if low > last:
                break
            if low > at:
                parts.append(batch.slice(at - first, low - first))
            at = min(high, last) + 1
        if at <= last:
            parts.append(batch.slice(at - first, len(batch)))
        return parts, at <= last
