"""Names of ends: Cep, the end point of a component; ProxyId, the end point of a client."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

COMPONENT_MAX: Final = 200
"""The most characters of the name of a member or component."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=COMPONENT_MAX)]


class Cep(msgspec.Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True):
    """A Communication End-Point: a component of a member. ``member`` is new with each start of a process, so a restarted process is never
    regarded as the lost process."""

    member: Name
    component: Name

    def __str__(self) -> str:
        return f"{self.component}@{self.member}"


class ProxyId(msgspec.Struct, frozen=True, array_like=True, order=True, forbid_unknown_fields=True):
    """A client's representative: the proxy manager that made it, and a number that this manager uses once."""

    manager: Cep
    number: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
