"""A stack to which SEAL is added differs from the original by SEAL alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jgroups_py.config.file import load_stack
from jgroups_py.config.model import StackConfig
from jgroups_py.config.sealing import SEALED_BRIDGES, with_seal

RELAY = {"relay.site": "NYC"}


def plain(stack: StackConfig) -> list[tuple[str, list[tuple[str, str]]]]:
    """Names and attributes, without the places they have in files."""
    return [(p.name, [(a.key, a.text) for a in p.attributes]) for p in stack.protocols]


@pytest.mark.parametrize("name", ["udp.xml", "tcp.xml", "sim.xml", "relay-udp.xml"])
def test_seal_comes_directly_above_the_transport_and_all_else_stays(name: str) -> None:
    stack = load_stack(name, RELAY, environment={})
    sealed = with_seal(stack, {"seal.key_file": "ring.keys"})
    assert sealed.protocols[1].name == "SEAL"
    assert sealed.protocols[1].get("key_file") == "ring.keys"
    assert replace(sealed, protocols=(sealed.protocols[0], *sealed.protocols[2:])) == stack


def test_a_stack_that_has_seal_gets_no_second_one() -> None:
    sealed = with_seal(load_stack("udp.xml"), {"seal.key_file": "mine.keys"})
    assert with_seal(sealed, {"seal.key_file": "other.keys"}) is sealed


@pytest.mark.parametrize(("clear", "sealed"), SEALED_BRIDGES.items())
def test_the_sealed_bridge_is_the_clear_one_with_seal(clear: str, sealed: str) -> None:
    assert plain(load_stack(sealed)) == plain(with_seal(load_stack(clear)))
