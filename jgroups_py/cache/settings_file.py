"""Reading a cache file into CacheSettings: XML as JBoss Cache writes it, a shorter XML, or YAML.

    <cache>
      <CacheMode>REPL_SYNC</CacheMode>
      <BuddyReplicationConfig>
        <buddyReplicationEnabled>true</buddyReplicationEnabled>
        <buddyLocatorProperties>numBuddies = 2</buddyLocatorProperties>
      </BuddyReplicationConfig>
    </cache>

``${name:default}`` is replaced as in stack files. Times without a unit are milliseconds; where the name ends in
``Seconds`` they are seconds. Every error names file, line, setting, value and the accepted values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

from jgroups_py.cache.plugins import check_locator, check_store
from jgroups_py.cache.settings import (
    BuddyReplicationConfig,
    CacheSettings,
    EvictionConfig,
    LoaderConfig,
    RegionConfig,
    StoreConfig,
)
from jgroups_py.cache.settings_tree import SettingEntry, read_tree
from jgroups_py.config.file import MAX_FILE_BYTES, substitute
from jgroups_py.config.markup import MarkupSource
from jgroups_py.config.settings import ConfigBase, accepted, field_types, nearest, parse_value
from jgroups_py.errors import ConfigError

_WITHOUT_EFFECT: Final = frozenset(
    {
        "evictionpolicyclass",
        "fetchinmemorystate",
        "fetchstateonstartup",
        "inactiveonstartup",
        "initialstateretrievaltimeout",
        "isolationlevel",
        "nodelockingscheme",
        "replqueueinterval",
        "replqueuemaxelements",
        "serviceproperties",
        "stateretrievaltimeout",
        "synccommitphase",
        "syncrollbackphase",
        "transactionmanagerlookup",
        "transactionmanagerlookupclass",
        "useinterceptormbeans",
        "usemarshalling",
        "useregionbasedmarshalling",
        "usereplqueue",
        "deadlockdetection",
    }
)
_JBOSS_LOCATOR = "org.jboss.cache.buddyreplication.NextMemberBuddyLocator"
C = TypeVar("C", bound=ConfigBase)
Reader = Callable[[SettingEntry], Any]


def load_cache_settings(
    path_or_name: str | os.PathLike[str],
    *,
    properties: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> CacheSettings:
    """Read a cache file, or a shipped one by its name (``local.xml``).

    Args:
        properties: values for ``${name}``, asked before the environment.
        environment: the process' own by default.

    Raises:
        ConfigError: the file is missing, unreadable or has a wrong setting.
    """
    source = _find(os.fspath(path_or_name))
    language = "yaml" if source.name.endswith((".yaml", ".yml")) else "xml"
    return _settings(source, language, properties, environment)


def parse_cache_settings(
    text: str | bytes,
    *,
    language: str,
    source: str = "<text>",
    properties: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> CacheSettings:
    """Read settings from a text; ``language`` is ``"xml"`` or ``"yaml"``. Errors as ``load_cache_settings``."""
    content = text.encode() if isinstance(text, str) else text
    return _settings(MarkupSource(source, content, Path()), language, properties, environment)


def shipped_caches() -> tuple[str, ...]:
    """Return the names of the cache files that come with the package, sorted."""
    folder = resources.files("jgroups_py.stacks") / "caches"
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(name for name in names if name.endswith((".xml", ".yaml"))))


def _find(name: str) -> MarkupSource:
    path = Path(name)
    try:
        if path.is_file():
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ConfigError(f"larger than {MAX_FILE_BYTES} bytes", file=name)
            return MarkupSource(name, path.read_bytes(), path.parent)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=name) from None
    shipped = shipped_caches()
    if name in shipped:
        file = resources.files("jgroups_py.stacks") / "caches" / name
        return MarkupSource(name, file.read_bytes(), None)
    hint = nearest(name, shipped) or f" (shipped: {', '.join(shipped)})"
    raise ConfigError(f'no cache file "{name}", here or among the shipped ones{hint}')


def _settings(
    source: MarkupSource,
    language: str,
    properties: Mapping[str, str] | None,
    environment: Mapping[str, str] | None,
) -> CacheSettings:
    given, known = dict(properties or {}), os.environ if environment is None else environment
    root = read_tree(source, language, lambda text: substitute(text, given, known))
    without_effect: dict[str, str] = {}
    settings = _read(
        root,
        CacheSettings,
        readers={
            "buddy_replication_config": _buddies,
            "eviction_policy_config": _eviction,
            "cache_loader_configuration": _loader,
            "stack": _stack,
        },
        aliases={
            "clusterconfig": "stack",
            "evictionconfig": "eviction_policy_config",
            "cacheloaderconfig": "cache_loader_configuration",
        },
        ignored=_WITHOUT_EFFECT,
        without_effect=without_effect,
        fixed={"source": source.name, "without_effect": without_effect},
    )
    if settings.buddies is not None and settings.cache_mode == "LOCAL":
        buddy = next(e for e in root.entries if _plain(e.name) == "buddyreplicationconfig")
        raise buddy.error("buddy replication needs CacheMode REPL_SYNC or REPL_ASYNC, not LOCAL")
    return settings


def _buddies(entry: SettingEntry) -> BuddyReplicationConfig | None:
    if not entry.entries:
        if entry.text:
            raise entry.error(f'needs buddyReplicationEnabled, got the text "{entry.text[:40]}"')
        return None  # empty, because every member has every node
    config = _read(
        entry,
        BuddyReplicationConfig,
        readers={"buddy_locator_properties": properties_of, "buddy_locator_class": _locator},
    )
    return config


def _locator(entry: SettingEntry) -> str:
    name = BuddyReplicationConfig.__dataclass_fields__["buddy_locator_class"].default
    assert isinstance(name, str)
    if entry.text in (name, _JBOSS_LOCATOR):
        return name
    problem = check_locator(entry.text)
    if problem:
        raise entry.error(
            f'"{entry.text}" {problem} ({name}, or the import path of a class with init() and'
            " get_buddies())",
            within="BuddyReplicationConfig",
        )
    return entry.text


def _eviction(entry: SettingEntry) -> EvictionConfig:
    return _read(
        entry,
        EvictionConfig,
        readers={"regions": lambda e: _read(e, RegionConfig, seconds=("time_to_live", "max_age"))},
        aliases={"region": "regions"},
        lists=("regions",),
        seconds=("wake_up_interval",),
        ignored=EvictionConfig.ignored,
    )


def _loader(entry: SettingEntry) -> LoaderConfig | None:
    if not entry.entries and not entry.text:
        return None
    return _read(
        entry,
        LoaderConfig,
        readers={"cacheloader": _store},
        ignored=LoaderConfig.ignored,
    )


def _store(entry: SettingEntry) -> StoreConfig:
    config = _read(
        entry,
        StoreConfig,
        readers={"properties": properties_of},
        aliases={"class": "store_class"},
        ignored=LoaderConfig.ignored,
    )
    at = {_plain(child.name): child for child in entry.entries}
    problem = check_store(config)
    if problem:
        what, _, problem = problem.partition(": ")
        raise at.get(what, entry).error(problem, within="cacheloader")
    return config


def _stack(entry: SettingEntry) -> str:
    if entry.entries:
        raise entry.error("is the name of a stack file; a stack inside a cache file is not read")
    return entry.text


def properties_of(entry: SettingEntry) -> dict[str, str]:
    """Read properties text: a ``name = value`` on each line, any white space, ``#`` and ``!`` comments. YAML and XML
    may also give entries."""
    found: dict[str, str] = {}
    for child in entry.entries:
        if child.entries:
            raise child.error("expected one value", within=entry.name)
        found[child.name] = child.text
    for offset, line in enumerate(entry.text.splitlines()):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        match = re.fullmatch(r"([^\s=:]+)\s*[=:]\s*(.*)", line)
        if match is None or re.search(r"\s[^\s=]+\s*=", match[2]):
            raise ConfigError(
                f'"{line[:60]}" is not one property (name = value, one a line)',
                file=entry.file,
                line=entry.text_line + offset,
                where=entry.name,
            )
        if match[1] in found:
            raise ConfigError(
                f"{match[1]} is given twice",
                file=entry.file,
                line=entry.text_line + offset,
                where=entry.name,
            )
        found[match[1]] = match[2]
    return found


def _read(
    entry: SettingEntry,
    cls: type[C],
    *,
    readers: Mapping[str, Reader] | None = None,
    aliases: Mapping[str, str] | None = None,
    lists: tuple[str, ...] = (),
    seconds: tuple[str, ...] = (),
    ignored: frozenset[str] = frozenset(),
    without_effect: dict[str, str] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> C:
    """Read the settings below an entry. ``seconds``: fields whose name may also end in ``Seconds``; a bare number then
    means seconds."""
    hints = field_types(cls)
    names = {_plain(name): name for name in hints if name not in (fixed or {})} | dict(
        aliases or {}
    )
    in_seconds = {_plain(name) + "seconds": name for name in seconds}
    values: dict[str, Any] = {name: [] for name in lists}
    given: dict[str, SettingEntry] = {}
    if entry.text:
        raise entry.error(f'"{entry.text[:40]}" is a text; expected settings, name and value')
    for child in entry.entries:
        plain = _plain(child.name)
        if plain in ignored:
            if without_effect is not None:
                without_effect[child.name] = child.text
            continue
        name = names.get(plain) or in_seconds.get(plain)
        if name is None:
            raise _unknown(entry, child, [*names.values()])
        if name in lists:
            values[name].append((readers or {})[name](child))
            continue
        if name in given:
            raise child.error(
                f"is given twice (first in line {given[name].line})", within=entry.name
            )
        given[name] = child
        if readers and name in readers:
            values[name] = readers[name](child)
        elif child.entries:
            raise child.error("expected one value", within=entry.name)
        elif child.text:
            text = child.text
            if plain in in_seconds and re.fullmatch(r"[\d.]+", text):
                text += "s"
            try:
                values[name] = parse_value(text, hints[name])
            except ValueError as error:
                raise child.error(str(error), within=entry.name) from None
    for name in lists:
        values[name] = tuple(values[name])
    try:
        return cls(**values, **(fixed or {}))
    except ConfigError as error:
        blamed = given.get(re.match(r"\w*", error.problem)[0]) or entry  # type: ignore[index]
        within = entry.name if blamed is not entry else ""
        problem = re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda m: camel(m[0]), error.problem)
        raise blamed.error(problem.removeprefix(f"{camel(blamed.name)}: "), within=within) from None
    except TypeError:
        needed = [name for name in hints if name not in values and _is_needed(cls, name)]
        kinds = ", ".join(f"{camel(name)} ({_kind(hints[name])})" for name in needed)
        raise entry.error(f"needs {kinds}") from None


def _is_needed(cls: type[ConfigBase], name: str) -> bool:
    from dataclasses import MISSING

    field = cls.__dataclass_fields__[name]
    return field.default is MISSING and field.default_factory is MISSING


def _kind(hint: Any) -> str:
    return "settings" if isinstance(hint, type) and issubclass(hint, ConfigBase) else accepted(hint)


def _unknown(entry: SettingEntry, child: SettingEntry, known: list[str]) -> ConfigError:
    names = sorted({camel(name) for name in known})
    hint = nearest(child.name, names) or f" ({entry.name} knows {', '.join(names)})"
    value = f', value "{child.text[:40]}"' if child.text else ""
    return child.error(f"is not known{value}{hint}", within=entry.name)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def camel(name: str) -> str:
    """``buddy_pool_name`` -> ``buddyPoolName``; ``store_class`` is ``class`` in a file."""
    if name == "store_class":
        return "class"
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
