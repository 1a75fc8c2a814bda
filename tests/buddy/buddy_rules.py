"""Rules that are left out, one at a time, and the tests that must then fail.

Each entry swaps one function for one without the rule. ``schedules``: names of scripted ones, by their
beginning; ``seeds``: profile, first and last of random ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from jgroups_py.buddy import change, decide
from jgroups_py.buddy import machine as orders
from jgroups_py.buddy.backups import Backups
from jgroups_py.buddy.buddies import Buddies
from jgroups_py.buddy.calls import Calls
from jgroups_py.buddy.claims import Claims
from jgroups_py.buddy.handover import Handover
from jgroups_py.buddy.holders import DISMISSED, Holder, Holders
from jgroups_py.buddy.leaving import Leave
from jgroups_py.buddy.machine import BuddyMachine
from jgroups_py.buddy.membership import Membership
from jgroups_py.buddy.messages import Answer, Dismiss, Done, Taken
from jgroups_py.buddy.outputs import BuddyOutcome
from jgroups_py.buddy.ownership import Grant, Ownership
from jgroups_py.buddy.removal import Removal
from jgroups_py.buddy.verdict import MergeVerdict
from jgroups_py.values.address import Address
from jgroups_py.values.view import MergeView

RULES: "list[Rule]" = []


@dataclass(frozen=True)
class Rule:
    """``what``: the rule. ``without``: (class or module, name, replacement)."""

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
_adopted = MergeVerdict.adopted
_on_settle = BuddyMachine._on_settle
_inventory = change.inventory
_guardians = decide._guardians
_unconfirmed = decide._unconfirmed
_accept = BuddyMachine._accept
_install_view = BuddyMachine.install
_assign = Buddies._assign
_push = Buddies._push


@without("creation is claimed", Calls, "_try", "t1_")
def blind_creation(self: Calls, call: Any) -> None:
    own = self._ownership.nodes
    if not self._membership.frozen and not any(deep or path in own for path, deep in call.wanted):
        self._run(call)
    else:
        _try(self, call)


@without(
    "claims wait for earlier ones", Claims, "_blocked", "t2_", "t20_", seeds=("crashes", 0, 50)
)
def no_order(claim: Any, ahead: Any) -> bool:
    return False


@without("a claim stays open until the last answer", Claims, "on_answer", "t3_")
def closed_at_the_first_grant(self: Claims, src: Address, message: Answer) -> tuple[Grant, ...]:
    own = self.mine.get(message.claim)
    grants = _handle_answer(self, src, message)
    if own is not None and message.grants:
        own.missing.clear()
        self.look()
    return grants


@without(
    "what is on the move is told to the guardian", decide, "_unconfirmed", "t4_", "t15_", "t27_"
)
def nothing_unconfirmed(*args: Any) -> tuple[()]:
    return ()


@without("the former owner keeps what it granted", Claims, "_answer", "t5_")
def removed_at_the_grant(self: Claims, claim: Any) -> bool:
    done = _answer(self, claim)
    own = self._ownership
    given = [p for p, n in own.nodes.items() if n.to and n.to[0] == claim.claim[0]]
    if given:
        own.forget(given)
    return done


@without("TAKEN waits for the holders", Handover, "install", "t5_")
def taken_at_once(self: Handover, src: Address, grants: Any) -> None:
    _install(self, src, grants)
    self._taken([path for path, _, _ in grants])


@without("what has a giver is not purged", Removal, "purge", "t6_")
def purged_with_giver(self: Removal) -> None:
    own = self._ownership
    due = [p for p, n in own.nodes.items() if n.removed and n.to is None]
    if due and self._membership.settled:
        for path in due:
            self._out.event("purged", (path, own.nodes[path].stamp))
        own.forget(due)


@without("a guardian keeps a spare", MergeVerdict, "adopted", "t7_")
def no_spare(self: MergeVerdict, *args: Any) -> Any:
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


@without("adoptions are in the log", Ownership, "_log_settled", "t9_", seeds=("crashes", 510, 580))
def adoption_not_logged(self: Ownership, changes: Any, groups: Any, safe: Any) -> None:
    if changes or groups:
        self._log.append(list(changes.items()), ())
    if groups:
        self._log.when_acked(lambda: self._adopted_safely(groups, safe))


@without("orphans are kept until ADOPTED", BuddyMachine, "_on_settle", "t10_orphans")
def orphans_dropped_at_settle(self: BuddyMachine, src: Address, settle: Any) -> None:
    _on_settle(self, src, settle)
    for orphan in self.backups.orphans():
        del self.backups.of[orphan]


@without("an adoption counts when it is acknowledged", orders, "inventory", "t10_an")
def adoptions_safe_at_once(*args: Any) -> Any:
    inventory = _inventory(*args)
    return replace(inventory, adopted=tuple((g, v, True) for g, v, _ in inventory.adopted))


@without("make before break", Buddies, "arrange", "t11_")
def break_before_make(self: Buddies) -> None:
    for member, holder in self.holders.items():
        if member not in self.wanted and holder.state is not DISMISSED:
            holder.state = DISMISSED
            holder.todo = None
            self._out.send(member, Dismiss(self._membership.group))
    for member in self.wanted:
        if member not in self.holders:
            self._assign(member)


@without("dismissed holders count until they answer", Holders, "acked_by_all", "t12_")
def dismissed_do_not_count(self: Holders, last: int) -> int:
    acked = [h.acked for h in self.values() if h.state is not DISMISSED]
    return min([last, *acked])


_snapshots: dict[int, Any] = {}


def snapshot_at_assign(self: Buddies, member: Address) -> None:
    _assign(self, member)
    _snapshots[id(self.holders[member])] = dict(self._ownership.nodes)


def snapshot_sent(self: Buddies, member: Address, holder: Holder, todo: Any) -> None:
    live = self._ownership.nodes
    self._ownership.nodes = _snapshots.get(id(holder), live)
    try:
        _push(self, member, holder, todo)
    finally:
        self._ownership.nodes = live


RULES.append(
    Rule(
        "the push is cut from the live tree",
        ((Buddies, "_assign", snapshot_at_assign), (Buddies, "_push", snapshot_sent)),
        ("t13_",),
    )
)


@without("TAKEN waits for SETTLE", Handover, "on_taken", "t15_")
def taken_before_settle(self: Handover, src: Address, message: Taken) -> None:
    settled, self._membership.settled = self._membership.settled, True
    try:
        _on_taken(self, src, message)
    finally:
        self._membership.settled = settled


@without("of two adopted copies the newer is taken", MergeVerdict, "adopted", "t16_")
def older_copy_too(self: MergeVerdict, *args: Any) -> Any:
    parties = self._parties
    self._parties = {p: e for p, e in parties.items() if e[1] != self._me}
    try:
        return _adopted(self, *args)
    finally:
        self._parties = parties


@without("merges go by stamp, not by epoch", decide, "_merit", "t17_")
def epoch_before_stamp(copy: Any) -> Any:
    listed, member, group = copy
    return (listed.epoch, listed.stamp, member, group is None)


@without("of several leavers one goes after the other", Leave, "_needs_us", "t18_of")
def leavers_replace_nobody(self: Leave, owner: Address) -> bool:
    now = self._membership
    staying = [m for m in now.members if m not in now.leaving and m != owner]
    return owner not in now.members or len(staying) >= now.num_buddies


@without("owners keep leavers in one order", Buddies, "last_first", "t18_leavers")
def leavers_in_line(self: Buddies) -> list[Address]:
    return [m for m in self._membership.line if m in self._membership.leaving]


@without("ADOPTED counts for deaths before it only", Membership, "is_dead_since", "t19_")
def adopted_always_counts(self: Membership, member: Address, view: int) -> bool:
    return member not in self._since


@without("a merge is resolved in every view until it is", BuddyMachine, "install", "t21_")
def merge_forgotten(self: BuddyMachine, view: Any, now: float) -> None:
    if not isinstance(view, MergeView):
        self.membership.unmerged = self.membership.frozen = False
    _install_view(self, view, now)


@without("inventories are full until MERGED", orders, "inventory", seeds=("merges", 280, 1500))
def full_while_frozen_only(membership: Membership, *args: Any) -> Any:
    unmerged = membership.unmerged
    membership.unmerged = unmerged and membership.frozen
    try:
        return _inventory(membership, *args)
    finally:
        membership.unmerged = unmerged


@without("an answer counts in its view only", BuddyMachine, "_accept", "t26_")
def old_answers_count(self: BuddyMachine, src: Address, tag: Any, message: Any) -> None:
    if type(message) is Answer and src in self.membership._since and tag != self.tag:
        if message.grants:
            self.handover.install(src, message.grants)
    else:
        _accept(self, src, tag, message)


@without("DONE waits for the holders, also the second time", Handover, "on_taken", "t29_")
def done_at_once(self: Handover, src: Address, message: Taken) -> None:
    if self._membership.settled and message.path not in self._ownership.nodes:
        self._out.send_member(src, Done(message.path, message.epoch))
    else:
        _on_taken(self, src, message)


@without("a grant that did not take is undone", Ownership, "_settle_grants", "t5_")
def grants_stay(self: Ownership, verdict: Any, changes: Any) -> None:
    pass


@without("a grant that took is not undone", Ownership, "_settle_grants", "t6_")
def grants_undone(self: Ownership, verdict: Any, changes: Any) -> None:
    for path, node in list(self.nodes.items()):
        if node.to is not None:
            changes[path] = replace(node, to=None)
            self._set(path, changes[path])


@without("what has a giver is not granted", Claims, "_answer", seeds=("crashes", 0, 400))
def granted_with_giver(self: Claims, claim: Any) -> bool:
    own = self._ownership
    kept = {p: n for p, n in own.nodes.items() if n.giver is not None and n.to is None}
    own._set_all((p, replace(n, giver=None)) for p, n in kept.items())
    done = _answer(self, claim)
    own._set_all((p, n) for p, n in kept.items() if own.nodes[p].to is None)
    return done


@without("givers of whom nobody has anything are cleared", Ownership, "_settle_givers", "t4_nobody")
def dead_givers(self: Ownership, verdict: Any, changes: Any) -> None:
    pass


@without("TAKEN goes to who has what a dead giver had", Handover, "_now", "t4_the_former")
def taken_to_the_dead(self: Handover, giver: Address | None) -> Address | None:
    return giver if giver in self._membership.members else None


@without("a giver that died stays the giver", MergeVerdict, "giver", "t4_the_guardian")
def giver_replaced(self: MergeVerdict, node: Any) -> Address | None:
    giver: Address | None = node.giver
    if giver is not None and giver not in self._members:
        giver = self.heirs.get(giver)
    return None if giver == self._me else giver


@without("TAKEN is said again after SETTLE", Handover, "say_taken_again", "t4_", "t6_")
def taken_once(self: Handover) -> None:
    pass


@without("who merges is frozen", Membership, "_merge", "t17_", "t21_")
def not_frozen(self: Membership, view: Any) -> None:
    self.unmerged = True


@without("a merge has winners", decide, "_winners", "t17_", "t21_")
def no_winners(*args: Any) -> Any:
    return (), ()


@without("what a merge drops is listed", decide, "descends", "t21_")
def nothing_listed(*args: Any) -> bool:
    return True


@without("all holders acknowledge", Holders, "acked_by_all", seeds=("crashes", 430, 440))
def one_ack_is_enough(self: Holders, last: int) -> int:
    return min(last, max([h.acked for h in self.values()], default=last))


@without("a grant has an epoch of its own", Ownership, "grant", "t4_")
def same_epoch(self: Ownership, paths: Any, to: Address) -> Any:
    grants = [(path, self.nodes[path], self.nodes[path].epoch) for path in paths]
    for path, node, epoch in grants:
        self._set(path, replace(node, to=(to, epoch)))
    return grants


@without("who is not in the view is not heard", BuddyMachine, "_accept", seeds=("crashes", 0, 1500))
def the_dead_are_heard(self: BuddyMachine, src: Address, tag: Any, message: Any) -> None:
    self.membership._since.setdefault(src, self.tag)
    _accept(self, src, tag, message)


@without("creation begins above what was purged", Ownership, "first_epoch", "found_by_seed_a_stamp")
def low_first_epoch(self: Ownership) -> Any:
    return (self._membership.number, 0)


@without(
    "a view that was missed may have been one of a merge",
    Membership,
    "_may_have_missed_a_merge",
    seeds=("missed", 9, 9),
)
def nothing_was_missed(self: Membership) -> None:
    pass


def each_as_it_thinks(self: Any, told: Any) -> None:
    pass


RULES.append(
    Rule(
        "with a view members agree on who has backups",
        (
            (Backups, "drop_stray", each_as_it_thinks),
            (Buddies, "begin_anew", each_as_it_thinks),
        ),
        seeds=("missed", 9, 9),
    )
)


@without(
    "a merge acknowledges nothing before it is settled",
    Calls,
    "_acknowledge",
    seeds=("stopped", 1, 100),
)
def silence_is_consent(self: Calls, call: Any) -> None:
    outcome = BuddyOutcome.UNKNOWN if self._membership.minority else BuddyOutcome.DONE
    self._end(call, outcome, call.result)


@without("an entry in pieces takes effect as one", Backups, "on_part", "t10_half")
def pieces_take_effect_alone(self: Backups, src: Any, message: Any) -> None:
    backup = self.of.get(src)
    if backup is not None:
        backup.apply(message.changes)
