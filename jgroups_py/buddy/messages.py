"""What members say to each other. Each message travels with the key of its sender's view."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from jgroups_py.buddy.site_messages import AnySiteMessage, Found, SiteState, Survey
from jgroups_py.buddy.values import BuddyGroup, Epoch, Node, Path, Stamp, Wanted
from jgroups_py.values.address import Address

ClaimId = tuple[Address, int]
Changes = tuple[tuple[Path, Node | None], ...]
"""None: forget the node."""
AdoptedGroups = tuple[tuple[Address, int, int], ...]
"""(Dead owner, the view in which its nodes were adopted, the last entry of its log that is in them)."""
Adoptions = dict[Address, tuple[int, int]]
"""The same, by dead owner."""
Mode = Literal["take", "create", "look"]
"""What a claim may do: take what others own; create what nobody owns; nothing, but hear who has what."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all."""


class Assign(Message, frozen=True):
    """``_remoteAssignToBuddyGroup``: be my buddy. Chunks of the state follow, then ``Filled``."""

    group: BuddyGroup
    seq: int
    adopted: AdoptedGroups
    wrote: int = 0
    """The last entry that changed a value."""
    turn: int = 0
    """Which assignment of this owner it is."""


class Chunk(Message, frozen=True):
    """Nodes as they were when this was sent, on the same stream as the ``Op``s."""

    nodes: Changes


class Filled(Message, frozen=True):
    """The buddy has everything now."""


class FillAck(Message, frozen=True):
    """Answers ``Filled``; ``turn``: of the ``Assign`` before it; ``view``: the sender's."""

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
    """Changes of the ``Op`` that follows: its last ones come with itself, and all take effect with it."""

    changes: Changes


class Op(Message, frozen=True):
    """One entry of the owner's log; applied whole or not at all."""

    seq: int
    changes: Changes
    adopted: AdoptedGroups = ()
    wrote: bool = False
    """All changes are new values; else none is."""


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
    """To the claimant: nodes with the epoch of its ownership; or paths that stay where they are."""

    claim: ClaimId
    grants: tuple[tuple[Path, Node, Epoch], ...] = ()
    owned: tuple[Path, ...] = ()
    backs_up: tuple[tuple[Path, Address], ...] = ()
    """Diagnosis, if ``search_backup_trees``: whose backup of which path the answerer holds. Of what is
    below a path only when asked to ``look``. Backups never grant."""
    floor: Epoch = (0, 0)
    """The highest epoch of what the answerer had and dropped: who creates the path begins above it, or
    a stamp of a purged node might be given again."""
    found: Found | None = None
    more: bool = False
    """Grants only, as many as go into one message; the answer goes on."""


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
    """Third: all holders have it."""
    nodes: tuple[Listed, ...] = ()
    sites: SiteState = SiteState()
    holders: tuple[Address, ...] = ()
    """Who had our nodes, or was to get them, when the view came."""
    keeps: tuple[Address, ...] = ()
    """Members whose backups were here then."""


class AskAll(Message, frozen=True):
    """From the coordinator: somebody's merge is unresolved, so freeze and send a full inventory."""


class Winner(Message, frozen=True):
    """Who keeps a path that several have: ``member`` as owner, or as guardian of ``group``."""

    path: Path
    epoch: Epoch
    stamp: Stamp
    member: Address
    group: Address | None = None


class Discarded(Message, frozen=True):
    """A value that a merge dropped and that the winner may not have in its history."""

    path: Path
    stamp: Stamp
    member: Address
    side: Address
    """Who created the view of the side it was written at."""


class Settle(Message, frozen=True):
    """From the coordinator: what becomes of the dead, and of what was on the move."""

    guardians: tuple[tuple[Address, Address], ...] = ()
    """(dead owner, who adopts its nodes)."""
    adopted_by: tuple[tuple[Address, Address], ...] = ()
    """(dead owner, who has its nodes already, or adopts them with another group)."""
    safe: tuple[Address, ...] = ()
    """Dead owners whose orphaned backups may go: adopted, and the adopter's holders have it."""
    unconfirmed: tuple[tuple[Path, Epoch, Address], ...] = ()
    """Per path the new owner that was not told that the former one has let go."""
    unmerged: bool = False
    winners: tuple[Winner, ...] = ()
    discarded: tuple[Discarded, ...] = ()
    sites: SiteState = SiteState()
    ends: tuple[tuple[Address, int], ...] = ()
    """(dead owner that is adopted now, itself or with another group, the last entry in what is adopted)."""
    lost: tuple[tuple[Address, Address], ...] = ()
    """(owner, who has dropped its backup and is taken for a holder)."""
    stray: tuple[tuple[Address, Address], ...] = ()
    """(owner, who keeps a backup of it and is no holder)."""


class Adopted(Message, frozen=True):
    """The sender's holders have what it adopted: orphaned backups of these groups may go."""

    groups: AdoptedGroups


class Leaving(Message, frozen=True):
    """I am going: prefer others as buddies. ``ready``: nothing is lost when I am gone."""

    ready: bool = False


class TakeMine(Message, frozen=True):
    """To the heir of who leaves."""


class Clean(Message, frozen=True):
    """To the coordinator: what the merge changed here, my holders have."""


class Merged(Message, frozen=True):
    """From the coordinator: all are clean."""


class ToSite(Message, frozen=True):
    """To the relay: for another site."""

    site: str
    message: AnySiteMessage


class FromSite(Message, frozen=True):
    """From the relay, or from a member that does not own the nodes: came from another site."""

    site: str
    message: AnySiteMessage


class SiteTold(Message, frozen=True):
    """From the coordinator: what it knows of the sites is news."""

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
"""The names under which seed and users know them."""

THIS_VIEW_ONLY: Final = frozenset(
    {ClaimRequest, Claim, Answer, Inventory, AskAll, Settle, Clean, Merged, SiteTold}
)
"""Dropped in any other view than the sender's."""

FROM_COORDINATOR: Final = frozenset({Claim, AskAll, Settle, Merged, SiteTold})
"""Refused from anybody else."""


def groups_of(adoptions: Adoptions) -> AdoptedGroups:
    return tuple((group, view, end) for group, (view, end) in adoptions.items())
