"""The interface of the two forms in which calls and their results become payloads of messages.

Between members of ours a payload is bytes (ours.py). With Java members it is an object (java.py). The type of the
message tells the form, so both kinds can be in one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from typing import Protocol as Interface

from jgroups_py.errors import CallError
from jgroups_py.values.address import Address

TEXT_MAX: Final = 1000
"""The most characters of an error's text that are sent."""


class Encoded(NamedTuple):
    """A message's payload, its size as flow control counts it, flags it needs, and its type."""

    payload: Any
    size: int
    flags: int
    type: int


class Unreadable(Exception):
    """A payload that cannot be read. If its sender waits, it gets a refusal."""


class Form(Interface):
    """Writes and reads calls and results. Reading raises only Unreadable. Writing raises LocalProtocolError for a value
    that has no encoding."""

    def write_request(self, method: str, args: Sequence[Any]) -> Encoded: ...

    def read_request(self, payload: Any) -> tuple[str, Sequence[Any]]: ...

    def write_value(self, value: Any) -> Encoded: ...

    def read_value(self, payload: Any) -> Any: ...

    def write_error(self, type: str, text: str, *, refused: bool) -> Encoded: ...

    def read_error(self, payload: Any, member: Address) -> CallError:
        """Return a RemoteError or Refused."""
