"""Port: a component's access to time, random numbers, timers and sending. Index: a router's table of
buckets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from jgroups_py.buckets.ends import Cep
from jgroups_py.buckets.messages import BucketRow, Hello, IndexState, Message
from jgroups_py.buckets.settings import InstanceSettings


class Port(Protocol):
    """``members``: of the present view, in its order. ``hellos``: their components, as far as reported."""

    cep: Cep
    random: random.Random

    @property
    def members(self) -> tuple[str, ...]: ...

    @property
    def hellos(self) -> dict[str, Hello]: ...

    @property
    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    @property
    def wall(self) -> float:
        """Return seconds since 1970."""
        ...

    def after(self, delay: float, job: Callable[[], None]) -> None:
        """Call ``job`` later."""
        ...

    def post(self, to: Cep, message: Message) -> None:
        """Send a message. Between two members messages arrive in order, or the view changes."""
        ...


class Index(Protocol):
    """An index copy, or a mirror of one. ``on_rows``: called when ``state`` has changed."""

    on_rows: list[Callable[[], None]]

    @property
    def state(self) -> IndexState: ...

    def get_bucket_location(self, bucket: int) -> BucketRow | None: ...


def index_copies(port: Port, settings: InstanceSettings) -> list[Cep]:
    """Return the index copies of the static set whose members are in the view."""
    return [
        Cep(member, info.name)
        for member in port.members
        if (hello := port.hellos.get(member)) is not None
        for info in hello.parts
        if info.kind == "index" and info.name in settings.index_copies
    ]
