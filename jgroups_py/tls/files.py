"""Files of TLS: read within limits, and errors that say which setting names them."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from jgroups_py.errors import JGroupsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import pkcs12

FILE_MAX: Final = 1_000_000
"""The largest file that is read, in bytes. All authorities that browsers trust need a quarter of it."""
_JKS: Final = bytes.fromhex("feedfeed")
_FOR_OTHERS: Final = stat.S_IROTH | stat.S_IWOTH


class CredentialsError(JGroupsError):
    """A file of TLS cannot be used. Nothing was changed. ``setting`` is the attribute that names it."""

    def __init__(self, setting: str, problem: str) -> None:
        self.setting = setting
        self.problem = problem
        super().__init__(f"{setting} {problem}")


def read_file(setting: str, path: str, *, secret: bool = False) -> bytes:
    """Return the content of a file that ``setting`` names. A ``secret`` file must not be readable for all users.

    Raises:
        CredentialsError: the file cannot be read, is too large, or all users may read it.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(FILE_MAX + 1)
    except OSError as error:
        raise CredentialsError(
            setting, f"must name a file that can be read: {path}: {error.strerror}"
        ) from None
    if len(data) > FILE_MAX:
        raise CredentialsError(setting, f"must name a file of at most {FILE_MAX} bytes: {path}")
    if secret and mode & _FOR_OTHERS and sys.platform != "win32":
        raise CredentialsError(
            setting, f"holds a key that everybody on this host may read: chmod 600 {path}"
        )
    return data


def parse_pkcs12(
    setting: str, path: str, data: bytes, password: str
) -> pkcs12.PKCS12KeyAndCertificates:
    """Return the contents of a PKCS12 file.

    Raises:
        CredentialsError: it is no PKCS12 file, or the password does not fit.
    """
    if data.startswith(_JKS):
        raise CredentialsError(
            setting,
            f"must name a PKCS12 file, and {path} is JKS (keytool -importkeystore -srckeystore {path} "
            "-destkeystore NEW.p12 -deststoretype pkcs12)",
        )
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        problem = f"must name a PKCS12 file, and {setting}_password must be its password: {path}"
        raise CredentialsError(setting, problem) from None
