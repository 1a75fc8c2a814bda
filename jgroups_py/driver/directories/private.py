"""A file that holds secrets, such as a key ring. It is read if it has changed, and only if no other user may read
it."""

from __future__ import annotations

from jgroups_py.config.private_file import PrivateFile, read_private
from jgroups_py.driver.directories.asking import DirectoryProblem
from jgroups_py.errors import ConfigError
from jgroups_py.stack.directories import ReadPrivate


def answer(request: ReadPrivate) -> PrivateFile | None:
    """Carry out a request."""
    try:
        return read_private(request.path, request.max_size, request.but)
    except ConfigError as error:
        raise DirectoryProblem(str(error)) from None
