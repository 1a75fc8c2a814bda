"""The instance of a drill of bucket stores: its settings, the first places of its buckets, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jgroups_py.buckets.opening import FAST_DETECTION
from jgroups_py.buckets.parts import NodeParts, Placement
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.drill.file import bucket_keys
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.errors import ConfigError

_OF_THE_DRILL: Final = ("moves", "repair", "versions", "managers", "indices", "newer")
"""Settings of the drill, not of the instance."""


def instance(given: Mapping[str, Any], members: Sequence[str]) -> InstanceSettings:
    """Return the settings of the instance with these nodes. Raises ConfigError."""
    own = {name: value for name, value in given.items() if name not in _OF_THE_DRILL}
    copies = own.pop("index_copies", min(bucket_keys.INDEX_COPIES, len(members)))
    own.setdefault("buckets", bucket_keys.BUCKETS)
    indices = given.get("indices", members[:copies])
    return InstanceSettings(index_copies=tuple(f"i/{name}" for name in indices), **own)


def parts(name: str, given: Mapping[str, Any], settings: InstanceSettings) -> NodeParts:
    """Return the components of this member."""
    whole = NodeParts.of(name, settings)
    return whole if name in given.get("managers", (name,)) else replace(whole, managers=())


def placement(given: Mapping[str, Any], members: Sequence[str], buckets: int) -> Placement:
    """Place masters and slaves in turns on the members that have a manager with the old version."""
    names = _first(given, members)
    return {
        bucket: (f"m/{names[bucket % len(names)]}", f"m/{names[(bucket + 1) % len(names)]}")
        for bucket in range(buckets)
    }


def _first(given: Mapping[str, Any], members: Sequence[str]) -> list[str]:
    """Return the members that have buckets at the beginning."""
    return [name for name in given.get("managers", members) if name not in given.get("newer", ())]


def attributes(given: Mapping[str, str]) -> dict[str, str]:
    """Return attributes for a fast detection of lost members; the drill may override them."""
    return {**FAST_DETECTION, **given}


def check(plan: DrillPlan) -> None:
    """Raise ``ConfigError`` if the drill cannot run."""
    members = plan.sites[0].members
    given = dict(plan.settings)
    for key in ("managers", "indices", "newer"):
        strangers = [name for name in given.get(key, ()) if name not in members]
        if strangers:
            known = ", ".join(members)
            raise ConfigError(
                f"{strangers[0]!r} is no member (known: {known})",
                file=plan.file,
                where=f"buckets.{key}",
            )
    if len(_first(given, members)) < 2:
        raise ConfigError(
            "a bucket store needs two members, one for each copy (with a manager, and not among the newer ones)",
            file=plan.file,
        )
    if "indices" in given and "index_copies" in given:
        raise ConfigError(
            "index_copies says how many of the first members have one, indices which; give one of both",
            file=plan.file,
            where="buckets.indices",
        )
    copies = given.get("index_copies", 1)
    if copies > len(members):
        raise ConfigError(
            f"{copies} index copies, but there are {len(members)} members",
            file=plan.file,
            where="buckets.index_copies",
        )
    instance(given, members)
