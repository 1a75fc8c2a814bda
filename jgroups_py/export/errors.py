"""What an export port refuses, and what its clients raise: one line each, with a code on the wire."""

from __future__ import annotations

from typing import ClassVar

from jgroups_py.errors import JGroupsError


class ExportError(JGroupsError):
    """The export port refused a request, or broke off."""

    code: ClassVar[str] = "refused"


class NoMember(ExportError):
    """No export port could be reached, or the one that was used is gone."""

    code = "no-member"


class WrongToken(ExportError):
    """The other side does not know the token."""

    code = "token"


class UnknownMap(ExportError):
    """The port exports nothing of that name or kind."""

    code = "unknown-map"


class UnknownSnapshot(ExportError):
    """The snapshot was closed, or not used for too long."""

    code = "unknown-snapshot"


class UnknownJob(ExportError):
    """What was staged for the job is not here: another member has it, or it was dropped."""

    code = "unknown-job"


class Trimmed(ExportError):
    """The change log does not reach back to the offset: take a snapshot, go on from its offset."""

    code = "trimmed"


class Diverged(ExportError):
    """The offset is of a history that this member does not have and will not get: groups merged, or who told a
    change went before anybody else had it. Take a snapshot, go on from its offset."""

    code = "diverged"


class Behind(Diverged):
    """The member that is asked has not seen all that the offset says, and it may still come: try again, or
    another member."""

    code = "behind"


class Busy(ExportError):
    """A limit of the port is reached; it is named."""

    code = "busy"


class Moving(ExportError):
    """The members of a cache with buddies passed nodes on, or had another view, each time their parts were opened."""

    code = "moving"


BY_CODE = {
    cls.code: cls
    for cls in (
        ExportError,
        NoMember,
        WrongToken,
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
