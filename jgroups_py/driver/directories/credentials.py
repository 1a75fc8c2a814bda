"""Keys and certificates on disk, for TLS. They are files of this host, read like a directory."""

from __future__ import annotations

import time

from jgroups_py.driver.directories.asking import DirectoryProblem
from jgroups_py.stack.directories import CredentialsFound, LoadCredentials
from jgroups_py.tls import CredentialsError, load


def answer(request: LoadCredentials) -> CredentialsFound:
    """Read the files. The time of day is that of this host."""
    try:
        found = load(request.settings)
    except CredentialsError as error:
        raise DirectoryProblem(str(error)) from None
    left = found.not_after - time.time()
    return CredentialsFound(None if found.fingerprint == request.known else found, left)
