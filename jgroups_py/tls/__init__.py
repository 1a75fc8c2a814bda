"""TLS: credentials from files, and sessions that turn bytes into bytes. No sockets, no tasks.

May import: ssl, cryptography, errors, values.
Imported by: stack, protocols.security, driver, export.

    settings     the files, the versions of TLS, the demands on the other side
    files        reads files within limits. It has the error of this room
    credentials  the result: contexts of ssl, names, dates
    loading      reads the files. It is called by drivers and by checks of a stack file, and not by protocols: it reads files
                 and the time of day
    contexts     makes the contexts, for loading: the only file that imports cryptography at once
    names        the names in a certificate
    session      one connection: bytes of TLS in, plain bytes out, and back
"""

from jgroups_py.tls.credentials import Credentials
from jgroups_py.tls.files import CredentialsError
from jgroups_py.tls.loading import load
from jgroups_py.tls.names import fits, names_of
from jgroups_py.tls.session import TlsRefused, TlsSession
from jgroups_py.tls.settings import TlsSettings

__all__ = [
    "Credentials",
    "CredentialsError",
    "TlsRefused",
    "TlsSession",
    "TlsSettings",
    "fits",
    "load",
    "names_of",
]
