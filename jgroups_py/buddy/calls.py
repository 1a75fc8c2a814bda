"""Local calls: a call runs at once if this member owns all its nodes, else after a claim.

A call reads and changes all its paths in one step, by a function from old values to new ones. So a transaction is one call
and one log entry. A call that fails has certainly not been done. A call whose outcome is unknown may have been done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from jgroups_py.buddy.call import BuddyCall, Inner, NotBegun, OwnedElsewhere, Values
from jgroups_py.buddy.claims import Claims, OwnClaim
from jgroups_py.buddy.config import BuddyConfig
from jgroups_py.buddy.log import WriteLog
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.out import BuddyOut
from jgroups_py.buddy.outputs import BuddyOutcome
from jgroups_py.buddy.ownership import Ownership
from jgroups_py.buddy.reach import Reach
from jgroups_py.buddy.values import Path, Wanted
from jgroups_py.values.address import Address


def _reach(wanted: tuple[Wanted, ...]) -> Reach | tuple[Path]:
    """Return the nodes that a call reaches. Most calls are about one path, which needs no ``Reach``."""
    if len(wanted) == 1 and not wanted[0][1]:
        return (wanted[0][0],)
    return Reach(wanted)


class Calls:
    """``open``: all calls that are not completed. ``inner``: the number of them that the machine has made itself."""

    def __init__(
        self,
        membership: Membership,
        config: BuddyConfig,
        log: WriteLog,
        ownership: Ownership,
        claims: Claims,
        out: BuddyOut,
    ) -> None:
        self._membership = membership
        self._config = config
        self._log = log
        self._ownership = ownership
        self._claims = claims
        self._out = out
        self.waiting: dict[int, BuddyCall] = {}
        """Calls without a claim. They wait for the view to settle, or for room."""
        self.open: dict[int, BuddyCall] = {}
        self._undecided: list[BuddyCall] = []
        """Writes that all holders have, but that a merge may still drop."""
        self.inner = 0
        self._inner_ids = 0

    # --- from the machine

    def submit(self, call: BuddyCall) -> None:
        """Begin a call of the application."""
        outside = len(self.open) - self.inner
        if self._membership.me in self._membership.leaving or outside >= self._config.calls_max:
            error = NotBegun("leaving or full")
            self._out.complete(call.id, BuddyOutcome.FAILED, error=error)
            return
        self.open[call.id] = call
        self._try(call)

    def submit_inner(self, paths: tuple[Path, ...], inner: Inner) -> None:
        """Begin a call of the machine. ``inner`` runs when this member owns these paths, or knows their owners."""
        self._inner_ids -= 1
        self.inner += 1
        wanted = tuple((path, False) for path in paths)
        call = BuddyCall(self._inner_ids, wanted, mode="create", inner=inner)
        self.open[call.id] = call
        self._try(call)

    def cancel(self, id: int) -> None:
        """End a call whose caller waits no longer."""
        call = self.open.pop(id, None)
        if call is None:
            return
        self.waiting.pop(id, None)
        for own in self._claims.mine.values():
            if call in own.calls:
                own.calls.remove(call)
        self._out.complete(id, BuddyOutcome.UNKNOWN if call.applied else BuddyOutcome.FAILED)

    def retry(self) -> None:
        """Claim for waiting calls: the view is settled, or there is room again."""
        waiting, self.waiting = self.waiting, {}
        for call in waiting.values():
            self._try(call)

    def again(self, calls: list[BuddyCall]) -> None:
        """Keep these calls for ``retry``: their claims are void."""
        for call in calls:
            self.waiting[call.id] = call

    def _try(self, call: BuddyCall) -> None:
        membership = self._membership
        if membership.frozen or membership.minority or self._log.open >= self._config.log_max:
            self.waiting[call.id] = call
        elif self._all_owned(call, fair=True) or (call.new and self._all_absent(call)):
            self._run(call)
        elif not membership.settled:
            self.waiting[call.id] = call
        else:
            own = self._claims.join(call.wanted, call.mode)
            if own is None:
                if self._claims.full:
                    self.waiting[call.id] = call
                    return
                own = self._claims.open(call.wanted, call.mode)
            own.calls.append(call)

    def _all_owned(self, call: BuddyCall, *, fair: bool) -> bool:
        """Does this member own all nodes of the call? ``fair``: a node that another member claimed earlier does not
        count."""
        if call.mode == "look":
            return False
        claims = self._claims
        for path, deep in call.wanted:
            if deep or self._ownership.mine(path) is None:
                return False
            if fair and claims.order and claims.is_next_elsewhere(path):
                return False
        return True

    def _all_absent(self, call: BuddyCall) -> bool:
        return not any(deep or path in self._ownership.nodes for path, deep in call.wanted)

    # --- from the claims

    def granted(self) -> None:
        """Nodes have come. Calls that now own all they need proceed; their claims stay open."""
        for own in list(self._claims.mine.values()):
            for call in list(own.calls):
                if self._all_owned(call, fair=False):
                    own.calls.remove(call)
                    self._run(call)

    def answered(self, own: OwnClaim) -> None:
        """End a claim that all members have answered. Nodes that no member granted do not exist."""
        for call in own.calls:
            if call.inner is not None:
                self._run_inner(call, call.inner, own.owned)
            elif call.mode == "look":
                self._end(call, BuddyOutcome.DONE, self._claims.seen(own))
            elif own.owned and call.change is not None:
                self._end(call, BuddyOutcome.FAILED, error=OwnedElsewhere(sorted(own.owned)))
            else:
                self._run(call)

    # --- running calls

    def _run_inner(self, call: BuddyCall, inner: Inner, elsewhere: Mapping[Path, Address]) -> None:
        if self.open.pop(call.id, None) is not None:
            self.inner -= 1
            inner(elsewhere)

    def _run(self, call: BuddyCall) -> None:
        if call.inner is not None:
            self._run_inner(call, call.inner, {})
            return
        reach = _reach(call.wanted)
        old: dict[Path, Any] = {}
        if isinstance(reach, Reach):
            found = reach.among(self._ownership.nodes)
            old = {p: n.value for p, n in found if n.to is None and not n.removed}
        else:
            for path in reach:
                node = self._ownership.mine(path)
                if node is not None and not node.removed:
                    old[path] = node.value
        call.result = old
        if call.change is None:
            self._end(call, BuddyOutcome.DONE, old)
            return
        try:
            new = dict(call.change(old))
            for path in new:
                if path not in reach:
                    raise ValueError(f"{path} is not among the paths of this call")
        except Exception as error:  # the caller's function; no change is made yet
            self._end(call, BuddyOutcome.FAILED, error=error)
            return
        self._write(call, new)

    def _write(self, call: BuddyCall, new: Values) -> None:
        waits = self._config.sync
        then = (lambda: self._acknowledge(call)) if waits else None
        call.nodes = self._ownership.write(new, then)
        call.applied = True
        if not (waits and call.nodes):
            self._end(call, BuddyOutcome.DONE, call.result)

    def _acknowledge(self, call: BuddyCall) -> None:
        """All holders have the write. There may be none: a minority can lose all its holders, and a merge drops those
        from the other side."""
        membership = self._membership
        if membership.frozen and not membership.minority:
            self._undecided.append(call)
            return
        doubtful = membership.minority or call.dropped
        self._end(call, BuddyOutcome.UNKNOWN if doubtful else BuddyOutcome.DONE, call.result)

    def drop(self, paths: Collection[Path]) -> None:
        """Note that a merge keeps other members' values of these paths."""
        for call in self.open.values():
            if not call.dropped and any(path in paths for path in call.nodes):
                call.dropped = True

    def decide(self) -> None:
        """Decide undecided writes: the merge is settled, or this member is on the smaller side."""
        undecided, self._undecided = self._undecided, []
        for call in undecided:
            self._acknowledge(call)

    def _end(
        self,
        call: BuddyCall,
        outcome: BuddyOutcome,
        result: Any = None,
        error: Exception | None = None,
    ) -> None:
        if self.open.pop(call.id, None) is not None:
            self._out.complete(call.id, outcome, result, error)
