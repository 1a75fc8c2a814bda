"""Messages between members. Each message travels with the key of its sender's view."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from jgroups_py.buddy.site_messages import AnySiteMessage, Found, SiteState, Survey
from jgroups_py.buddy.values import BuddyGroup, Epoch, OwnedNode, Path, Stamp, Wanted
from jgroups_py.values.address import Address

ClaimId = tuple[Address, int]
Changes = tuple[tuple[Path, OwnedNode | None], ...]
"""Nodes by path. None: forget the node."""
AdoptedGroups = tuple[tuple[Address, int, int], ...]
"""(Dead owner, the view in which its nodes were adopted, the last entry of its log that is in them)."""
Adoptions = dict[Address, tuple[int, int]]
"""``AdoptedGroups`` by dead owner."""
Mode = Literal["take", "create", "look"]
"""The kinds of claims. take: the nodes of others come here. create: a node without an owner is created. look: nothing
moves, and the claimant learns the owners."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages between members."""


class Assign(Message, frozen=True):
    """``_remoteAssignToBuddyGroup``: be my buddy. Chunks of the state follow, then ``Filled``."""

    group: BuddyGroup
    seq: int
    adopted: AdoptedGroups
    wrote: int = 0
    """The last entry that changed a value."""
    turn: int = 0
    """The number of this assignment among those of the owner."""


class Chunk(Message, frozen=True):
    """Nodes as they were when the message was sent, on the same stream as each ``Op``."""

    nodes: Changes


class Filled(Message, frozen=True):
    """The buddy has all nodes now."""


class FillAck(Message, frozen=True):
    """Answers ``Filled``. ``turn``: that of the ``Assign`` before it. ``view``: the sender's."""

    turn: int = 0
    view: int = 0


class Dismiss(Message, frozen=True):
    """``_remoteRemoveFromBuddyGroup``: you are my buddy no longer."""

    group: str


class DismissAck(Message, frozen=True):
    """The backup is gone."""


class Pool(Message, frozen=True):
    """``_remoteAnnounceBuddyPoolName``, with zone and host addresses."""

    address: Address
    pool: str
    zone: str
    hosts: tuple[str, ...]


class Part(Message, frozen=True):
    """The first changes of the ``Op`` that follows. All its changes take effect together with it."""

    changes: Changes


class Op(Message, frozen=True):
    """One entry of the owner's log. It is applied whole or not at all."""

    seq: int
    changes: Changes
    adopted: AdoptedGroups = ()
    wrote: bool = False
    """True: all changes are new values. False: none is."""


class OpAck(Message, frozen=True):
    """Everything up to ``seq`` is applied."""

    seq: int


class ClaimRequest(Message, frozen=True):
    """To the coordinator, which puts all claims in one order."""

    claim: ClaimId
    wanted: tuple[Wanted, ...]
    mode: Mode
    only_from: Address | None = None
    survey: Survey | None = None


class Claim(Message, frozen=True):
    """From the coordinator to all."""

    claim: ClaimId
    wanted: tuple[Wanted, ...]
    mode: Mode
    only_from: Address | None = None
    survey: Survey | None = None


class Answer(Message, frozen=True):
    """To the claimant: nodes with the epoch of its ownership, or paths that stay where they are."""

    claim: ClaimId
    grants: tuple[tuple[Path, OwnedNode, Epoch], ...] = ()
    owned: tuple[Path, ...] = ()
    backs_up: tuple[tuple[Path, Address], ...] = ()
    """For diagnosis, if ``search_backup_trees``: by path, the owner whose backup the answerer holds. Paths below a wanted
    one are named only if the claim is a ``look``. Backups never grant."""
    floor: Epoch = (0, 0)
    """The highest epoch of a node that the answerer had and dropped. A member that creates the path begins above it, so
    that no stamp of a purged node is used again."""
    found: Found | None = None
    more: bool = False
    """True: the answer continues in another message, and this message has only grants."""


class Taken(Message, frozen=True):
    """To the former owner: my holders have the node."""

    path: Path
    epoch: Epoch


class Done(Message, frozen=True):
    """To the new owner: my holders and I have it no longer."""

    path: Path
    epoch: Epoch


class Listed(Message, frozen=True):
    """A node in the inventory of a merge."""

    path: Path
    epoch: Epoch
    stamp: Stamp
    removed: bool
    lineage: tuple[Stamp, ...]


class Orphan(Message, frozen=True):
    """The backup of an owner that is not in the view."""

    group: Address
    complete: bool
    seq: int
    adopted: AdoptedGroups
    givers: tuple[tuple[Path, Epoch], ...]
    nodes: tuple[Listed, ...] = ()


