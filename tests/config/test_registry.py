"""Protocol classes by name."""

import sys
from pathlib import Path

import pytest

from jgroups_py.errors import ConfigError
from jgroups_py.protocols import registry

OWN = """
from jgroups_py.stack.protocol import Protocol
class MINE(Protocol):
    protocol_id = 3000
NOT_ONE = 7
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_protocols.py").write_text(OWN)
    (tmp_path / "broken_protocols.py").write_text("import nothing_of_that_name\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_protocols", raising=False)
    return "own_protocols"


def test_a_protocol_of_the_users_is_named_by_its_import_path(own_module: str) -> None:
    assert registry.find(f"{own_module}.MINE").__name__ == "MINE"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("own_protocols.OTHER", "module own_protocols has no such class"),
        ("own_protocols.NOT_ONE", "is not a Protocol"),
        ("no_such_module.X", 'no module "no_such_module"'),
        ("NAKAK2", 'unknown protocol (did you mean "NAKACK2"?)'),
        ("XYZZY", "your own is named by its import path"),
        ("S3_PING", "does not have yet"),
        ("relay.RELAY3", "does not have yet"),
    ],
)
def test_a_name_that_leads_nowhere_is_explained(own_module: str, name: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.find(name)
    assert problem in caught.value.problem


def test_a_module_whose_own_import_fails_is_not_called_missing(own_module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        registry.find("broken_protocols.X")


def test_no_name_is_both_built_and_not() -> None:
    assert not registry.NOT_BUILT & set(registry.BUILT)
