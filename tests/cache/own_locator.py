"""Buddy locators of users, as a cache file may name them; most of them have a fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any


class FirstMember:
    """Chooses always the first other member."""

    def init(self, properties: Mapping[str, str]) -> None:
        pass

    def get_buddies(self, members: Sequence[Any]) -> Any:
        return [member.address for member in members[1:2]]


class Raises(FirstMember):
    def get_buddies(self, members: Sequence[Any]) -> Any:
        raise RuntimeError("no idea")


class Strangers(FirstMember):
    def get_buddies(self, members: Sequence[Any]) -> Any:
        return ["B", None, members[0].address, *members]


class Nothing(FirstMember):
    def get_buddies(self, members: Sequence[Any]) -> Any:
        return None


class Endless(FirstMember):
    def get_buddies(self, members: Sequence[Any]) -> Any:
        return cycle(member.address for member in members)


class AllOthers(FirstMember):
    def get_buddies(self, members: Sequence[Any]) -> Any:
        return [member.address for member in members[1:]]


class InitRaises(FirstMember):
    def init(self, properties: Mapping[str, str]) -> None:
        raise KeyError("rack")


class NotMade(FirstMember):
    def __init__(self, needed: int) -> None:
        pass
