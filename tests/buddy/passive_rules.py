"""Rules for values that have left memory; each is left out once. See buddy_rules.py."""

from collections import deque
from typing import Any

from buddy_rules import without
from msgspec.structs import replace

from jgroups_py.buddy.backups import Backup
from jgroups_py.buddy.buddies import Buddies
from jgroups_py.buddy.claims import Claims
from jgroups_py.buddy.holders import Holder
from jgroups_py.buddy.messages import Chunk, Filled
from jgroups_py.values.address import Address

_answer = Claims._answer


@without("a grant waits for the value", Claims, "_answer", "p1_", "p5_", seeds=("passive", 0, 100))
def granted_as_it_is(self: Claims, claim: Any) -> bool:
    for path, node in self._covered(self._reach[claim.claim]):
        self._ownership._set(path, replace(node, passive=False))
    return _answer(self, claim)


@without("the push waits for the value", Buddies, "_push", "p2_")
def pushed_as_it_is(self: Buddies, member: Address, holder: Holder, todo: deque[Any]) -> None:
    own = self._ownership.nodes
    self._out.send(
        member, Chunk(tuple((p, replace(own[p], passive=False)) for p in todo if p in own))
    )
    holder.todo = None
    self._out.send(member, Filled())


@without("holders keep the value of what left memory", Backup, "apply", "p3_")
def no_value(self: Backup, changes: Any) -> None:
    for path, node in changes:
        if node is None:
            self.nodes.pop(path, None)
        else:
            self.nodes[path] = node
