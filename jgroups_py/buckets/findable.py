"""FindableProxies: the proxies with attributes of all members, as a manager knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.messages import Findable

FINDABLE_MAX: Final = 100_000
"""The most proxies with attributes that a manager knows. Beyond it they are counted ``findable_full`` and cannot be
found."""


class FindableProxies:
    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._found: dict[Cep, list[tuple[ProxyId, Mapping[str, str]]]] = {}

    def take(self, frm: Cep, message: Findable) -> None:
        """Replace the proxies of this proxy manager."""
        self._found.pop(frm, None)
        room = FINDABLE_MAX - sum(map(len, self._found.values()))
        if len(message.proxies) > room:
            self._counts["findable_full"] += 1
        self._found[frm] = [(proxy, has) for proxy, has in message.proxies[:room]]

    def on_view(self, members: Collection[str]) -> None:
        """Forget the proxies of lost members."""
        self._found = {cep: p for cep, p in self._found.items() if cep.member in members}

    def all(self) -> list[tuple[ProxyId, Mapping[str, str]]]:
        """Return all proxies in the order of their managers."""
        return [proxy for cep in sorted(self._found) for proxy in self._found[cep]]
