"""Answers of a channel that come at once, without its loop: the same for threads and for asyncio."""

from __future__ import annotations

from abc import abstractmethod

from jgroups_py.channel.channel import Channel
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.view import View


class ChannelLooks:
    """Reads only parts that never change in place, so that no thread is crossed."""

    @property
    @abstractmethod
    def _value(self) -> Channel: ...

    @property
    def name(self) -> str:
        """The logical name of this member."""
        return self._value.name

    @property
    def cluster(self) -> str:
        return self._value.cluster

    @property
    def address(self) -> UUID:
        """The address of this member; new each time a channel is opened."""
        return self._value.address

    @property
    def view(self) -> View:
        """The newest view; the stream may still hold messages from before it."""
        return self._value.view

    def name_of(self, member: Address | None) -> str:
        """Return the logical name of a member; its address as text where the name is not known."""
        return self._value.name_of(member)
