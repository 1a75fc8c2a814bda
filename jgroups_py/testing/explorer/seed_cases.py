"""Back ends whose cases are seeds: the steps are packets and timers of whole stacks, so a case cannot be made
smaller."""

from __future__ import annotations

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.lab import ANYTHING, BackEnd, Size


class _Seed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    seed: int


class SeedBackEnd(BackEnd[int]):
    """A back end defines how a seed is played."""

    passes = ()

    def draw(self, seed: int, profile: str, size: Size = ANYTHING) -> int:
        return seed

    def write(self, case: int) -> str:
        return msgspec.json.encode(_Seed(self.kind, case)).decode() + "\n"

    def read(self, text: str, file: str) -> int:
        try:
            return msgspec.json.decode(text, type=_Seed).seed
        except msgspec.MsgspecError as error:
            raise ConfigError(f"not a cluster's seed: {error}", file=file) from None

    def file_name(self, seed: int, profile: str) -> str:
        return f"{profile}-{seed}.json"
