"""Every test vector decodes to its fields and encodes to its bytes; conversations decode whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jgroups_py.wire.primitives import parse_version
from jgroups_py.wire.text.kinds import KINDS, decode, decode_event, encode, interpret_fields

VECTORS = Path(__file__).parent / "vectors"
LATER = {"sym_encrypt", "compress"}


def _vectors() -> list[Any]:
    files = sorted(VECTORS.glob("*.json"))
    found = []
    for file in files:
        if not file.name.startswith("conversation_"):
            for vector in json.loads(file.read_text()):
                name = f"{file.stem}-{vector['name']}-{vector.get('version', '')}"
                found.append(pytest.param(vector, id=name))
    return found


ALL = _vectors()


def test_all_vectors_are_here() -> None:
    assert len(ALL) == 374
    kinds = {param.values[0]["kind"] for param in ALL}
    assert kinds - set(KINDS) == LATER


@pytest.mark.parametrize("vector", [p for p in ALL if p.values[0]["kind"] not in LATER])
def test_a_vector_is_read_and_written(vector: dict[str, Any]) -> None:
    version = parse_version(vector.get("version", "5.5.6"))
    data = bytes.fromhex(vector["hex"])
    assert decode(vector["kind"], data, version) == vector["fields"]
    assert encode(vector["kind"], vector["fields"], version).hex() == vector["hex"]


CONVERSATIONS = sorted(VECTORS.glob("conversation_*.json"))


@pytest.mark.parametrize("file", CONVERSATIONS, ids=lambda file: file.stem)
def test_a_conversation_is_understood(file: Path) -> None:
    conversation = json.loads(file.read_text())
    for event in conversation["events"]:
        if "action" in event:
            continue
        fields = decode_event(event)
        if "decoded" in event:
            assert fields == event["decoded"], event["summary"]
        if event["kind"] in ("packet", "tcp_frame", "mping_packet"):
            payloads = interpret_fields(fields)
            if "decoded" in event:
                assert payloads == event.get("payloads", [None] * len(payloads)), event["summary"]
        kind = event["kind"]
        if kind in ("packet", "tcp_frame", "tcp_connect", "mping_packet"):
            assert encode(kind, fields).hex() == event["hex"]
        elif kind in ("fd_sock2_frame", "gossip"):
            assert encode(kind, fields).hex() == event["hex"][8:]


def test_twenty_conversations_are_recorded() -> None:
    assert len(CONVERSATIONS) == 20
