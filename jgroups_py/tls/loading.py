"""load: reads keys and certificates from files.

It checks all files, and its errors name the file and the fault. Its result does not change; files that changed are
loaded anew. It reads files and the time of day: call it in a thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from jgroups_py.tls.credentials import Credentials
from jgroups_py.tls.settings import TlsSettings


def load(settings: TlsSettings, now: Callable[[], float] = time.time) -> Credentials:
    """Read the files that ``settings`` names.

    Args:
        now: the time of day, in seconds since 1970.

    Raises:
        CredentialsError: a setting is missing. Or a file cannot be read, has wrong content, does not fit the others, may be read
            by all users, or has a certificate that is not valid at this time.
    """
    # Only members behind TLS need it: cryptography costs 8 MB of memory and a tenth of a second.
    from jgroups_py.tls.contexts import load_files

    return load_files(settings, now())
