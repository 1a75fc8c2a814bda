"""stream: views, messages and states are one ordered stream, and its order makes sense.

- A view comes first.
- A multicast comes while its sender is in the reader's view (senders of other sites are in none).
- A multicast names its sender; a unicast reaches only its destination.
"""

from __future__ import annotations

from collections.abc import Callable

from jgroups_py.testing.check.messages import Run
from jgroups_py.testing.sim.member import Member
from jgroups_py.values.address import Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View


class StreamCheck:
    """See the module's docstring."""

    def __init__(
        self, say: Callable[[str, Member, str], None], name: Callable[[Address], str]
    ) -> None:
        self._say = say
        self._name = name
        self._view: dict[Address, View] = {}
        self._sites: dict[Address, str] = {}

    def watch(self, member: Member) -> None:
        self._sites[member.address] = member.site

    def on_messages(self, member: Member, batch: Batch, runs: list[Run]) -> None:
        view = self._view.get(member.address)
        if view is None:
            self._say("stream", member, "a message came before the first view")
            return
        if batch.dest is not None and batch.dest != member.address:
            self._say("stream", member, f"was given a message to {self._name(batch.dest)}")
        for origin in dict.fromkeys([origin for origin, _, _ in runs]):
            near = self._sites.get(origin) == member.site
            if near and batch.src != origin:
                self._say("stream", member, f"a message of {self._name(origin)} has another sender")
            if near and batch.dest is None and origin not in view.members:
                self._say(
                    "stream",
                    member,
                    f"a message of {self._name(origin)} stands in view {view.id}, "
                    "in which it is not",
                )

    def on_view(self, member: Member, view: View) -> None:
        self._view[member.address] = view

    def on_state(self, member: Member, state: bytes | None) -> None:
        if member.address not in self._view:
            self._say("stream", member, "a state came before the first view")