class Inventory(Message, frozen=True):
    """To the coordinator of a new view. ``nodes`` only if ``full``: while a merge is unresolved."""

    full: bool
    unmerged: bool
    orphans: tuple[Orphan, ...]
    givers: tuple[tuple[Path, Epoch], ...]
    adopted: tuple[tuple[Address, int, bool], ...]
    """(Dead owner, the view of the adoption, True if all holders have its nodes)."""
    nodes: tuple[Listed, ...] = ()
    sites: SiteState = SiteState()
    holders: tuple[Address, ...] = ()
    """Holders of the sender when the view came, complete or not."""
    keeps: tuple[Address, ...] = ()
    """Owners whose backups the sender had then."""


class AskAll(Message, frozen=True):
    """From the coordinator: the merge of a member is unresolved, so freeze and send a full inventory."""


class Winner(Message, frozen=True):
    """The member that keeps a path that several members own: as owner, or as guardian of ``group``."""

    path: Path
    epoch: Epoch
    stamp: Stamp
    member: Address
    group: Address | None = None


class Discarded(Message, frozen=True):
    """A value that a merge dropped and the winner may not contain."""

    path: Path
    stamp: Stamp
    member: Address
    side: Address
    """The member that created the view in which the value was written."""


class Settle(Message, frozen=True):
    """From the coordinator: the fate of the nodes of the dead, and of nodes that were on the move."""

    guardians: tuple[tuple[Address, Address], ...] = ()
    """(Dead owner, the member that adopts its nodes)."""
    adopted_by: tuple[tuple[Address, Address], ...] = ()
    """(Dead owner, the member that has its nodes already, or adopts them with another group)."""
    safe: tuple[Address, ...] = ()
    """Dead owners whose orphaned backups may go. Their nodes are adopted, and the adopter's holders have them."""
    unconfirmed: tuple[tuple[Path, Epoch, Address], ...] = ()
    """By path, a new owner. It does not know yet that the former owner and its holders have dropped
    the node."""
    unmerged: bool = False
    winners: tuple[Winner, ...] = ()
    discarded: tuple[Discarded, ...] = ()
    sites: SiteState = SiteState()
    ends: tuple[tuple[Address, int], ...] = ()
    """(Dead owner whose nodes are adopted now, the last entry of its log that they contain)."""
    lost: tuple[tuple[Address, Address], ...] = ()
    """(Owner, a member that has dropped its backup and is taken for a holder)."""
    stray: tuple[tuple[Address, Address], ...] = ()
    """(Owner, a member that keeps its backup and is no holder)."""


class Adopted(Message, frozen=True):
    """The sender's holders have the adopted nodes: orphaned backups of these groups may go."""

    groups: AdoptedGroups


class Leaving(Message, frozen=True):
    """I am going: prefer others as buddies. ``ready``: the sender can leave without loss."""

    ready: bool = False


class TakeMine(Message, frozen=True):
    """To the heir of the sender, which leaves."""


class Clean(Message, frozen=True):
    """To the coordinator: my holders have the changes of the merge here."""


class Merged(Message, frozen=True):
    """From the coordinator: all members are clean."""


class ToSite(Message, frozen=True):
    """To the relay: a message for another site."""

    site: str
    message: AnySiteMessage


class FromSite(Message, frozen=True):
    """From the relay, or from a member that does not own the nodes: a message of another site."""

    site: str
    message: AnySiteMessage


class SiteTold(Message, frozen=True):
    """From the coordinator: news of the sites."""

    state: SiteState


class SiteAsk(Message, frozen=True):
    """To the coordinator: make this site the first one (``promote``); send everything to a site
    (``bootstrap``); removed nodes could not be kept for a site (``overflow``)."""

    what: Literal["promote", "bootstrap", "overflow"]
    site: str = ""
    epoch: int = 0


REMOTE_NAMES: Final[dict[type[Message], str]] = {
    Assign: "_remoteAssignToBuddyGroup",
    Dismiss: "_remoteRemoveFromBuddyGroup",
    Pool: "_remoteAnnounceBuddyPoolName",
}
"""The names of these messages in JBoss Cache."""

THIS_VIEW_ONLY: Final = frozenset(
    {ClaimRequest, Claim, Answer, Inventory, AskAll, Settle, Clean, Merged, SiteTold}
)
"""A member drops these messages if its view is not the sender's."""

FROM_COORDINATOR: Final = frozenset({Claim, AskAll, Settle, Merged, SiteTold})
"""A member refuses these messages from other senders."""


def groups_of(adoptions: Adoptions) -> AdoptedGroups:
    return tuple((group, view, end) for group, (view, end) in adoptions.items())
