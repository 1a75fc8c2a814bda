"""The doors that a group may have. Every attack is tried against each of them.

A door is a part of the stack file: directly above the transport, at the transport, or between the failure detectors and
NAKACK2 with AUTH below GMS. A door with a key turns strangers away itself, so any of its counters counts.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from random import Random

from attack_kit import BOTH

from jgroups_py.protocols.seal.ring import NO_KEYS
from jgroups_py.testing.authority import CertificateAuthority


@dataclass(frozen=True, slots=True)
class Door:
    name: str
    line: str = ""
    """The element for the stack above the failure detectors."""
    lowest: str = ""
    """The element directly above the transport."""
    below_gms: str = ""
    protocols: tuple[str, ...] = ()
    """The protocols of the door: each may stop an attempt before the protocols behind it."""
    whole: bool = False
    """No part of an attempt may get past the door."""
    on: tuple[str, ...] = BOTH
    speaks_tls: bool = False
    """The stranger speaks TLS, too, with a certificate of an authority of its own."""

    def files(self, folder: Path) -> DoorFiles:
        """Make the files of members and of the stranger in ``folder``."""
        if self.protocols != ("TLS",):
            return DoorFiles({}, None)
        authority = CertificateAuthority(folder)
        attributes = {}
        for name in "AB":
            issued = authority.issue(name)
            attributes[name] = {
                "TCP.tls.enabled": "true",
                "TCP.tls.certificate": issued.certificate,
                "TCP.tls.key": issued.key,
                "TCP.tls.ca": authority.ca,
            }
        return DoorFiles(attributes, _foreign(folder) if self.speaks_tls else None)


@dataclass(frozen=True, slots=True)
class DoorFiles:
    """``attributes``: the door's attributes of each member. ``context``: the TLS context of the stranger."""

    attributes: dict[str, dict[str, str]]
    context: ssl.SSLContext | None


def _foreign(folder: Path) -> ssl.SSLContext:
    """Return a client's context whose certificate names A, but another authority has signed it."""
    issued = CertificateAuthority(folder / "foreign", "foreign").issue("A")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(issued.certificate, issued.key)
    return context


RING = NO_KEYS.with_new(1_800_000_000, Random("attacks").randbytes)
KEYS = ";".join(line for line in RING.text().splitlines() if line.startswith("key"))
KEY = "00112233445566778899aabbccddeeff"
TOKEN = (
    '<AUTH auth_class="RegexMembership" match_string="[AB]" match_ip_address="false" '
    'match_logical_name="true"/>'
)
DOORS = (
    Door("none"),
    Door(
        "SYM_ENCRYPT and AUTH",
        f'<SYM_ENCRYPT secret_key="{KEY}"/>',
        below_gms=TOKEN,
        protocols=("SYM_ENCRYPT", "AUTH"),
    ),
    Door("SEAL", lowest=f'<SEAL keys="{KEYS}"/>', protocols=("SEAL",), whole=True),
    Door("TLS", protocols=("TLS",), whole=True, on=("TCP",)),
    Door("TLS, foreign certificate", protocols=("TLS",), whole=True, on=("TCP",), speaks_tls=True),
)
