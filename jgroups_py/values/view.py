"""Views and digests: the members of the group, and the progress of each sender's messages.

Source: WIRE.md section 4; JGroups ViewId, View, MergeView, DeltaView, Digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from jgroups_py.values.address import UUID, Address


@dataclass(frozen=True, slots=True)
class ViewId:
    """The member that made the view, and its number. Numbers only grow for one member."""

    creator: Address
    id: int

    def __str__(self) -> str:
        return f"{self.creator}|{self.id}"


@dataclass(frozen=True, slots=True)
class View:
    """The members of the group, oldest first; the first one is coordinator.

    ``str`` shows it as JGroups does: ``[A|2] (3) [A, B, C]``. ``names`` are the logical names of members
    that this member knew when the channel handed the view out; views are equal whatever is in it.
    """

    view_id: ViewId
    members: tuple[Address, ...]
    names: Mapping[Address, str] = field(
        default_factory=dict, kw_only=True, compare=False, repr=False
    )

    @property
    def coordinator(self) -> Address:
        return self.members[0]

    @property
    def id(self) -> int:
        return self.view_id.id

    def __contains__(self, member: object) -> bool:
        return member in self.members

    def __iter__(self) -> Iterator[Address]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __str__(self) -> str:
        members = ", ".join(map(self._name, self.members))
        head = f"[{self._name(self.view_id.creator)}|{self.id}]"
        return f"{head} ({len(self.members)}) [{members}]"

    def _name(self, member: Address) -> str:
        return self.names.get(member) or str(member)

    def named(self, names: Mapping[Address, str]) -> Self:
        """Return the same view with the ``names`` of its members (of those that are in ``names``)."""
        shown = (self.view_id.creator, *self.members)
        return replace(self, names={m: names[m] for m in shown if m in names})

    def joined_since(self, old: View | None) -> tuple[Address, ...]:
        """Return the members that ``old`` did not have, in this view's order."""
        return tuple(m for m in self.members if old is None or m not in old.members)

    def left_since(self, old: View | None) -> tuple[Address, ...]:
        """Return the members of ``old`` that are gone, in the old view's order."""
        return () if old is None else tuple(m for m in old.members if m not in self.members)


@dataclass(frozen=True, slots=True)
class MergeView(View):
    """The first view after a partition healed; ``subgroups`` are the views that were merged."""

    subgroups: tuple[View, ...] = ()

    def __str__(self) -> str:
        # The zero-argument form of super does not know the class that slots=True makes.
        parts = ", ".join(map(str, self.subgroups))
        return f"MergeView::{View.__str__(self)}, {len(self.subgroups)} subgroups: {parts}"

    def named(self, names: Mapping[Address, str]) -> Self:
        """See ``View.named``; the subgroups get the name, too."""
        subgroups = tuple(view.named(names) for view in self.subgroups)
        return replace(View.named(self, names), subgroups=subgroups)


@dataclass(frozen=True, slots=True)
class DeltaView:
    """A view in the form of its difference to the view ``reference``."""

    view_id: ViewId
    reference: ViewId
    left: tuple[Address, ...]
    joined: tuple[Address, ...]

    def applied_to(self, old: View) -> View:
        """Return the full view; ``old`` must be the view that ``reference`` names."""
        stayed = tuple(m for m in old.members if m not in self.left)
        return View(self.view_id, tuple(dict.fromkeys(stayed + self.joined)))


@dataclass(frozen=True, slots=True)
class Digest:
    """Per sender: highest seqno delivered and highest received. Order is kept."""

    seqnos: Mapping[Address, tuple[int, int]] = field(default_factory=dict)

    def __contains__(self, member: object) -> bool:
        return member in self.seqnos

    def __iter__(self) -> Iterator[Address]:
        return iter(self.seqnos)

    def __len__(self) -> int:
        return len(self.seqnos)

    def delivered(self, member: Address) -> int:
        return self.seqnos.get(member, (0, 0))[0]

    def received(self, member: Address) -> int:
        return self.seqnos.get(member, (0, 0))[1]


def lowest(members: tuple[Address, ...]) -> Address:
    """Return the lowest address as JGroups orders UUIDs (merge leader, coordinator among joiners)."""
    return min(members, key=order_key)


def order_key(member: Address) -> tuple[int, int, bytes]:
    """Return a sort key that works for any address; UUIDs sort as in JGroups."""
    return (*member.order_key, b"") if isinstance(member, UUID) else (0, 0, bytes(member))
