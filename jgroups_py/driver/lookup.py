"""Looks up a host's name, for every driver that executes ``Resolve``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jgroups_py.stack.ports import Resolve, Resolved
from jgroups_py.values.address import is_numeric_host

Resolver = Callable[[str], Sequence[str]]
"""Gives the numeric addresses of a host's name. It raises OSError or gives none for an unknown name."""


def addresses_of(resolver: Resolver, out: Resolve) -> Resolved:
    """Return the answer of ``resolver``. It never raises: another error than OSError is a problem, too."""
    try:
        found = tuple(dict.fromkeys(resolver(out.host)))
    except OSError as error:
        return Resolved(out.handle, (), error.strerror or str(error) or type(error).__name__)
    except Exception as error:  # a resolver of the user's, or a name that cannot be encoded
        return Resolved(out.handle, (), f"{type(error).__name__}: {error}")
    numeric = tuple(address for address in found if is_numeric_host(address))
    return Resolved(out.handle, numeric, "" if numeric else "it has no address")


def knows_none(host: str) -> Sequence[str]:
    """Return no address. This resolver knows no names."""
    raise OSError(-2, "Name or service not known")
