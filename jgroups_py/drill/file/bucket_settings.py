"""The instance of a drill of bucket stores: its settings, the first places of its buckets, and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jgroups_py.buckets.opening import FAST_DETECTION
from jgroups_py.buckets.parts import Placement
from jgroups_py.buckets.settings import InstanceSettings
from jgroups_py.drill.file import bucket_keys
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.errors import ConfigError

_OF_THE_DRILL: Final = ("moves", "repair", "versions")
"""Settings of the drill, not of the instance."""


def instance(given: Mapping[str, Any], members: Sequence[str]) -> InstanceSettings:
    """Return the settings of the instance with these nodes. Raises ConfigError."""
    own = {name: value for name, value in given.items() if name not in _OF_THE_DRILL}
    copies = own.pop("index_copies", min(bucket_keys.INDEX_COPIES, len(members)))
    own.setdefault("buckets", bucket_keys.BUCKETS)
    return InstanceSettings(index_copies=tuple(f"i/{name}" for name in members[:copies]), **own)


def placement(buckets: int, members: Sequence[str]) -> Placement:
    """Place masters and slaves on the members in turns."""
    return {
        bucket: (f"m/{members[bucket % len(members)]}", f"m/{members[(bucket + 1) % len(members)]}")
        for bucket in range(buckets)
    }


def attributes(given: Mapping[str, str]) -> dict[str, str]:
    """Return attributes for a fast detection of lost members; the drill may override them."""
    return {**FAST_DETECTION, **given}


def check(plan: DrillPlan) -> None:
    """Raise ``ConfigError`` if the drill cannot run."""
    members = plan.sites[0].members
    if len(members) < 2:
        raise ConfigError("a bucket store needs two members, one for each copy", file=plan.file)
    copies = dict(plan.settings).get("index_copies", 1)
    if copies > len(members):
        raise ConfigError(
            f"{copies} index copies, but there are {len(members)} members",
            file=plan.file,
            where="buckets.index_copies",
        )
    instance(dict(plan.settings), members)
