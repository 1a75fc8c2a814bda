"""The member at which a node of another site lives at this site: the one that owns it, else its home.

Buddy locators choose buddies. This one chooses owners. Users subclass ``HomeLocator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from jgroups_py.buddy.values import Path
from jgroups_py.values.address import Address


class HomeLocator:
    """The home is the member with the highest hash of path and member. When a member goes, only its own paths get another
    home. When a member joins, its paths come from all others."""

    def home(self, path: Path, members: Sequence[Address]) -> Address:
        """Return the home of a path. ``members``: never empty, the same at every relay of the same view."""
        key = blake2b("\0".join(path).encode(), digest_size=32).digest()
        return max(members, key=lambda m: blake2b(bytes(m), key=key, digest_size=8).digest())
