"""Files that hold secrets: read whole, and only if their owner alone can read them (or a group, if root has mounted the
secret)."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from jgroups_py.errors import ConfigError

_OPEN: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""O_NONBLOCK: a pipe of that name must not keep us waiting."""

Stamp = tuple[int, int, int, int]
"""Changes when the file changes: device, inode, size, time of the last change in nanoseconds."""


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """The bytes that were read, and the stamp of the file at that time."""

    data: bytes = field(repr=False)
    stamp: Stamp


def read_private(path: str, most: int, but: Stamp | None = None) -> PrivateFile | None:
    """Read a file of at most ``most`` bytes. Return None if its stamp still equals ``but``.

    Raises:
        ConfigError: the file is missing, no plain file, too large, or readable for others than its owner. The error does not show its
        contents.
    """
    try:
        handle = os.open(path, _OPEN)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError("is no plain file", file=path)
        if status.st_mode & _forbidden(status.st_uid):
            mode = stat.S_IMODE(status.st_mode)
            raise ConfigError(
                f"holds secrets, and others than its owner may use it (mode {mode:04o}; 0600 would be accepted: "
                f"chmod 600 {path})",
                file=path,
            )
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp == but:
            return None
        data = b""
        while len(data) <= most and (part := os.read(handle, most + 1 - len(data))):
            data += part
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=path) from None
    finally:
        os.close(handle)
    if len(data) > most:
        raise ConfigError(f"is larger than {most} bytes", file=path)
    return PrivateFile(data, stamp)


def _forbidden(owner: int) -> int:
    """The bits of a mode that are not accepted. Orchestrators mount secrets as files of root that a group may read, where a
    process is not root: that group is this process' own."""
    mounted = owner == 0 and hasattr(os, "geteuid") and os.geteuid() != 0
    return 0o037 if mounted else 0o077


def write_private(path: str, data: bytes) -> None:
    """Write a file, whole or not at all, readable and writable for its owner only. A link stays, and its target is
    written.

    Raises:
        ConfigError: the file cannot be written, and is as it was before.
    """
    place = os.path.realpath(path)
    new = f"{place}.{os.getpid()}.new"
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(new, place)
        except OSError:
            os.unlink(new)
            raise
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=path) from None
