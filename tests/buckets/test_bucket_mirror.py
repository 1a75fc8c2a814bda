"""A mirror of the index alone: the index copy that it follows, and the rows that it accepts."""

from __future__ import annotations

import random
from collections.abc import Callable

from seed_instance import seed_settings

from jgroups_py.buckets import Cep
from jgroups_py.buckets.messages import (
    BucketRow,
    ComponentInfo,
    Follow,
    Hello,
    IndexState,
    Message,
    Rows,
)
from jgroups_py.buckets.mirror import IndexMirror

A, B = Cep("a", "i/n1"), Cep("b", "i/n2")


class FakePort:
    def __init__(self) -> None:
        self.cep = Cep("c", "follower/c")
        self.random = random.Random(1)
        self.now = self.wall = 0.0
        self.members: tuple[str, ...] = ("a", "b", "c")
        self.hellos = {
            cep.member: Hello([ComponentInfo(cep.component, "index", cep.member)]) for cep in (A, B)
        }
        self.posted: list[tuple[Cep, Message]] = []

    def after(self, delay: float, job: Callable[[], None]) -> None:
        raise AssertionError("it needs no timer")

    def post(self, to: Cep, message: Message) -> None:
        self.posted.append((to, message))


def mirror() -> tuple[IndexMirror, FakePort]:
    port = FakePort()
    made = IndexMirror(port, seed_settings())
    made.on_view()
    return made, port


def state(version: int, *epochs: int, whole: bool = True) -> IndexState:
    rows = {bucket: BucketRow(bucket, epoch, A) for bucket, epoch in enumerate(epochs) if epoch}
    return IndexState(version, rows, {}, [], whole=whole)


def test_a_mirror_follows_the_first_copy_and_the_next_one_when_that_is_lost() -> None:
    made, port = mirror()
    assert port.posted == [(A, Follow(0))]
    made.handle(A, Rows(0, state(3, 1, 1)))
    port.members = ("b", "c")
    made.on_view()
    assert port.posted[1:] == [(B, Follow(3))]
    made.on_view()
    assert len(port.posted) == 2, "it follows already"
    made.on_view(merged=True)
    assert port.posted[2:] == [(B, Follow(3))], "what it was told may be lost"


def test_a_mirror_takes_differences_to_its_own_version_and_asks_for_all_otherwise() -> None:
    made, port = mirror()
    changes: list[int] = []
    made.on_rows.append(lambda: changes.append(made.state.version))
    made.handle(A, Rows(0, state(3, 1, 1)))
    made.handle(A, Rows(3, state(4, 0, 2, whole=False)))
    assert [row.epoch for row in made.state.rows.values()] == [1, 2] and made.state.whole
    made.handle(A, Rows(5, state(6, 3, whole=False)))
    assert made.state.version == 4 and port.posted[1:] == [(A, Follow(4))]
    made.handle(A, Rows(0, state(6, 3, 2)))
    made.handle(A, Rows(0, state(5, 2, 2)))
    assert changes == [3, 4, 6], "an older state is of no use"


def test_a_mirror_takes_rows_of_its_index_copy_only() -> None:
    made, _ = mirror()
    made.handle(B, Rows(0, state(9, 9)))
    made.handle(A, Follow(1))
    assert made.state.version == 0 and made.counts["unexpected"] == 2
