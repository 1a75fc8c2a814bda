"""Proxies and their manager (A45, A46): client channels and the ids by which entries address clients. Without I/O.

A dynamic proxy is made for a client and goes with it. A static one is made by an administrator's program, and again by the same program when it
starts after a failure. Its id is a new one then; entries find it by its name, the attribute ``STATIC``, as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from jgroups_py.buckets.ends import Cep, ProxyId
from jgroups_py.buckets.errors import Busy, Refused

PROXIES_MAX: Final = 100_000
"""The most proxies of one manager."""
ATTRIBUTES_MAX: Final = 16
"""The most attributes of one proxy, besides the name of a static one."""
STATIC: Final = "static"
"""The attribute of static proxies that has their name."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """``channel``: the manager's way to the client, any value. ``deliver``: called with each message for the client, in
    the manager's loop; it does not wait."""

    id: ProxyId
    channel: Hashable
    deliver: Callable[[bytes], None]
    static: str | None = None
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class ProxyManager:
    """The proxies of one CEP."""

    def __init__(self, cep: Cep, proxies_max: int = PROXIES_MAX) -> None:
        self.cep = cep
        self.proxies_max = proxies_max
        self.counts: Counter[str] = Counter()
        self._proxies: dict[ProxyId, Proxy] = {}
        self._by_channel: dict[Hashable, ProxyId] = {}
        self._next = 1

    def create_proxy(
        self,
        channel: Hashable,
        deliver: Callable[[bytes], None],
        *,
        static: str | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> ProxyId:
        """Make a proxy for a client's channel (CreateProxy).

        Raises Busy: there are ``proxies_max``, counted ``proxies_full``. Refused: the channel has a proxy, another
        static proxy of this manager has the name, or there are too many attributes."""
        if channel in self._by_channel:
            raise Refused(f"channel {channel!r} has a proxy: {self._by_channel[channel]}")
        if attributes and len(attributes) > ATTRIBUTES_MAX:
            raise Refused(f"a proxy has at most {ATTRIBUTES_MAX} attributes, not {len(attributes)}")
        if static is not None and any(p.static == static for p in self._proxies.values()):
            raise Refused(f"there is a static proxy {static!r}")
        if len(self._proxies) >= self.proxies_max:
            self.counts["proxies_full"] += 1
            raise Busy(f"proxies_max: this proxy manager has {self.proxies_max} proxies")
        proxy_id = ProxyId(self.cep, self._next)
        self._next += 1
        given = dict(attributes or {})
        if static is not None:
            given[STATIC] = static
        self._proxies[proxy_id] = Proxy(proxy_id, channel, deliver, static, MappingProxyType(given))
        self._by_channel[channel] = proxy_id
        return proxy_id

    def delete_proxy(self, which: ProxyId | Hashable) -> bool:
        """Forget a proxy by its id or its channel (DeleteProxy). False: there is none. Messages for it are counted and dropped."""
        proxy_id = which if isinstance(which, ProxyId) else self._by_channel.get(which)
        proxy = self._proxies.pop(proxy_id, None) if proxy_id is not None else None
        if proxy is None:
            return False
        del self._by_channel[proxy.channel]
        return True

    def get_proxy_id(self, channel: Hashable) -> ProxyId | None:
        """Return the id of this channel's proxy (GetProxyID)."""
        return self._by_channel.get(channel)

    def get_client_channel(self, proxy_id: ProxyId) -> Hashable | None:
        """Return the channel of this proxy (GetClientChannel)."""
        proxy = self._proxies.get(proxy_id)
        return proxy.channel if proxy is not None else None

    def deliver(self, proxy_id: ProxyId, body: bytes) -> bool:
        """Hand a message to a client. False: there is no such proxy, counted ``replies_without_proxy``."""
        proxy = self._proxies.get(proxy_id)
        if proxy is None:
            self.counts["replies_without_proxy"] += 1
            return False
        proxy.deliver(body)
        return True

    def findable(self) -> list[tuple[ProxyId, dict[str, str]]]:
        """Return the proxies with attributes, which ``find_proxy`` searches."""
        return [(p.id, dict(p.attributes)) for p in self._proxies.values() if p.attributes]

    def __len__(self) -> int:
        return len(self._proxies)
