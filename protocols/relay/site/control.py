"""Records that members of one site send each other: checked, and counted by their sender."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jgroups_py.errors import RemoteProtocolError
from jgroups_py.protocols.relay.out import RelayOut
from jgroups_py.protocols.relay.wire import MULTICASTS, Gap, Lack, decode_local
from jgroups_py.values.address import UUID, Address
from jgroups_py.values.batch import Batch
from jgroups_py.values.view import View


class ControlRecords:
    """``serials``: by relay, the last of its records delivered here."""

    def __init__(self, out: RelayOut, site: str) -> None:
        self.serials: dict[Address, int] = {}
        self._out = out
        self._site = site

    def records(self, batch: Batch) -> Iterator[Any]:
        """Yield the records of a batch that may be applied. Refuse the others."""
        refuse, src = self._out.refuse, batch.src
        if not (isinstance(src, UUID) and src.is_ours):
            refuse(src, "control of a member that is not ours")
            return
        for record in self.decoded(batch):
            if isinstance(record, MULTICASTS) != (batch.dest is None):
                refuse(src, "control that was sent the wrong way")
            elif isinstance(record, Gap | Lack) and record.site == self._site:
                refuse(src, "numbers of our own site as if of another")
            else:
                yield record

    def decoded(self, batch: Batch) -> Iterator[Any]:
        """Yield the readable records of a batch."""
        for payload in batch.payloads:
            try:
                record = decode_local(payload)
            except RemoteProtocolError as error:
                self._out.refuse(batch.src, error)
                continue
            yield record

    def serial_of(self, relay: Address) -> int:
        return self.serials.get(relay, 0)

    def delivered(self, src: Address, serial: int) -> None:
        self.serials[src] = serial

    def contained(self, src: Address, serial: int) -> None:
        """Note that the digests in use contain the records of ``src`` up to ``serial``."""
        self.serials[src] = max(self.serials.get(src, 0), serial)

    def keep(self, view: View) -> None:
        """Forget relays that are not in ``view``."""
        for member in [m for m in self.serials if m not in view.members]:
            del self.serials[member]
