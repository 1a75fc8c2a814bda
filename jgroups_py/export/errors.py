"""Errors of export ports and of their clients. Each has one line of text and a code on the wire."""

from __future__ import annotations

from typing import ClassVar

from jgroups_py.errors import JGroupsError


class ExportError(JGroupsError):
    """The export port refused a request or broke off."""

    code: ClassVar[str] = "refused"


class NoMember(ExportError):
    """No export port can be reached, or the one in use is gone."""

    code = "no-member"


class NotTrusted(ExportError):
    """TLS was not agreed on: one side does not trust the other one's certificate, or only one side speaks TLS."""

    code = "not-trusted"


class WrongToken(ExportError):
    """The other side does not know the token."""

    code = "token"


class NotAllowed(ExportError):
    """The token does not allow this. Nothing was changed."""

    code = "not-allowed"


class UnknownMap(ExportError):
    """The port exports no object of that name or kind."""

    code = "unknown-map"


class UnknownSnapshot(ExportError):
    """The snapshot was closed, or was not used for too long."""

    code = "unknown-snapshot"


class UnknownJob(ExportError):
    """The rows that were staged for the job are not here: another member has them, or they were dropped."""

    code = "unknown-job"


class Trimmed(ExportError):
    """The change log does not reach back to the offset. Take a snapshot and go on from its offset."""

    code = "trimmed"


class Diverged(ExportError):
    """The offset is of a history that this member does not have and will not get: groups merged, or the member that had
    reported a change left before another one had it. Take a snapshot and go on from its offset."""

    code = "diverged"


class Behind(Diverged):
    """The member has not seen all changes up to the offset; they may still come. Try again, or ask another member."""

    code = "behind"


class Busy(ExportError):
    """A limit of the port is reached. The text names it."""

    code = "busy"


class Moving(ExportError):
    """Each time the parts of a cache with buddies were opened, nodes were moving or members had another view."""

    code = "moving"


BY_CODE = {
    cls.code: cls
    for cls in (
        ExportError,
        NoMember,
        NotTrusted,
        WrongToken,
        NotAllowed,
        UnknownMap,
        UnknownSnapshot,
        UnknownJob,
        Trimmed,
        Diverged,
        Behind,
        Busy,
        Moving,
    )
}
