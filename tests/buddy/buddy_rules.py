"""Rules left out, one at a time, and what is expected to find their absence.

Each entry swaps one function for one without the rule. ``schedules``: names of scripted ones, by their
beginning; ``seeds``: profile, first and last of random ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from jgroups_py.buddy import claims, decide
from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.buddies import DISMISSED, Buddies, Holder
from jgroups_py.buddy.calls import Calls, Outcome
from jgroups_py.buddy.change import Change
from jgroups_py.buddy.claims import Claims
from jgroups_py.buddy.handover import Handover
from jgroups_py.buddy.leaving import Leave
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.merge import Merge
from jgroups_py.buddy.messages import Answer, Dismiss, Done, Taken
from jgroups_py.buddy.removal import Removal
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView

RULES: "list[Rule]" = []


@dataclass(frozen=True)
class Rule:
    """``what``: the rule. ``without``: (where, name, what stands there instead)."""

    what: str
    without: tuple[tuple[Any, str, Any], ...]
    schedules: tuple[str, ...] = ()
    seeds: tuple[str, int, int] | None = None


def without(
    what: str,
    where: Any,
    name: str,
    *schedules: str,
    seeds: tuple[str, int, int] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        instead: Any = function
        if isinstance(where.__dict__[name], staticmethod):
            instead = staticmethod(function)
        RULES.append(Rule(what, ((where, name, instead),), schedules, seeds))
        return function

    return add


_try = Calls._try
_handle_answer = Claims.on_answer
_answer = Claims._answer
_install = Handover.install
_on_taken = Handover.on_taken
_adopted = Change._adopted
_on_settle = Change.on_settle
_inventory = Change.inventory
_guardians = decide._guardians
_unconfirmed = decide._unconfirmed
_accept = BuddyMachine._accept
_install_view = BuddyMachine.install
_assign = Buddies._assign
_push = Buddies._push


@without("creation is claimed", Calls, "_try", "t1_")
def blind_creation(self: Calls, call: Any) -> None:
    own = self.machine.own
    if not self.machine.frozen and not any(deep or path in own for path, deep in call.wanted):
        self._run(call)
    else:
        _try(self, call)


@without(
    "claims wait for earlier ones", Claims, "_blocked", "t2_", "t20_", seeds=("crashes", 0, 50)
)
def no_order(claim: Any, ahead: Any) -> bool:
    return False


@without("a claim stays open until the last answer", Claims, "on_answer", "t3_")
def closed_at_the_first_grant(self: Claims, src: Address, message: Answer) -> None:
    own = self.mine.get(message.claim)
    _handle_answer(self, src, message)
    if own is not None and message.grants:
        own.missing.clear()
        self.look()


@without(
    "what is on the move is told to the guardian", decide, "_unconfirmed", "t4_", "t15_", "t27_"
)
def nothing_unconfirmed(*args: Any) -> tuple[()]:
    return ()


@without("the former owner keeps what it granted", Claims, "_answer", "t5_")
def removed_at_the_grant(self: Claims, claim: Any) -> bool:
    done = _answer(self, claim)
    given = [p for p, n in self.machine.own.items() if n.to and n.to[0] == claim.claim[0]]
    if given:
        self.machine.forget(given)
    return done


@without("TAKEN waits for the holders", Handover, "install", "t5_")
def taken_at_once(self: Handover, src: Address, grants: Any) -> None:
    _install(self, src, grants)
    self._taken([path for path, _, _ in grants])


@without("what has a giver is not purged", Removal, "purge", "t6_")
def purged_with_giver(self: Removal) -> None:
    machine = self.machine
    due = [p for p, n in machine.own.items() if n.removed and n.to is None]
    if due and machine.settled:
        for path in due:
            machine.event("purged", (path, machine.own[path].stamp))
        machine.forget(due)


@without("a guardian keeps a spare", Change, "_adopted", "t7_")
def no_spare(self: Change, *args: Any) -> Any:
    node = _adopted(self, *args)
    return None if node is not None and node.to is not None else node


def _poorer(inventories: Mapping[Address, Any], **values: Any) -> dict[Address, Any]:
    return {
        member: replace(i, orphans=tuple(replace(o, **values) for o in i.orphans))
        for member, i in inventories.items()
    }


@without("the best copy is adopted", decide, "_guardians", "t8_", "t14_")
def guardian_by_rank(members: Any, inventories: Any, adopted_by: Any) -> Any:
    return _guardians(members, _poorer(inventories, complete=False, seq=0), adopted_by)


@without("complete counts before the length of the log", decide, "_guardians", "t14_")
def guardian_by_seq(members: Any, inventories: Any, adopted_by: Any) -> Any:
    return _guardians(members, _poorer(inventories, complete=False), adopted_by)


@without("adoptions are in the log", Change, "_log", "t9_", seeds=("crashes", 510, 580))
def adoption_not_logged(self: Change, changes: Any, groups: Any) -> None:
    if changes or groups:
        self.machine.log.append(list(changes.items()), ())
    if groups:
        self.machine.log.when_acked(lambda: self._adopted_safely(groups))


@without("orphans are kept until ADOPTED", Change, "on_settle", "t10_orphans")
def orphans_dropped_at_settle(self: Change, src: Address, settle: Any) -> None:
    _on_settle(self, src, settle)
    for orphan in self.machine.backups.orphans():
        del self.machine.backups.of[orphan]


@without("an adoption counts when it is acknowledged", Change, "inventory", "t10_an")
def adoptions_safe_at_once(self: Change) -> Any:
    inventory = _inventory(self)
    return replace(inventory, adopted=tuple((g, v, True) for g, v, _ in inventory.adopted))


@without("make before break", Buddies, "arrange", "t11_")
def break_before_make(self: Buddies) -> None:
    for member, holder in self.holders.items():
        if member not in self.wanted and holder.state is not DISMISSED:
            holder.state = DISMISSED
            holder.todo = None
            self.machine.send(member, Dismiss(self.machine.group))
    for member in self.wanted:
        if member not in self.holders:
            self._assign(member)


@without("dismissed holders count until they answer", Buddies, "acked_by_all", "t12_")
def dismissed_do_not_count(self: Buddies, last: int) -> int:
    acked = [h.acked for h in self.holders.values() if h.state is not DISMISSED]
    return min([last, *acked])


_snapshots: dict[int, Any] = {}


def snapshot_at_assign(self: Buddies, member: Address) -> None:
    _assign(self, member)
    _snapshots[id(self.holders[member])] = dict(self.machine.own)


def snapshot_sent(self: Buddies, member: Address, holder: Holder, todo: Any) -> None:
    live = self.machine.own
    self.machine.own = _snapshots.get(id(holder), live)
    try:
        _push(self, member, holder, todo)
    finally:
        self.machine.own = live


RULES.append(
    Rule(
        "the push is cut from the live tree",
        ((Buddies, "_assign", snapshot_at_assign), (Buddies, "_push", snapshot_sent)),
        ("t13_",),
    )
)


@without("TAKEN waits for SETTLE", Handover, "on_taken", "t15_")
def taken_before_settle(self: Handover, src: Address, message: Taken) -> None:
    settled, self.machine.settled = self.machine.settled, True
    try:
        _on_taken(self, src, message)
    finally:
        self.machine.settled = settled


@without("of two adopted copies the newer is taken", Change, "_adopted", "t16_")
def older_copy_too(self: Change, *args: Any) -> Any:
    group, path, node, parties, heirs, winners = args
    others = {p: e for p, e in parties.items() if e[1] != self.machine.me}
    return _adopted(self, group, path, node, others, heirs, winners)


@without("merges go by stamp, not by epoch", decide, "_merit", "t17_")
def epoch_before_stamp(copy: Any) -> Any:
    listed, member, group = copy
    return (listed.epoch, listed.stamp, member, group is None)


@without("of several leavers one goes after the other", Leave, "_needs_us", "t18_of")
def leavers_replace_nobody(self: Leave, owner: Address) -> bool:
    machine = self.machine
    staying = [m for m in machine.members if m not in machine.buddies.leaving and m != owner]
    return owner not in machine.members or len(staying) >= machine.num_buddies


@without("owners keep leavers in one order", Buddies, "last_first", "t18_leavers")
def leavers_in_line(self: Buddies) -> list[Address]:
    at = self.machine.members.index(self.machine.me)
    turned = self.machine.members[at:] + self.machine.members[:at]
    return [m for m in turned if m in self.leaving]


@without("ADOPTED counts for deaths before it only", BuddyMachine, "is_dead_since", "t19_")
def adopted_always_counts(self: BuddyMachine, member: Address, view: int) -> bool:
    return member not in self._since


@without("a merge is resolved in every view until it is", BuddyMachine, "install", "t21_")
def merge_forgotten(self: BuddyMachine, view: Any, now: float) -> None:
    if not isinstance(view, MergeView):
        self.unmerged = self.frozen = False
    _install_view(self, view, now)


@without("inventories are full until MERGED", Change, "inventory", seeds=("merges", 280, 1500))
def full_while_frozen_only(self: Change) -> Any:
    unmerged = self.machine.unmerged
    self.machine.unmerged = unmerged and self.machine.frozen
    try:
        return _inventory(self)
    finally:
        self.machine.unmerged = unmerged


@without("an answer counts in its view only", BuddyMachine, "_accept", "t26_")
def old_answers_count(self: BuddyMachine, src: Address, tag: Any, message: Any) -> None:
    if type(message) is Answer and src in self._since and tag != self.tag:
        if message.grants:
            self.handover.install(src, message.grants)
    else:
        _accept(self, src, tag, message)


@without("DONE waits for the holders, also the second time", Handover, "on_taken", "t29_")
def done_at_once(self: Handover, src: Address, message: Taken) -> None:
    if self.machine.settled and message.path not in self.machine.own:
        self.machine.send_member(src, Done(message.path, message.epoch))
    else:
        _on_taken(self, src, message)


@without("a grant that did not take is undone", Change, "_resolve_grants", "t5_")
def grants_stay(self: Change, parties: Any, changes: Any) -> None:
    pass


@without("a grant that took is not undone", Change, "_resolve_grants", "t6_")
def grants_undone(self: Change, parties: Any, changes: Any) -> None:
    own = self.machine.own
    for path, node in own.items():
        if node.to is not None:
            own[path] = changes[path] = replace(node, to=None)


@without("what has a giver is not granted", Claims, "_answer", seeds=("crashes", 0, 400))
def granted_with_giver(self: Claims, claim: Any) -> bool:
    own = self.machine.own
    kept = {p: n for p, n in own.items() if n.giver is not None and n.to is None}
    own.update({p: replace(n, giver=None) for p, n in kept.items()})
    done = _answer(self, claim)
    own.update({p: n for p, n in kept.items() if own[p].to is None})
    return done


@without(
    "givers of whom nobody has anything are cleared", Change, "_givers_of_the_dead", "t4_nobody"
)
def dead_givers(self: Change, heirs: Any, changes: Any) -> None:
    pass


@without("TAKEN goes to who has what a dead giver had", Handover, "_now", "t4_the_former")
def taken_to_the_dead(self: Handover, giver: Address | None) -> Address | None:
    return giver if giver in self.machine.members else None


@without("a giver that died stays the giver", Change, "_giver", "t4_the_guardian")
def giver_replaced(self: Change, node: Any, heirs: Mapping[Address, Address]) -> Address | None:
    giver: Address | None = node.giver
    if giver is not None and giver not in self.machine.members:
        giver = heirs.get(giver)
    return None if giver == self.machine.me else giver


@without("TAKEN is said again after SETTLE", Handover, "say_taken_again", "t4_", "t6_")
def taken_once(self: Handover) -> None:
    pass


@without("who merges is frozen", Merge, "begin", "t17_", "t21_")
def not_frozen(self: Merge, view: Any) -> None:
    self.machine.unmerged = True


@without("a merge has winners", decide, "_winners", "t17_", "t21_")
def no_winners(*args: Any) -> Any:
    return (), ()


@without("what a merge drops is listed", decide, "descends", "t21_")
def nothing_listed(*args: Any) -> bool:
    return True


@without("all holders acknowledge", Buddies, "acked_by_all", seeds=("crashes", 430, 440))
def one_ack_is_enough(self: Buddies, last: int) -> int:
    return min(last, max([h.acked for h in self.holders.values()], default=last))


@without("a grant has an epoch of its own", claims, "next_epoch", "t4_")
def same_epoch(epoch: Any, view: int) -> Any:
    return epoch


@without("who is not in the view is not heard", BuddyMachine, "_accept", seeds=("crashes", 0, 1500))
def the_dead_are_heard(self: BuddyMachine, src: Address, tag: Any, message: Any) -> None:
    self._since.setdefault(src, self.tag)
    _accept(self, src, tag, message)


@without(
    "creation begins above what was purged", BuddyMachine, "first_epoch", "found_by_seed_a_stamp"
)
def low_first_epoch(self: BuddyMachine) -> Any:
    return (self.number, 0)


@without(
    "a view that was missed may have been one of a merge",
    Merge,
    "may_have_been_missed",
    seeds=("missed", 9, 9),
)
def nothing_was_missed(self: Merge) -> None:
    pass


@without(
    "with a view members agree on who has backups",
    Change,
    "_agree_on_backups",
    seeds=("missed", 9, 9),
)
def each_as_it_thinks(self: Change, settle: Any) -> None:
    pass


@without(
    "a merge acknowledges nothing before it is settled",
    Calls,
    "_acknowledge",
    seeds=("stopped", 1, 100),
)
def silence_is_consent(self: Calls, call: Any) -> None:
    outcome = Outcome.UNKNOWN if self.machine.minority else Outcome.DONE
    self._end(call, outcome, call.result)


@without("an entry in pieces takes effect as one", Backups, "on_part", "t10_half")
def pieces_take_effect_alone(self: Backups, src: Any, message: Any) -> None:
    backup = self.of.get(src)
    if backup is not None:
        backup.apply(message.changes)
