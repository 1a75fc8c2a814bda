"""Changes that wait for room in the inbox of a process (jgroups_py/maps/held.py)."""

from __future__ import annotations

from jgroups_py.maps.errors import InboxFull
from jgroups_py.maps.held import HeldMessages


class Inbox:
    """A host with room for a number of messages. ``ends``: this host ends its link."""

    def __init__(self, room: int = 0, ends: bytes = b"", most: int = 100) -> None:
        self.room = room
        self.ends = ends
        self.taken: list[tuple[int, bytes, bool]] = []
        self.held = HeldMessages(most, self.take)

    def take(self, link: int, data: bytes, shared: bool) -> None:
        if not self.room:
            raise InboxFull(len(data))
        self.room -= 1
        self.taken.append((link, data, shared))
        if data == self.ends:
            self.held.drop(link)


def test_each_link_keeps_its_order_and_all_take_turns() -> None:
    inbox = Inbox()
    for link, data in ((1, b"a"), (1, b"b"), (2, b"c"), (1, b"d")):
        assert inbox.held.add(link, data, shared=link == 2)
    inbox.held.retry()
    assert inbox.taken == [] and inbox.held.size == 4 and 1 in inbox.held
    inbox.room = 2
    inbox.held.retry()
    assert inbox.taken == [(1, b"a", False), (2, b"c", True)]
    assert 2 not in inbox.held and inbox.held.size == 2
    inbox.room = 10
    inbox.held.retry()
    assert inbox.taken[2:] == [(1, b"b", False), (1, b"d", False)]
    assert 1 not in inbox.held and inbox.held.size == 0


def test_all_links_together_have_a_limit() -> None:
    inbox = Inbox(most=10)
    assert inbox.held.add(1, bytes(6), False) and not inbox.held.add(2, bytes(5), False)
    assert 2 not in inbox.held
    inbox.held.drop(1)
    assert inbox.held.add(2, bytes(10), False) and inbox.held.size == 10


def test_a_link_that_ends_takes_its_sent_changes_with_it() -> None:
    inbox = Inbox(room=10, ends=b"end")
    for link, data in ((1, b"end"), (1, b"lost"), (2, b"kept")):
        inbox.held.add(link, data, False)
    inbox.held.retry()
    assert [data for _, data, _ in inbox.taken] == [b"end", b"kept"]
    assert inbox.held.size == 0 and 1 not in inbox.held
