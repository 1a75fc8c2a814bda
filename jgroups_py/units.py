"""Texts of a stack file become times, sizes, fractions and host lists, and back.

Times have the units ``ms s m h d`` and may have decimals; a bare number is milliseconds, as in JGroups. Sizes
have the decimal units ``k kb m mb g gb`` or the binary units ``kib mib gib``, in upper or lower case. Every function raises
ValueError, whose text names the fault and the accepted values.

Source: JGroups' manual and Util.readBytesLong / TimeUnit parsing.
Differs: JGroups looks at the letter k first and takes ``10kib`` for 10000, although its manual says
         10240. Here it is 10240, or 10000 with ``binary_is_decimal`` (``compat="jgroups-5"``).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from jgroups_py.values.address import is_numeric_host

_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*([A-Za-z%]*)\s*", re.ASCII)
_HOST_PORT = re.compile(r"\s*([^\s,]+?)\s*\[\s*(\d{1,5})\s*\]\s*", re.ASCII)

_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)
"""A part of a host's name. Underscores are not allowed in host names, but container managers use them."""

_TIMES: Final = {
    "": Decimal("0.001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86400),
}
_DECIMAL_SIZES: Final = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "m": 10**6,
    "mb": 10**6,
    "g": 10**9,
    "gb": 10**9,
}
_BINARY_SIZES: Final = {"kib": 2**10, "mib": 2**20, "gib": 2**30}

NUMBER_MAX: Final = 2**63 - 1
"""The largest whole number of an attribute, size in bytes and time in milliseconds, as in JGroups."""
TIME_FORM: Final = "a time such as 500ms, 1.5s, 2m, 1h, 1d; a bare number is milliseconds"
SIZE_FORM: Final = "a size such as 60000, 60k, 4mb, 64kib"
FRACTION_FORM: Final = "a number such as 0.25 or 25%"
HOSTS_FORM: Final = "hosts with ports, such as localhost[7800],10.0.0.1[7801]"


def parse_seconds(text: str) -> float:
    """Return seconds: ``1.5s`` -> 1.5; ``1500`` -> 1.5."""
    match = _NUMBER.fullmatch(text)
    factor = _TIMES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f'not a time: "{text}" ({TIME_FORM})')
    seconds = Decimal(match[1]) * factor
    if abs(seconds) * 1000 > NUMBER_MAX:
        raise ValueError(f'longer than {NUMBER_MAX} ms: "{shortened(text)}" ({TIME_FORM})')
    return float(seconds)


def parse_bytes(text: str, *, binary_is_decimal: bool = False) -> int:
    """Return whole bytes: ``60K`` -> 60000; ``64kib`` -> 65536."""
    match = _NUMBER.fullmatch(text)
    if match is not None:
        unit = match[2].lower()
        factor = _DECIMAL_SIZES.get(unit)
        if factor is None and unit in _BINARY_SIZES:
            decimal = unit.replace("i", "")
            factor = _DECIMAL_SIZES[decimal] if binary_is_decimal else _BINARY_SIZES[unit]
        if factor is not None:
            size = Decimal(match[1]) * factor
            if abs(size) > NUMBER_MAX:
                raise ValueError(f'more than {NUMBER_MAX} bytes: "{shortened(text)}" ({SIZE_FORM})')
            if size == int(size):
                return int(size)
    raise ValueError(f'not a size: "{text}" ({SIZE_FORM})')


def shortened(text: str) -> str:
    """Return a long number for an error, without its middle."""
    return text if len(text) <= 40 else f"{text[:20]}...{text[-10:]}"


def parse_fraction(text: str) -> float:
    """Return a fraction: ``0.25`` -> 0.25; ``25%`` -> 0.25."""
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] not in ("", "%"):
        raise ValueError(f'not a fraction: "{text}" ({FRACTION_FORM})')
    value = Decimal(match[1])
    return float(value / 100 if match[2] else value)


def parse_hosts(text: str) -> tuple[tuple[str, int], ...]:
    """Return hosts with ports: ``localhost[7800],10.0.0.1[7801]`` -> ``(("localhost", 7800), ("10.0.0.1", 7801))``."""
    hosts = []
    for part in text.split(","):
        if not part.strip():
            continue
        match = _HOST_PORT.fullmatch(part)
        if match is None or int(match[2]) > 65535 or not _is_host(match[1]):
            raise ValueError(f'not a host with a port: "{part.strip()}" ({HOSTS_FORM})')
        hosts.append((match[1], int(match[2])))
    return tuple(hosts)


def _is_host(text: str) -> bool:
    """Return whether ``host`` is a numeric address or can be the name of a host; ``10.0.0.300`` is neither."""
    if is_numeric_host(text):
        return True
    labels = text.removesuffix(".").split(".")
    if len(text) > 253 or labels[-1].isdigit():
        return False
    return all(_LABEL.fullmatch(label) for label in labels)


def seconds_text(seconds: float) -> str:
    """Return the shortest text that ``parse_seconds`` reads back: 0.5 -> ``500ms``, 1.5 -> ``1.5s``."""
    if seconds != 0 and abs(seconds) < 1:
        return f"{_plain(Decimal(repr(seconds)) * 1000)}ms"
    return f"{_plain(Decimal(repr(seconds)))}s"


def bytes_text(size: int) -> str:
    """Return the text of a size: ``4000000`` -> ``4m``, ``65536`` -> ``64kib``, ``1500`` -> ``1500``."""
    for unit, factor in (("g", 10**9), ("m", 10**6), ("k", 10**3)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    for unit, factor in (("gib", 2**30), ("mib", 2**20), ("kib", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def hosts_text(hosts: tuple[tuple[str, int], ...]) -> str:
    """Return a text that ``parse_hosts`` reads back."""
    return ",".join(f"{host}[{port}]" for host, port in hosts)


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
