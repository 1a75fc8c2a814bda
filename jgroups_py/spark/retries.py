"""again_elsewhere: runs a job again with another member when its member goes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from jgroups_py.export import ExportClient, NoMember
from jgroups_py.export.client import Address
from jgroups_py.spark.errors import is_lost_member, problem_of
from jgroups_py.spark.options import SparkOptions

A = TypeVar("A")
ATTEMPTS: Final = 3
"""The most times that a job is begun."""
SETTLE_SECONDS: Final = 60.0
"""The longest time that the next attempt waits until the others have noticed that a member is gone. By then all its messages have
arrived."""
SETTLE_EVERY: Final = 0.25

_log = logging.getLogger("jgroups_py.spark")


def again_elsewhere(options: SparkOptions, job: Callable[[int], A], attempts: int = ATTEMPTS) -> A:
    """Run ``job`` with the number of the attempt, from 0.

    Raises:
        Others: the error of the last attempt, or of one that failed for another reason than a lost member.
    """
    names = _present(options)
    for number in range(attempts):
        try:
            return job(number)
        except Exception as error:
            if number == attempts - 1 or len(options.members) < 2 or not is_lost_member(error):
                raise
            _log.warning("%s: done again at another member", problem_of(error))
            _settled(options, names)
    raise AssertionError("unreachable")


def _present(options: SparkOptions) -> dict[Address, str]:
    """Return the names of the members that can be reached. Raise WrongToken if one refuses the token."""
    found: dict[Address, str] = {}
    for address in options.members:
        try:
            with ExportClient(address, options.token) as client:
                found[address] = client.member
        except NoMember:
            continue
    return found


def _settled(options: SparkOptions, before: dict[Address, str]) -> None:
    """Return when the remaining members have a view without those that left."""
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        gone = set(before.values()) - set(_present(options).values())
        try:
            with options.connect() as client:
                said = client.describe(options.map, options.kind)
        except NoMember:
            if gone == set(before.values()):
                return  # no member is left: the next attempt reports it
        else:
            if not gone & set(said.members):
                return
        time.sleep(SETTLE_EVERY)
