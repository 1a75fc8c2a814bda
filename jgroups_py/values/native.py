"""native: things that compiled modules need and plain Python does not.

The hot modules may be compiled with mypyc (setup.py). Their classes are then native: fields lie in a struct, calls
between compiled classes are C calls, and three things of plain classes are missing. They have no ``__dict__``, an alias in their body is not an
attribute, and only those that are marked may have subclasses. This module has replacements for these.
Nothing here needs mypyc, or knows whether it ran.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**options: Any) -> Callable[[Any], Any]:
        """Tell mypyc about the class below it, as ``mypy_extensions.mypyc_attr``. Without mypyc it does nothing."""
        return lambda cls: cls


def attributes(value: object) -> dict[str, Any]:
    """Return the attributes of an instance that are set: as ``vars`` does, and those in slots and native fields."""
    found = {name: getattr(value, name) for name in slots(type(value)) if hasattr(value, name)}
    found.update(getattr(value, "__dict__", {}))
    return found


def slots(cls: type) -> list[str]:
    """Return the names of the attributes that instances of ``cls`` keep outside ``__dict__``: in slots, or as native
    fields. Some may not be set. Names that Python hides are as ``getattr`` needs them."""
    found: dict[str, None] = {}
    for base in cls.__mro__:
        own = vars(base).get("__slots__", ())
        for name in (own,) if isinstance(own, str) else own:
            hidden = name.startswith("__") and not name.endswith("__")
            found[f"_{base.__name__.lstrip('_')}{name}" if hidden else name] = None
        found.update(dict.fromkeys(vars(base).get("__mypyc_attrs__", ())))
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def has_settings(protocol: type, settings: type) -> None:
    """Make ``settings`` the class of a protocol's settings, also where the protocol is native."""
    made: Any = protocol
    made.Config = settings


def compiled_modules() -> list[str]:
    """Return the modules of compiled.txt that would run compiled here."""
    names = (Path(__file__).parents[1] / "compiled.txt").read_text().splitlines()
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    return [
        name
        for name in names
        if name.startswith("jgroups_py.")
        and (found := importlib.util.find_spec(name)) is not None
        and str(found.origin).endswith(suffixes)
    ]
