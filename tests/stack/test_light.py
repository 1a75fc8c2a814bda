"""Light values are cheap to make and still behave like frozen dataclasses."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import ClassVar

import pytest

from jgroups_py.stack.ports import Datagram, SendTo
from jgroups_py.values.batch import Credit
from jgroups_py.values.events import Consumed
from jgroups_py.values.header import Header
from jgroups_py.values.light import light
from jgroups_py.wire.headers import (
    CorrelatorHeader,
    CorrelatorType,
    MultiDestinationHeader,
    NakAckHeader2,
    NakAckType,
    UnicastHeader3,
    UnicastType,
)

VALUES = (
    CorrelatorHeader(CorrelatorType.REQ, 7),
    NakAckHeader2(NakAckType.MSG, 7),
    UnicastHeader3(UnicastType.DATA, 7, conn_id=2, first=True),
    Datagram(1, b"x", ("127.0.0.1", 2)),
    SendTo(1, b"x", ("127.0.0.1", 2)),
    Consumed(()),
)


@light
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    names: list[str] = field(default_factory=list)
    y: int = field(default=3, kw_only=True)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_light_values_are_equal_hashed_shown_and_copied_as_frozen_ones(value: object) -> None:
    twin = replace(value)  # type: ignore[type-var]
    assert twin == value
    assert hash(twin) == hash(value)
    assert repr(twin) == repr(value)
    assert copy.deepcopy(value) == value
    assert pickle.loads(pickle.dumps(value)) == value
    assert not hasattr(value, "__dict__")


def test_light_values_do_not_pay_for_being_frozen() -> None:
    """Setting a field of a frozen dataclass calls a function, even when the object is made."""
    for value in VALUES:
        assert type(value).__setattr__ is object.__setattr__


def test_defaults_are_those_that_are_written() -> None:
    assert Point(1) == Point(1, [], y=3)
    assert Point(1).names is not Point(1).names
    with pytest.raises(TypeError):
        Point(1, [], 4)  # type: ignore[call-arg]


def test_a_users_header_may_be_frozen() -> None:
    @dataclass(frozen=True, slots=True)
    class Mine(Header):
        magic_id: ClassVar[int] = 2000
        value: int

    with pytest.raises(FrozenInstanceError):
        Mine(1).value = 2  # type: ignore[misc]


def test_a_class_that_checks_its_fields_cannot_be_light() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        x: int

        def __post_init__(self) -> None:
            raise ValueError

    with pytest.raises(TypeError, match="__post_init__"):
        light(Checked)


def test_a_header_within_a_run_differs_from_the_first_by_its_number() -> None:
    first = MultiDestinationHeader(CorrelatorType.REQ, 7, excluded=(None,))
    assert first.at(2) == MultiDestinationHeader(CorrelatorType.REQ, 9, excluded=(None,))
    assert CorrelatorHeader(CorrelatorType.RSP, 7, 5).at(2) == CorrelatorHeader(
        CorrelatorType.RSP, 9, 5
    )
    assert CorrelatorHeader(CorrelatorType.REQ, 0).at(2).request_id == 0
    header = UnicastHeader3(UnicastType.DATA, 7, 2, True, 4)
    assert header.at(3) == UnicastHeader3(UnicastType.DATA, 10, 2, True, 4)
    assert Credit(None, True, 1) == Credit(None, True, 1)  # type: ignore[arg-type]
