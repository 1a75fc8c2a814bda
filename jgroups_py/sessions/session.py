"""Session: the attributes of one visitor, for one request. It does no input or output.

Values are bytes until they are read, and are compared as bytes at the end. So a change in place
(``session["cart"].append(7)``) is noticed, and an unchanged value is not written. Requests that run side by side and
change different attributes do not undo each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from jgroups_py.cache.node import Node, checked_key
from jgroups_py.errors import CacheRefused
from jgroups_py.sessions.ids import node_name

RESERVED: Final = "@"
"""The first character of the middleware's own names."""
CREATED: Final = "@created"
USED: Final = "@used"
"""Seconds since 1970, by the clock of the member that wrote them."""
Decode = Callable[[bytes], Any]
Encode = Callable[[Mapping[str, Any]], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """Changes to store: ``values`` to set (``data`` has them as they are stored) and names to remove."""

    values: Mapping[str, Any]
    data: Mapping[str, bytes]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.values or self.removed)


class Session(MutableMapping[str, Any]):
    """A session, made by ``SessionStore.load``, for one thread or task. It is saved with the response.

    Names are texts that do not begin with "@"; values are of the types that the cache's codec takes (by default None,
    bool, int, float, str, bytes, lists, dicts, datetimes). A visitor gets a session, and a cookie, when
    the first attribute is set.
    """

    def __init__(self, decode: Decode, id: str | None = None, node: Node | None = None) -> None:
        self.id = id
        """The secret in the visitor's cookie, or None if there is no session yet. Never log it."""
        self.invalidated = False
        self.renewed = False
        self.created = 0.0
        self.used = 0.0
        self._decode = decode
        self._stored: dict[str, bytes] = {}
        self._values: dict[str, Any] = {}
        self._removed: set[str] = set()
        if node is not None:
            self._stored = dict(node.attributes)
            self.created, self.used = (self._time(name) for name in (CREATED, USED))

    def _time(self, name: str) -> float:
        value = self._decode(self._stored.pop(name)) if name in self._stored else 0.0
        return value if isinstance(value, float) else 0.0

    @property
    def name(self) -> str:
        """The name of the session in the cache. It may be logged. It is empty if there is no session yet."""
        return node_name(self.id) if self.id else ""

    # --- a mapping

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            if name in self._removed:
                raise KeyError(name)
            self._values[name] = self._decode(self._stored[name])
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if checked_key(name).startswith(RESERVED):
            raise CacheRefused(f'"{name}": names of attributes do not begin with "{RESERVED}"')
        self._values[name] = value
        self._removed.discard(name)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._values.pop(name, None)
        self._removed.add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._values or (name in self._stored and name not in self._removed)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*self._stored, *self._values])
        return iter([name for name in names if name not in self._removed])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return f"<session {self.name[:8] or '(new)'}: {', '.join(self)}>"

    # --- more

    def invalidate(self) -> None:
        """Log out: remove the session everywhere, and the visitor's cookie."""
        self.clear()
        self.invalidated = True
        self.renewed = False

    def renew(self) -> None:
        """Log in: keep the attributes under a new id. The old id is worth nothing any more, also to an attacker who made the
        visitor use it (session fixation)."""
        self.renewed = self.id is not None

    def changes(self, encode: Encode) -> SessionChanges:
        """Return the changes since the session was loaded or saved. Raise CacheRefused for a value that cannot be
        stored."""
        data = encode(self._values)
        changed = {n: d for n, d in data.items() if self._stored.get(n) != d}
        removed = tuple(name for name in self._removed if name in self._stored)
        return SessionChanges({name: self._values[name] for name in changed}, changed, removed)

    def saved(self, changes: SessionChanges, used: float) -> None:
        """Note that these changes are stored."""
        for name in changes.removed:
            self._stored.pop(name, None)
        self._stored.update(changes.data)
        self._removed.clear()
        self.used = used
        self.renewed = False
