"""Schedules as JSON. A member is written as its name, so that a person can read and change it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from jgroups_py.errors import ConfigError
from jgroups_py.testing.explorer.buddies.draw import BuddySchedule
from jgroups_py.testing.explorer.buddies.world import KINDS, Step, WorldSetting
from jgroups_py.values.address import Address


def dump(schedule: BuddySchedule) -> str:
    steps = ",\n".join("  " + json.dumps([_plain(x) for x in step]) for step in schedule.steps)
    setting = msgspec.json.encode(schedule.setting).decode()
    return f'{{"kind": "buddies",\n "setting": {setting},\n "steps": [\n{steps}\n]}}\n'


def parse(text: str, file: str) -> BuddySchedule:
    """Read a schedule. Raises ``ConfigError``, naming ``file``."""
    try:
        raw = json.loads(text)
        setting = msgspec.convert(raw["setting"], WorldSetting)
        steps = tuple(_step(step) for step in raw["steps"])
    except (ValueError, KeyError, TypeError, IndexError, msgspec.ValidationError) as error:
        raise ConfigError(f"not a schedule: {error}", file=file) from None
    return BuddySchedule(setting, steps)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return "@" + value.decode()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _step(raw: Any) -> Step:
    if not isinstance(raw, list) or not raw or raw[0] not in KINDS:
        raise ValueError(f"no step: {raw!r:.80}")
    return tuple(_value(item) for item in raw)


def _value(raw: Any) -> Any:
    if isinstance(raw, str) and raw.startswith("@"):
        return Address(raw[1:].encode())
    if isinstance(raw, list):
        return tuple(_value(item) for item in raw)
    return raw
