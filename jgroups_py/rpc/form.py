"""How calls and what came of them become payloads of messages: what the two forms have in common.

Between members of ours a payload is bytes (ours.py); with Java members it is an object (java.py).
Which one it is shows in the type of the message, so both kinds can be in one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from typing import Protocol as Interface

from jgroups_py.errors import CallError
from jgroups_py.values.address import Address

TEXT_MAX: Final = 1000
"""Characters of an error's text that travel."""


class Encoded(NamedTuple):
    """A message's payload, its size as flow control counts it, flags it needs, and its type."""

    payload: Any
    size: int
    flags: int
    type: int


class Unreadable(Exception):
    """A payload that is not what it should be. Its sender is told, where it waits."""


class Form(Interface):
    """Reading raises Unreadable and nothing else. Writing raises LocalProtocolError for a value
    that has no encoding."""

    def write_request(self, method: str, args: Sequence[Any]) -> Encoded: ...

    def read_request(self, payload: Any) -> tuple[str, Sequence[Any]]: ...

    def write_value(self, value: Any) -> Encoded: ...

    def read_value(self, payload: Any) -> Any: ...

    def write_error(self, type: str, text: str, *, refused: bool) -> Encoded: ...

    def read_error(self, payload: Any, member: Address) -> CallError:
        """A RemoteError or Refused."""
