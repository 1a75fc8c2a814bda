"""The cache of a drill's member: its cache file on the drill's stack, with overrides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from jgroups_py.cache import CacheSettings
from jgroups_py.cache.settings_file import load_cache_settings
from jgroups_py.config.file import load_stack
from jgroups_py.config.model import with_attributes
from jgroups_py.config.write import to_xml
from jgroups_py.drill.file import stacks
from jgroups_py.drill.file.plan import DrillPlan
from jgroups_py.drill.file.stacks import Settings
from jgroups_py.errors import ConfigError


def settings_of(plan: DrillPlan, site: str, stack: Settings, file: Path) -> CacheSettings:
    """Return the cache's settings. Its stack is written to ``file``, with all variables and includes resolved.

    Raises ``ConfigError``.
    """
    return on_stack(load(plan, site), stack, file)


def on_stack(settings: CacheSettings, stack: Settings, file: Path) -> CacheSettings:
    """Return the same cache on that stack, which is written to ``file``."""
    config = with_attributes(load_stack(stack.stack, stack.properties), stack.attributes)
    file.write_text(to_xml(config))
    return replace(settings, stack=str(file))


def load(plan: DrillPlan, site: str) -> CacheSettings:
    """Load the site's cache file. ``ConfigError``: it has no buddies, or does not search."""
    planned = plan.site(site)
    settings = load_cache_settings(planned.cache, properties=dict(planned.properties))
    if settings.buddies is None:
        raise ConfigError("a drill of caches is one of buddies", file=planned.cache)
    if not settings.buddies.auto_data_gravitation:
        raise ConfigError(
            "autoDataGravitation must be true: requests go astray", file=planned.cache
        )
    return settings


def check(plan: DrillPlan) -> None:
    """Raise ``ConfigError`` for files with which no member could start or reach another site."""
    for site in plan.sites:
        load(plan, site.name)
    stacks.need_relay(plan, "caches")


def keys_of(plan: DrillPlan) -> int:
    """Return the largest number of keys that are asked for."""
    return max((load.asks.keys for load in plan.loads if load.asks is not None), default=0)
