"""All back ends, and their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.buckets.back_end import Buckets
from jgroups_py.testing.explorer.buddies.back_end import BuddySchedules, Clusters
from jgroups_py.testing.explorer.caches.back_end import Caches
from jgroups_py.testing.explorer.lab import BackEnd, text_of
from jgroups_py.testing.explorer.maps.back_end import MapClusters, Maps
from jgroups_py.testing.explorer.stacks.back_end import Stacks
from jgroups_py.testing.explorer.starts import Starts

BACK_ENDS: Final[tuple[BackEnd[Any], ...]] = (
    Stacks(),
    Caches(),
    BuddySchedules(),
    Clusters(),
    Maps(),
    MapClusters(),
    Buckets(),
    Starts(),
)


def back_end_of(profile: str) -> BackEnd[Any]:
    """Return the first back end with that profile. Raises ``ConfigError``."""
    for back_end in BACK_ENDS:
        if profile in back_end.profiles:
            return back_end
    known = [name for back_end in BACK_ENDS for name in back_end.profiles]
    raise ConfigError(f"profile: one of {', '.join(known)}, not {profile!r}")


def load(file: Path | str) -> tuple[BackEnd[Any], Any]:
    """Load a written case and its back end. Raises ``ConfigError``, ``OSError``."""
    text = text_of(file)
    kind = kind_of(text)
    for back_end in BACK_ENDS:
        if back_end.kind == kind:
            return back_end, back_end.read(text, str(file))
    known = ", ".join(back_end.kind for back_end in BACK_ENDS)
    raise ConfigError(f"kind: one of {known}, not {kind!r}", file=str(file))


def kind_of(text: str) -> str:
    """Return the kind in the text; for older files without one, the kind that the fields imply."""
    try:
        fields = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return Stacks.kind
    if not isinstance(fields, dict):
        return Stacks.kind
    if "kind" in fields:
        return str(fields["kind"])
    if "setting" in fields:
        return BuddySchedules.kind
    return Caches.kind if "back_end" in fields else Stacks.kind
