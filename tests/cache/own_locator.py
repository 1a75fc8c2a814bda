"""A buddy locator of one's own, as a cache file may name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class FirstMember:
    """Always the first other one."""

    def init(self, properties: Mapping[str, str]) -> None:
        pass

    def get_buddies(self, members: Sequence[Any]) -> Sequence[Any]:
        return members[1:2]
