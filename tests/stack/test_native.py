"""Compiled modules: substitutes for missing features of native classes, and users' plain classes beside them.

All of this runs in plain Python too. ``make test-compiled`` runs it where the modules are compiled.
"""

import ast
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from jgroups_py.protocols.reliable.nakack2.protocol import NAKACK2
from jgroups_py.stack.protocol import Batch, Event
from jgroups_py.testing import FakeStack
from jgroups_py.values.events import StateAwaited
from jgroups_py.values.native import attributes, compiled_modules, has_settings, slots
from jgroups_py.wire.headers import NakAckHeader2, NakAckType

ROOT = Path(__file__).resolve().parents[2]
NAMES = [
    line
    for line in (ROOT / "jgroups_py" / "compiled.txt").read_text().splitlines()
    if not line.startswith("#")
]


def _classes(name: str) -> list[ast.ClassDef]:
    path = ROOT / f"{name.replace('.', '/')}.py"
    return [one for one in ast.parse(path.read_text()).body if isinstance(one, ast.ClassDef)]


def test_every_module_to_compile_is_there() -> None:
    assert NAMES and len(set(NAMES)) == len(NAMES)
    for name in NAMES:
        assert find_spec(name) is not None, name


def test_modules_run_compiled_all_or_none() -> None:
    assert compiled_modules() in ([], NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if ".protocols." in name])
def test_settings_of_a_compiled_protocol_are_no_class_within_it(name: str) -> None:
    module = ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text())
    said = [ast.unparse(one) for one in module.body if isinstance(one, ast.Expr)]
    for cls in _classes(name):
        assert not any(isinstance(one, ast.ClassDef) for one in cls.body), "mypyc refuses that"
        for one in cls.body:
            if isinstance(one, ast.AnnAssign) and ast.unparse(one.target) == "Config":
                assert one.value is not None
                settings = ast.unparse(one.value)
                assert f"has_settings({cls.name}, {settings})" in said, "native classes lack it"


@pytest.mark.parametrize("name", [name for name in NAMES if ".protocols." in name])
def test_a_user_may_derive_from_a_compiled_protocol(name: str) -> None:
    for cls in _classes(name):
        if cls.name.isupper() or cls.name == "FlowControl":
            decorators = [ast.unparse(one) for one in cls.decorator_list]
            assert "mypyc_attr(allow_interpreted_subclasses=True)" in decorators, cls.name


class _Native:
    """A class as mypyc makes it: no ``__dict__``, and the names of fields in the class."""

    __slots__ = ()
    __mypyc_attrs__ = ("left", "right", "__dict__")

    @property
    def left(self) -> int:
        raise AttributeError("it is not set yet")

    @property
    def right(self) -> int:
        return 2


class _Plain(_Native):
    def __init__(self) -> None:
        super().__init__()
        self.more = 3


class _Slotted:
    __slots__ = ("__hidden", "left", "right")

    def __init__(self) -> None:
        self.__hidden, self.right = 1, 2


def test_attributes_are_found_wherever_an_instance_keeps_them() -> None:
    assert attributes(_Native()) == {"right": 2}
    assert attributes(_Plain()) == {"right": 2, "more": 3}
    assert attributes(_Slotted()) == {"_Slotted__hidden": 1, "right": 2}
    assert slots(_Plain) == ["left", "right"]


class COUNTING(NAKACK2):
    """A user's protocol in plain Python that derives from a compiled one."""

    protocol_id = 2001

    @dataclass(frozen=True, kw_only=True)
    class Config(NAKACK2.Config):
        step: int = 1

    config: Config

    def __init__(self, config: Config | None = None, **attributes: object) -> None:
        super().__init__(config, **attributes)
        self.seen = 0
        self.events = 0

    def down(self, batch: Batch) -> None:
        self.seen += self.config.step
        super().down(batch)

    def event_down(self, event: Event) -> None:
        self.events += 1
        self.pass_event_down(event)


def test_a_plain_subclass_has_its_own_settings_handlers_and_counters() -> None:
    fake = FakeStack(COUNTING(step=3, xmit_interval=2.0))
    fake.down(Batch(None, [b"x"], {}))
    (sent,) = fake.take_down()
    assert sent.headers[NAKACK2.protocol_id] == NakAckHeader2(NakAckType.MSG, 1)
    fake.event_down(StateAwaited(True))
    protocol = fake.protocol
    found = protocol.statistics()
    assert (found["seen"], found["events"], found["sent"]) == (3, 1, 1)
    assert "step=3" in repr(protocol) and "xmit_interval=2.0" in repr(protocol)


def test_settings_of_a_native_protocol_are_an_attribute() -> None:
    has_settings(_Native, COUNTING.Config)
    assert _Native.Config is COUNTING.Config  # type: ignore[attr-defined]
