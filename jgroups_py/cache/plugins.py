"""Classes that a cache file names: stores and buddy locators, ours or yours by import path."""

from __future__ import annotations

import importlib
from typing import Any

from jgroups_py.cache.settings import StoreConfig
from jgroups_py.cache.sqlite_store import SqliteStore
from jgroups_py.cache.store import Store
from jgroups_py.errors import ConfigError
from jgroups_py.stack.raised import said

_TRUTH = {"true": True, "false": False}


def find_class(path: str) -> type[Any] | str:
    """Return the class at ``package.module.Class``, or the problem with the path as text."""
    module, _, name = path.rpartition(".")
    if not module:
        return "is not known"
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        return f"cannot be imported: {type(error).__name__}: {error}"
    if not isinstance(found, type):
        return f"is no class of {module}"
    return found


def check_locator(path: str) -> str | None:
    """Return the fault of a user's locator. None: there is none."""
    found = find_class(path)
    if isinstance(found, str):
        return found
    for method in ("init", "get_buddies"):
        if not callable(getattr(found, method, None)):
            return f"has no {method}()"
    return None


def check_store(config: StoreConfig) -> str | None:
    """Return the fault of a store's settings. None: there is none. Nothing is opened."""
    try:
        make_store(config)
    except ConfigError as error:
        return error.problem
    return None


def make_store(config: StoreConfig) -> Store:
    """Make the store, not yet open. ConfigError: the name is no class, or the class does not take the properties."""
    properties = config.properties
    if config.store_class == "SqliteStore":
        unknown = [name for name in properties if name not in ("location", "durable")]
        if unknown:
            raise ConfigError(f"properties: unknown {unknown[0]} (location and durable are known)")
        if not properties.get("location"):
            raise ConfigError("properties: SqliteStore needs location = FILE")
        durable = properties.get("durable", "true").lower()
        if durable not in _TRUTH:
            raise ConfigError(f'properties: durable is "{durable}" (true or false)')
        return SqliteStore(properties["location"], durable=_TRUTH[durable])
    found = find_class(config.store_class)
    if isinstance(found, str):
        raise ConfigError(
            f'class: "{config.store_class}" {found} (SqliteStore, or the import path of a Store)'
        )
    if not issubclass(found, Store):
        raise ConfigError(f'class: "{config.store_class}" is not derived from Store')
    try:
        return found(**properties)
    except TypeError as error:
        raise ConfigError(f"properties: {config.store_class} does not take them: {error}") from None
    except ConfigError:
        raise
    except Exception as error:  # a user's store may raise anything
        raise ConfigError(f"properties: {config.store_class}() raised {said(error)}") from error
