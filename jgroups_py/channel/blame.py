"""Who raised what came out of a stack: for the error that its owner gets."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from jgroups_py.driver.unwrap import leaves
from jgroups_py.errors import ConfigError, ProtocolFailed
from jgroups_py.stack.protocol import Protocol
from jgroups_py.stack.raised import said


def blamed(error: Exception, cluster: str) -> Exception:
    """ProtocolFailed, with ``error`` as its cause, when that passed through a protocol; else ``error`` as it is (a
    socket that cannot be opened; a stack file of RELAY's that is wrong).

    Nothing is wrapped around handlers for that, which run for every message: the traceback knows.
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
    """The last one that was called, and where it was: ``counter.py:12, in up``."""
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
