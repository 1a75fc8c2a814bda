"""Local calls: run at once on what is owned here, after a claim on what is not.

A call reads and changes all its paths in one go, by a function from old values to new ones, so a
transaction is one call and one log entry. A call that fails has certainly not been done; one whose
outcome is unknown may have been.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from jgroups_py.buddy.messages import Mode
from jgroups_py.buddy.reach import Reach
from jgroups_py.buddy.values import LINEAGE_MAX, Node, Path, Stamp, Wanted
from jgroups_py.values.address import Address

if TYPE_CHECKING:
    from jgroups_py.buddy.claims import OwnClaim
    from jgroups_py.buddy.machine import BuddyMachine

Values = Mapping[Path, Any]
Change = Callable[[Values], Values]
"""From the values of the nodes there are to what shall be written; None removes."""


class Outcome(Enum):
    DONE = "done"
    FAILED = "failed"
    """Certainly not done."""
    UNKNOWN = "unknown"
    """May have been done."""


class NotOwner(Exception):
    """Somebody else owns the node, and gravitation was not allowed for the call."""


class Refused(Exception):
    """The call was not begun: too many wait, or this member is leaving."""


Inner = Callable[[Mapping[Path, Address]], None]
"""Of a call that the machine makes itself: done once it is known who owns what is not owned here."""


class Call:
    """``change`` None: a read. ``mode`` "look": its result says who has what (``Claims.seen``). ``new``: the caller vouches that nobody else creates the path."""

    __slots__ = (
        "applied",
        "change",
        "dropped",
        "id",
        "inner",
        "mode",
        "new",
        "nodes",
        "result",
        "wanted",
    )

    def __init__(
        self,
        id: int,
        wanted: tuple[Wanted, ...],
        change: Change | None = None,
        *,
        mode: Mode = "take",
        new: bool = False,
    ) -> None:
        self.id = id
        self.wanted = wanted
        self.change = change
        self.mode = mode
        self.new = new
        self.inner: Inner | None = None
        self.applied = False
        self.dropped = False
        """A merge dropped something that it has written."""
        self.nodes: Mapping[Path, Node] = {}
        """What it has written."""
        self.result: Values = {}


def _reach(wanted: tuple[Wanted, ...]) -> Reach | tuple[Path]:
    """Most calls are about one path: that is done without ado."""
    if len(wanted) == 1 and not wanted[0][1]:
        return (wanted[0][0],)
    return Reach(wanted)


class Calls:
    def __init__(self, machine: BuddyMachine) -> None:
        self.machine = machine
        self.waiting: dict[int, Call] = {}
        """Not claimed yet: for the view to settle, for room."""
        self.open: dict[int, Call] = {}
        """All that are not completed."""
        self._undecided: list[Call] = []
        """Writes that no holder is to acknowledge any more; a merge that is not settled may still drop them."""

    def submit(self, call: Call) -> None:
        machine = self.machine
        outside = len(self.open) - machine.arrivals.open
        if machine.leaving.begun or outside >= machine.config.calls_max:
            machine.complete(call.id, Outcome.FAILED, error=Refused("leaving or full"))
            return
        self.begin(call)

    def begin(self, call: Call) -> None:
        self.open[call.id] = call
        self._try(call)

    def cancel(self, id: int) -> None:
        """The caller waits no longer."""
        call = self.open.pop(id, None)
        if call is None:
            return
        self.waiting.pop(id, None)
        for own in self.machine.claims.mine.values():
            if call in own.calls:
                own.calls.remove(call)
        self.machine.complete(id, Outcome.UNKNOWN if call.applied else Outcome.FAILED)

    def retry(self) -> None:
        """The view is settled, or there is room again."""
        waiting, self.waiting = self.waiting, {}
        for call in waiting.values():
            self._try(call)

    def again(self, calls: list[Call]) -> None:
        for call in calls:
            self.waiting[call.id] = call

    def _try(self, call: Call) -> None:
        machine = self.machine
        if machine.frozen or machine.minority or machine.log.open >= machine.config.log_max:
            self.waiting[call.id] = call
        elif self._all_owned(call, fair=True) or (call.new and self._all_absent(call)):
            self._run(call)
        elif not machine.settled:
            self.waiting[call.id] = call
        else:
            own = machine.claims.join(call.wanted, call.mode)
            if own is None:
                if machine.claims.full:
                    self.waiting[call.id] = call
                    return
                own = machine.claims.open(call.wanted, call.mode)
            own.calls.append(call)

    def _all_owned(self, call: Call, *, fair: bool) -> bool:
        """``fair``: what others claimed first they get first."""
        machine = self.machine
        if call.mode == "look":
            return False
        for path, deep in call.wanted:
            node = machine.own.get(path)
            if deep or node is None or node.to is not None:
                return False
            if fair and machine.claims.order and machine.claims.wanted_by_others(path):
                if machine.keeping is None or not machine.keeping(path):
                    return False
        return True

    def _all_absent(self, call: Call) -> bool:
        return not any(deep or path in self.machine.own for path, deep in call.wanted)

    # --- from the claims

    def granted(self) -> None:
        """Nodes came: calls that now own all they need proceed; their claims stay open."""
        for own in list(self.machine.claims.mine.values()):
            for call in list(own.calls):
                if self._all_owned(call, fair=False):
                    own.calls.remove(call)
                    self._run(call)

    def answered(self, own: OwnClaim) -> None:
        """Everybody has answered, and what did not come does not exist."""
        for call in own.calls:
            if call.inner is not None:
                self._run_inner(call, call.inner, own.owned)
            elif call.mode == "look":
                self._end(call, Outcome.DONE, self.machine.claims.seen(own))
            elif own.owned and call.change is not None:
                self._end(call, Outcome.FAILED, error=NotOwner(sorted(own.owned)))
            else:
                self._run(call)

    # --- doing it

    def _run_inner(self, call: Call, inner: Inner, elsewhere: Mapping[Path, Address]) -> None:
        if self.open.pop(call.id, None) is not None:
            self.machine.arrivals.open -= 1
            inner(elsewhere)

    def _run(self, call: Call) -> None:
        if call.inner is not None:
            self._run_inner(call, call.inner, {})
            return
        own = self.machine.own
        reach = _reach(call.wanted)
        old: dict[Path, Any] = {}
        if isinstance(reach, Reach):
            found = reach.among(own)
            old = {p: n.value for p, n in found if n.to is None and not n.removed}
        else:
            for path in reach:
                node = own.get(path)
                if node is not None and node.to is None and not node.removed:
                    old[path] = node.value
        call.result = old
        if call.change is None:
            self._end(call, Outcome.DONE, old)
            return
        try:
            new = dict(call.change(old))
            stray = [path for path in new if path not in reach]
            if stray:
                raise ValueError(f"{stray[0]} is not among the paths of this call")
        except Exception as error:  # the caller's own function: nothing is done yet
            self._end(call, Outcome.FAILED, error=error)
            return
        self._write(call, new)

    def _write(self, call: Call, new: Values) -> None:
        machine = self.machine
        changes: list[tuple[Path, Node]] = []
        for path, value in new.items():
            node = machine.own.get(path)
            if node is None and value is None:
                continue
            assert node is None or node.to is None, f"{path} is granted, not ours to write"
            changes.append((path, self.written(node, value)))
        machine.count("writes", len(changes))
        call.applied = True
        if not changes:
            self._end(call, Outcome.DONE, call.result)
            return
        changes = machine.sites.numbered(changes)
        call.nodes = dict(changes)
        machine.own.update(changes)
        if machine.config.sync:
            machine.log.append(changes, then=lambda: self._acknowledge(call), wrote=True)
        else:
            machine.log.append(changes, wrote=True)
            self._end(call, Outcome.DONE, call.result)

    def _acknowledge(self, call: Call) -> None:
        """All holders have it. That may be none: a minority may have lost all of them, and a merge drops those from
        the other side."""
        machine = self.machine
        if machine.frozen and not machine.minority:
            self._undecided.append(call)
            return
        doubtful = machine.minority or call.dropped
        self._end(call, Outcome.UNKNOWN if doubtful else Outcome.DONE, call.result)

    def drop(self, paths: Collection[Path]) -> None:
        """A merge keeps others' values of these paths."""
        for call in self.open.values():
            if not call.dropped and any(path in paths for path in call.nodes):
                call.dropped = True

    def decide(self) -> None:
        """The merge is settled; or this member is on the smaller side after all."""
        undecided, self._undecided = self._undecided, []
        for call in undecided:
            self._acknowledge(call)

    def written(self, node: Node | None, value: Any) -> Node:
        """The node with a new value, and a stamp above that of the old one."""
        machine = self.machine
        removed = value is None
        if node is None:
            epoch = machine.first_epoch()
            return Node(value, epoch, Stamp(machine.site_epoch, epoch, 1, machine.me), removed)
        old = node.stamp
        site = max(machine.site_epoch, old.site)
        epoch = node.epoch
        if epoch < old.epoch and site == old.site:  # another site's, which counts its own views
            epoch = old.epoch if old.owner == machine.me else (old.epoch[0], old.epoch[1] + 1)
        stamp = Stamp(site, epoch, old.version + 1, machine.me)
        lineage = node.lineage
        if stamp[:2] != old[:2] or stamp.owner != old.owner:
            lineage = (*lineage, old)[-LINEAGE_MAX:]
        return replace(
            node,
            value=value,
            stamp=stamp,
            removed=removed,
            lineage=lineage,
            came="",
            passive=False,
        )

    def _end(
        self, call: Call, outcome: Outcome, result: Any = None, error: Exception | None = None
    ) -> None:
        if self.open.pop(call.id, None) is not None:
            self.machine.complete(call.id, outcome, result, error)
