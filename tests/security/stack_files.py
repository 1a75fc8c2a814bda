"""Stack files with a protocol whose settings are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from jgroups_py.config.settings import load_stack
from jgroups_py.errors import ConfigError
from jgroups_py.stack.services import build_whole

BELOW: Final = ("UDP", "PING")
ABOVE: Final = ("pbcast.NAKACK2", "UNICAST3", "pbcast.STABLE")


def encrypted(element: str) -> str:
    """Return a stack with this element in line 4, where protocols that encrypt stand."""
    return _stack(*BELOW, element, *ABOVE, "pbcast.GMS")


def below_gms(element: str) -> str:
    """Return a stack with this element in line 7."""
    return _stack(*BELOW, *ABOVE, element, "pbcast.GMS")


def _stack(*elements: str) -> str:
    return "\n".join(["<config>", *(f"  <{element}/>" for element in elements), "</config>"])


def refusal_of(stack: str, folder: Path) -> ConfigError:
    """Return the error that a stack with this file raises. It names that file."""
    file = folder / "s.xml"
    file.write_text(stack)
    with pytest.raises(ConfigError) as caught:
        build_whole(load_stack(str(file)))
    assert caught.value.file == str(file)
    return caught.value
