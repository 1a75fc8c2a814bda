"""Finds the protocol that raised an error, for the error that the stack's owner gets."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from jgroups_py.driver.unwrap import leaves
from jgroups_py.errors import ConfigError, ProtocolFailed
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.raised import said


def blamed(error: Exception, cluster: str) -> Exception:
    """Return ProtocolFailed with ``error`` as its cause when a protocol raised it. Otherwise return ``error`` itself, such as a
    socket that cannot be opened or a wrong stack file of RELAY.

    The traceback names the protocol. A wrapper around handlers would cost time for every message.
    """
    if isinstance(error, ConfigError | ProtocolFailed):
        return error
    for one in leaves(error):
        found = _innermost(one.__traceback__)
        if found is not None:
            name, place = found
            text = f"{name} raised {said(one)} ({place}); this member is out of {cluster}"
            failed = ProtocolFailed(text, name)
            failed.__cause__ = one
            return failed
    return error


def _innermost(traceback: TracebackType | None) -> tuple[str, str] | None:
    """Return the last protocol that was called, and the place: ``counter.py:12, in up``."""
    found = None
    while traceback is not None:
        frame = traceback.tb_frame
        me = frame.f_locals.get("self")
        if isinstance(me, Protocol):
            code = frame.f_code
            place = f"{Path(code.co_filename).name}:{traceback.tb_lineno}, in {code.co_name}"
            found = getattr(me, "name", type(me).__name__), place
        traceback = traceback.tb_next
    return found
