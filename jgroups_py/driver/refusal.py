"""Describes why the system refused to open a socket, with a remedy."""

from __future__ import annotations

import errno

from jgroups_py.driver.interfaces import own_addresses


def refusal(host: str, first: int, last: int, error: OSError) -> str:
    """Return the place, the system's words and its code, and a hint where there is one. ``first`` to ``last`` are the
    ports that were tried."""
    name = errno.errorcode.get(error.errno or 0, "")
    ports = str(first) if last <= first else f"{first} to {last}"
    text = f"{host}:{ports}: {error.strerror or error}{f' ({name})' if name else ''}"
    hint = _hint(error.errno, last > first)
    return f"{text}; {hint}" if hint else text


def _hint(code: int | None, several: bool) -> str:
    match code:
        case errno.EADDRINUSE:
            what = "these ports" if several else "the port"
            return f"another process has {what}: end it, or set another bind_port"
        case errno.EADDRNOTAVAIL:
            return f"bind_addr must be an address of this machine, which has {own_addresses()}"
        case errno.EACCES:
            return "ports below 1024 need a privilege: set another bind_port"
    return ""
