"""Stack files with a door each, for a bench: the shipped stack with the protocol and attributes of the door.

The keys, certificates and passwords are made anew in a folder and are of no use elsewhere.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from jgroups_py.protocols.seal.ring import NO_KEYS
from jgroups_py.testing.authority import CertificateAuthority

DOORS: Final = ("none", "SEAL", "SYM_ENCRYPT", "SYM_ENCRYPT GCM", "ASYM_ENCRYPT", "TLS")
STACKS: Final = ("udp.xml", "tcp.xml")
NAMES: Final = ("M1", "M2", "caller", "called")
"""Members of mperf and of rpcperf. The certificate has all of these names."""
_GCM: Final = 'sym_algorithm="AES/GCM/NoPadding" sym_iv_length="12"'
_ABOVE: Final = "<pbcast.NAKACK2"


def doors_of(stack: str) -> tuple[str, ...]:
    """Return the doors that this stack can have. Only connections have TLS."""
    return DOORS if stack == "tcp.xml" else DOORS[:-1]


class DoorStacks:
    """Writes the files, once each.

    Args:
        folder: where they go. Only its owner may read it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = secrets.token_hex(16)
        ring = NO_KEYS.with_new(int(time.time()), secrets.token_bytes)
        self._ring = folder / "ring.keys"
        self._ring.touch(mode=0o600)
        self._ring.write_text(ring.text())
        authority = CertificateAuthority(folder / "tls")
        issued = authority.issue(NAMES[0], names=NAMES)
        self._tls = (
            f'tls.enabled="true" tls.certificate="{issued.certificate}" tls.key="{issued.key}" '
            f'tls.ca="{authority.ca}"'
        )

    def file(self, stack: str, door: str) -> str:
        """Return the path of ``stack`` with ``door``."""
        lines = (resources.files("jgroups_py.stacks") / stack).read_text().splitlines()
        text = "\n".join(self._with_door(lines, door))
        file = self._folder / f"{Path(stack).stem}-{door.replace(' ', '-')}.xml"
        file.write_text(text)
        return str(file)

    def _with_door(self, lines: Sequence[str], door: str) -> list[str]:
        found: list[str] = []
        for line in lines:
            transport = "-default.xml" in line and "<include" in line
            if transport and door == "TLS":
                line = f'    <TCP {self._tls} sock_conn_timeout="300ms" bundler.max_size="64K"/>'
            elif _ABOVE in line and (below := self._below_nakack2(door)):
                found.append(f"    {below}")
            found.append(line)
            if transport and door == "SEAL":
                found.append(f'    <SEAL key_file="{self._ring}"/>')
        return found

    def _below_nakack2(self, door: str) -> str:
        return {
            "SYM_ENCRYPT": f'<SYM_ENCRYPT secret_key="{self._key}"/>',
            "SYM_ENCRYPT GCM": f'<SYM_ENCRYPT {_GCM} secret_key="{self._key}"/>',
            "ASYM_ENCRYPT": f"<ASYM_ENCRYPT {_GCM}/>",
        }.get(door, "")
