"""Names of a package that are imported on first use, so a program does not pay for rooms that it does not use.

May import: nothing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def on_first_use(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package. ``places``: its modules, each with the names that are imported from it.

    A type checker is to see the true imports instead, under ``TYPE_CHECKING``, and not these functions: it accepts any name
    in a module that has ``__getattr__``.
    """
    module_of = {name: module for module, names in places.items() for name in names.split()}
    loaded = vars(sys.modules[package])

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package} has no attribute {name}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        loaded[name] = value
        return value

    def listed() -> list[str]:
        return sorted({*loaded, *module_of})

    return get, listed
